"""Messages that come at a time, what trusted code brings or begins, and outcomes that are looked up."""

from __future__ import annotations

from datetime import timedelta

from perdure.agents.definition import AgentDefinition
from perdure.agents.tools import ToolContext, function_tool
from perdure.agents.waiting import DidNotHappenError, TaskPending
from perdure.core import texts
from perdure.core.codec import format_time
from perdure.core.commands import UserCommand
from perdure.core.head import Head
from perdure.core.history import UserItem
from perdure.core.wait_commands import ResultBrought
from perdure.models.base import ModelRequest, ModelToolCall
from perdure.models.scripted import Reply, ScriptedModel, call
from perdure.testing.simulation.agents import ONCE, READ, Build, agent
from perdure.testing.simulation.control_scenarios import any_end
from perdure.testing.simulation.ending import UNKNOWN, Ending
from perdure.testing.simulation.invariants import check
from perdure.testing.simulation.scenario import Compare, Scenario, same
from perdure.testing.simulation.wait_scenarios import ANNA, FIRST, LATER, SECOND, TIME, Script
from perdure.testing.simulation.world import User, World

REPORT = "Write the report."

ONE_TIME = {"after": {"seconds": TIME.seconds}}
EVERY = {"every": {"seconds": TIME.seconds}, "time_zone": "UTC"}

WAIT = "schedule:report"

OUTPUT = "paid 12 euros"


async def _head(user: User) -> Head:
    seen: list[Head] = []

    def look(head: Head) -> None:
        seen.append(head)

    await user.tell(look)
    return seen[-1]


async def _set(user: User, when: object = ONE_TIME) -> None:
    """Set a schedule; a session may begin with it."""
    await user.do("set_schedule", schedule_id="report", text=REPORT, when=when)


async def _wait(user: User, time: timedelta) -> None:
    await user.wait(time)
    await user.settled()


# --- schedules --------------------------------------------------------------------------------------------------------


async def _fires(user: User) -> None:
    await _set(user)
    await _wait(user, LATER)
    check(not (await _head(user)).schedules, "a single schedule is there after its time")


async def _fires_into_a_turn(user: User) -> None:
    await user.send(FIRST)
    await user.when("in-look_up")
    await _set(user, {"after": {"seconds": 5}})
    await _wait(user, timedelta(minutes=10))


async def _fires_twice(user: User) -> None:
    await _set(user, EVERY)
    await _wait(user, 2 * TIME + timedelta(hours=1))
    check(len((await _head(user)).schedules) == 1, "a recurring schedule is over after its second time")
    await user.do("cancel_schedule", schedule_id="report")
    await _wait(user, LATER)


async def _cancelled(user: User) -> None:
    """Cancel before its time, then say something: it comes alone."""
    await _set(user)
    await user.do("cancel_schedule", schedule_id="report")
    await _wait(user, LATER)
    await user.send(SECOND)
    await user.settled()


async def _moved(user: User) -> None:
    """Put it off: at the time that held before, nothing may come."""
    await _set(user)
    await user.do("change_wait", wait_id=WAIT, until=format_time(user.now() + 2 * TIME))
    await _wait(user, LATER)
    check((await _head(user)).turn_count == 0, "what was moved came at the time that held before")
    await _wait(user, TIME)


async def _skipped(user: User) -> None:
    """Do not wait for it. The timer that was set before does nothing."""
    await _set(user)
    await user.do("skip_wait", wait_id=WAIT)
    await user.settled()
    check((await _head(user)).turn_count == 1, "what was skipped did not come at once")
    await _wait(user, LATER)


async def _paused(user: User) -> None:
    """Let its time come in a pause: the message waits for the end of it."""
    await _set(user)
    await user.do("pause")
    await _wait(user, LATER)
    head = await _head(user)
    check((head.turn_count, len(head.inbox)) == (0, 1), "a message of a pause does not wait once")
    await user.do("resume")
    await user.settled()


# --- outcomes that are looked up --------------------------------------------------------------------------------------


def _paying(*, breaks: bool) -> Build:
    """Return what builds an agent that pays once, and finds out in the bank's books whether it did.

    Args:
        breaks: The tool fails after its effect, so nobody knows the outcome.
    """

    def build(world: World) -> AgentDefinition:
        world.looks_up.add("pay")
        looks: list[str] = []

        async def script(request: ModelRequest) -> Reply:
            await world.provider()
            last = request.messages[-1]
            if isinstance(last, UserItem):
                return Reply(text="Let me pay.", calls=(call("pay"),))
            return Reply(text="That is all I know.")

        async def reconcile(_: str, context: ToolContext) -> str | TaskPending:
            await world.point("pay.looked up")
            looks.append(context.tool_call_id)
            if len(looks) == 1:
                return TaskPending()
            if not world.effects[context.tool_call_id]:
                world.refused.add(context.tool_call_id)  # a worker that is only slow may still be at it
                raise DidNotHappenError("the bank knows of no payment")
            return OUTPUT

        @function_tool(name="pay", effect=ONCE, requires_approval=False, description="Pays, once.", reconcile=reconcile)
        async def pay(context: ToolContext) -> str:
            await world.tool(context)
            if breaks:
                raise ConnectionError("the bank hung up")
            return OUTPUT

        return AgentDefinition(name="simulated", model=ScriptedModel(script, clock=world.clock), tools=[pay])

    return build


def _known(clean: Ending, run: Ending, may_be_unknown: bool) -> list[str]:
    """What became of it is always found out: it happened, or it did not."""
    found = same(clean, run, may_be_unknown)
    statuses = {status for _, _, status in run.calls.values()}
    if UNKNOWN in statuses:
        return ["an outcome that can be looked up is unknown"]
    if found and any(f": {texts.DID_NOT_RUN}" in line.text for line in run.transcript if line.role == "tool"):
        return any_end(clean, run, may_be_unknown)
    return found


async def _ask(user: User) -> None:
    await user.send(FIRST)
    await _wait(user, timedelta(minutes=30))


# --- what trusted code brings and begins ------------------------------------------------------------------------------


def _searching(world: World) -> AgentDefinition:
    """An agent whose provider searches, and does not say what it found: that is brought."""
    world.elsewhere.add("web_search")

    async def script(request: ModelRequest) -> Reply:
        await world.provider()
        last = request.messages[-1]
        if isinstance(last, UserItem) and last.text == FIRST:
            search = ModelToolCall(
                tool_name="web_search", arguments_text="{}", provider_call_id="search-1", provider_executed=True
            )
            return Reply(text="Let me search.", calls=(search,))
        return Reply(text="I have read it.")

    return AgentDefinition(name="simulated", model=ScriptedModel(script, clock=world.clock))


def _found(head: Head) -> UserCommand | None:
    calls = head.turn.open_calls if head.turn else ()
    if not calls:
        return None
    return ResultBrought(call_id=calls[0].call_id, tool_name="web_search", actor=ANNA, output="three hits")


async def _brought(user: User) -> None:
    await user.send(FIRST)
    await user.settled()
    await user.tell(_found)
    await user.tell(_found)  # a second time changes nothing
    await user.settled()


async def _brought_too_late(user: User) -> None:
    """Stop the turn; what is brought to it then changes nothing."""
    await user.send(FIRST)
    await user.settled()
    late = _found(await _head(user))
    check(late is not None, "no call waits for its result")
    await user.stop()
    await user.settled()
    await user.tell(lambda _: late)
    await user.send(SECOND)
    await user.settled()


async def _started(user: User) -> None:
    """Begin a session, twice, and say something."""
    check(await user.do("start") == "recorded", "a session was not begun")
    check(await user.do("start") == "already_recorded", "a session was begun twice")
    check((await _head(user)).turn_count == 0, "a session that was only begun has a turn")
    await user.send(FIRST)
    await user.settled()


_ANSWER = agent()
_LOOK = agent(("look_up", READ), tool_takes=30.0)

_OF_SCHEDULES: tuple[tuple[str, str, Build, Script], ...] = (
    ("fired", "comes into an idle session", _ANSWER, _fires),
    ("fired-in-look_up", "comes while a tool runs", _LOOK, _fires_into_a_turn),
    ("fired-twice", "recurs, and is cancelled", _ANSWER, _fires_twice),
    ("cancelled", "is cancelled before its time", _ANSWER, _cancelled),
    ("moved", "is put off", _ANSWER, _moved),
    ("skipped", "comes before its time", _ANSWER, _skipped),
    ("paused", "comes in a pause", _ANSWER, _paused),
)

_OTHERS: tuple[tuple[str, str, Build, Script, Compare], ...] = (
    ("looked-up", "a payment that may have been cut off, and is looked up", _paying(breaks=False), _ask, _known),
    ("looked-up-broken", "a payment that breaks, and is looked up", _paying(breaks=True), _ask, _known),
    ("brought", "a provider's result that is brought", _searching, _brought, same),
    ("brought-stopped", "a provider's result that is brought to a stopped turn", _searching, _brought_too_late, same),
    ("started", "a session that is begun without a message", _ANSWER, _started, same),
)

_WHOLE = ("schedule-fired", "started")
"""The small ones, of which each fault strikes at each point."""

SCHEDULES: tuple[Scenario, ...] = tuple(
    Scenario(name=name, about=about, agent=build, script=script, compare=compare, large=name not in _WHOLE)
    for name, about, build, script, compare in (
        *((f"schedule-{way}", f"a message that {what}", build, run, same) for way, what, build, run in _OF_SCHEDULES),
        *_OTHERS,
    )
)
