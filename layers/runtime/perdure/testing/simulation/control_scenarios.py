"""People who control what runs: each delivery mode at each phase of a turn, pause, retry, waits, the inbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from perdure.core.inbox import DELIVERIES
from perdure.testing.simulation.agents import ONCE, READ, Build, agent, failing_model
from perdure.testing.simulation.ending import Ending, differences
from perdure.testing.simulation.scenario import Scenario
from perdure.testing.simulation.world import User

Script = Callable[[User], Awaitable[None]]

FIRST, SECOND = "Where is my order?", "No, cancel it."


def controlled(clean: Ending, run: Ending, may_be_unknown: bool) -> list[str]:
    """A fault may move what a person does to another moment of the turn, where it means something else, and is legal.

    Whatever it meant, all that was accepted is answered or removed, nothing waits, and every call has a legal end.
    """
    found = differences(clean, run, may_be_unknown=may_be_unknown)
    if not found:
        return []
    if run.work or run.pending or run.waiting or run.error or None in run.turns or run.turns[-1] != "turn_completed":
        return found
    if _said(run) != _said(clean):
        return found
    legal = {"succeeded", "rejected", *(["outcome_unknown"] if may_be_unknown else [])}
    odd = {status for _, _, status in run.calls.values()} - legal
    return [f"a turn has calls that are {odd}"] if odd else []


def _said(ending: Ending) -> list[str]:
    """Return what the user said, each message once."""
    return sorted(line.text for line in ending.transcript if line.role == "user" and line.status != "rehomed")


def _delivered(delivery: str, moment: str) -> Script:
    async def script(user: User) -> None:
        await user.send(FIRST)
        if moment == "in-approval":
            await user.settled()
        else:
            await user.when(moment)
        await user.send(SECOND, delivery=delivery)
        await _approved(user)
        await user.send("And now?")  # takes what is passive along
        await _approved(user)

    return script


PHASES: dict[str, Build] = {
    "in-model": agent(("look_up", READ), model_takes=10.0),
    "in-look_up": agent(("look_up", READ), tool_takes=10.0),
    "in-pay": agent(("pay", ONCE), tool_takes=10.0),
    "in-approval": agent(("pay", ONCE), asks=True),
}


async def _approved(user: User) -> None:
    """Approve whatever is asked, until nothing is."""
    await user.settled()
    while await user.approve() != "nothing":
        await user.settled()


async def _inject_then_stop(user: User) -> None:
    """Stop a turn after a message has joined it: the message goes back and has its own turn."""
    await user.send(FIRST)
    await user.when("in-look_up")
    await user.send(SECOND, delivery="inject")
    await user.wait(timedelta(seconds=12))
    await user.stop()
    await user.settled()


async def _pause_and_resume(user: User) -> None:
    await user.send(FIRST)
    await user.when("in-look_up")
    await user.do("pause")
    await user.send(SECOND)
    await user.wait(timedelta(minutes=10))
    await user.do("resume")
    await user.settled()


async def _pause_then_stop(user: User) -> None:
    await user.send(FIRST)
    await user.do("pause")
    await user.stop()
    await user.settled()
    await user.send(SECOND)
    await user.do("resume")
    await user.settled()


async def _retry_failed(user: User) -> None:
    """Retry until it works; a message waits meanwhile."""
    await user.send(FIRST)
    await user.settled()
    await user.send(SECOND)
    for number in range(3):
        await user.do("retry", retry_id=f"retry-{number}")
        await user.settled()


async def _dismiss_failed(user: User) -> None:
    await user.send(FIRST)
    await user.settled()
    await user.send(SECOND)
    await user.stop()
    await user.settled()


async def _retry_now(user: User) -> None:
    await user.send(FIRST)
    await user.wait(timedelta(seconds=5))
    await user.do("retry", retry_id="now")
    await user.settled()


async def _wait_it_out(user: User) -> None:
    await user.send(FIRST)
    await user.wait(timedelta(minutes=5))
    await user.settled()


async def _stop_as_shown(user: User) -> None:
    """Stop in the middle of a streamed answer, where the screen stands."""
    await user.send(FIRST)
    await user.when("in-answer")
    await user.stop_as_shown()
    await user.settled()
    await user.send(SECOND)
    await user.settled()


async def _stop_the_wait(user: User) -> None:
    await user.send(FIRST)
    await user.wait(timedelta(seconds=5))
    await user.stop()
    await user.settled()
    await user.send(SECOND)
    await user.wait(timedelta(minutes=5))
    await user.settled()


async def _change_the_inbox(user: User) -> None:
    await user.send(FIRST)
    await user.when("in-look_up")
    for text in ("one", "two", "three"):
        await user.send(text)
    waiting = await user.inbox()
    if len(waiting) == 3:
        one, two, three = waiting
        await user.do("edit", message_id=one, text="one, again")
        await user.do("move", message_id=three, before=one)
        await user.do("remove", message_id=two)
        await user.do("deliver", message_id=one, delivery="interrupt_next")
    await user.settled()


def any_end(clean: Ending, run: Ending, may_be_unknown: bool) -> list[str]:
    """Nothing is left over; what became of the messages depends on the moment (the invariants look at each)."""
    found = differences(clean, run, may_be_unknown=may_be_unknown)
    over = not (run.work or run.pending or run.waiting or None in run.turns)
    return [] if over else found


_LOOK = agent(("look_up", READ), tool_takes=10.0)

CONTROL: tuple[Scenario, ...] = (
    *(
        Scenario(
            name=f"{delivery}-{moment}",
            about=f"a message delivered as {delivery} {moment.replace('in-', 'in the ')}",
            agent=build,
            script=_delivered(delivery, moment),
            compare=controlled,
            large=(delivery, moment) not in (("steer", "in-model"), ("inject", "in-look_up")),
        )
        for delivery in DELIVERIES
        if delivery != "queue"
        for moment, build in PHASES.items()
    ),
    Scenario(
        name="inject-stopped",
        about="a stop after a message has joined the turn",
        agent=agent(("look_up", READ), tool_takes=10.0, answer_takes=10.0),
        script=_inject_then_stop,
        compare=any_end,
        large=True,
    ),
    Scenario(
        name="paused", about="a pause while a read runs", agent=_LOOK, script=_pause_and_resume, compare=controlled
    ),
    Scenario(
        name="paused-stopped",
        about="a stop in a pause",
        agent=_LOOK,
        script=_pause_then_stop,
        compare=any_end,
        large=True,
    ),
    Scenario(
        name="retried",
        about="a failed turn that is retried twice while a message waits",
        agent=failing_model(times=2, retryable=False),
        script=_retry_failed,
        compare=any_end,
    ),
    Scenario(
        name="dismissed",
        about="a failed turn that is dismissed while a message waits",
        agent=failing_model(times=1, retryable=False),
        script=_dismiss_failed,
        compare=any_end,
    ),
    Scenario(
        name="long-wait",
        about="a provider that asks for 40 seconds",
        agent=failing_model(times=1, retryable=True, retry_after=40.0),
        script=_wait_it_out,
        compare=any_end,
    ),
    Scenario(
        name="retry-now",
        about="a wait of 40 seconds that a person skips",
        agent=failing_model(times=1, retryable=True, retry_after=40.0),
        script=_retry_now,
        compare=any_end,
    ),
    Scenario(
        name="stop-as-shown",
        about="a stop in a streamed answer, with what the screen showed",
        agent=agent(delta_takes=2.0),
        script=_stop_as_shown,
        compare=any_end,
    ),
    Scenario(
        name="stop-in-wait",
        about="a stop while a reconnect waits",
        agent=failing_model(times=1, retryable=True, retry_after=40.0),
        script=_stop_the_wait,
        compare=any_end,
        large=True,
    ),
    Scenario(
        name="inbox",
        about="messages that are edited, moved, taken back and sent now",
        agent=_LOOK,
        script=_change_the_inbox,
        compare=any_end,
        large=True,
    ),
)
