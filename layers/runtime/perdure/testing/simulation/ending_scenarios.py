"""A retry after each way in which a turn fails, and an injected message whose turn ends in each way but an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from perdure.testing.simulation.agents import ONCE, READ, agent, failing_model
from perdure.testing.simulation.control_scenarios import FIRST, SECOND, controlled
from perdure.testing.simulation.scenario import Scenario
from perdure.testing.simulation.world import User

THIRD = "Forget that."


async def _retry(user: User) -> None:
    await user.send(FIRST)
    await user.settled()
    await user.do("retry", retry_id="once")
    await user.settled()


async def _inject_into_a_failing_turn(user: User) -> None:
    """What joined goes back and is held behind the failed turn, until that is dismissed."""
    await user.send(FIRST)
    await user.when("in-look_up")
    await user.send(SECOND, delivery="inject")
    await user.settled()
    await user.stop()
    await user.settled()


def _inject_then(delivery: str) -> Callable[[User], Awaitable[None]]:
    async def script(user: User) -> None:
        await user.send(FIRST)
        await user.when("in-look_up")
        await user.send(SECOND, delivery="inject")
        await user.wait(timedelta(seconds=12))  # it has joined, and the tool runs again
        await user.send(THIRD, delivery=delivery)
        await user.settled()

    return script


ENDINGS: tuple[Scenario, ...] = (
    *(
        Scenario(
            name=f"retried-{how}",
            about=f"a retry after a call of the model that ended as {how}",
            agent=agent(fails_at=1, fails_as=how),
            script=_retry,
            compare=controlled,
            large=True,
        )
        for how in ("auth", "length")
    ),
    Scenario(
        name="retried-reconnects",
        about="a retry after a turn that used up its reconnects",
        agent=failing_model(times=6, retryable=True),
        script=_retry,
        compare=controlled,
        large=True,
    ),
    Scenario(
        name="retried-behind-a-write",
        about="a retry of the call behind a write, which does not run again",
        agent=agent(("pay", ONCE), fails_at=2),
        script=_retry,
        compare=controlled,
        large=True,
    ),
    Scenario(
        name="inject-failed",
        about="a turn that fails after a message has joined it",
        agent=agent(("look_up", READ), tool_takes=10.0, fails_at=2),
        script=_inject_into_a_failing_turn,
        compare=controlled,
        large=True,
    ),
    *(
        Scenario(
            name=f"inject-then-{delivery}",
            about=f"a turn that a message joined gives way to another one, delivered as {delivery}",
            agent=agent(("look_up", READ), tool_takes=10.0),
            script=_inject_then(delivery),
            compare=controlled,
            large=True,
        )
        for delivery in ("steer", "interrupt_next", "supersede")
    ),
)
