"""What an agent waits for: an answer, a time, a question or a sleep of a tool; and each way in which a wait can end."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from perdure.agents.definition import AgentDefinition
from perdure.agents.tools import FunctionTool, ToolContext, function_tool
from perdure.agents.waiting import EventTimeoutError, TaskPending, ToolInputRequested, ToolTask
from perdure.core.codec import format_time
from perdure.core.entries import Actor
from perdure.core.head import Head
from perdure.core.history import UserItem
from perdure.core.wait_commands import EventArrived
from perdure.errors import ToolExecutionError
from perdure.models.base import ModelRequest
from perdure.models.scripted import Reply, ScriptedModel, call
from perdure.testing.simulation.agents import IDEMPOTENT, ONCE, Build
from perdure.testing.simulation.control_scenarios import any_end
from perdure.testing.simulation.ending import UNKNOWN, Ending
from perdure.testing.simulation.invariants import check
from perdure.testing.simulation.scenario import Compare, Scenario, same
from perdure.testing.simulation.world import User, World

Script = Callable[[User], Awaitable[None]]
ToolOf = Callable[[World], FunctionTool]

FIRST, SECOND = "Book me a seat.", "Forget it."

ANNA = Actor(issuer="local", subject="local")

TIME = timedelta(hours=6)
"""How long a person has to answer, and how long a sleep lasts: longer than a run takes to settle."""

LATER = TIME + timedelta(hours=1)
"""When all of that is over, and whatever follows from it."""


def _waiting(name: str, tool: ToolOf | None = None, **arguments: object) -> Build:
    """Return what builds an agent that calls one tool for the first message, and answers everything else."""

    def build(world: World) -> AgentDefinition:
        async def script(request: ModelRequest) -> Reply:
            await world.provider()
            last = request.messages[-1]
            if isinstance(last, UserItem) and last.text == FIRST:
                return Reply(text="Let me see.", calls=(call(name, **arguments),))
            return Reply(text="All done, thank you for your patience.")

        return AgentDefinition(
            name="simulated",
            model=ScriptedModel(script, clock=world.clock),
            tools=[tool(world)] if tool is not None else [],
            built_in_tools=[] if tool is not None else [name],
            question_deadline=TIME,
        )

    return build


def _asking_tool(world: World) -> FunctionTool:
    @function_tool(
        name="book", effect=ONCE, requires_approval=False, description="Books a seat that it asks for first."
    )
    async def book(context: ToolContext) -> str:
        if not context.answers:
            raise ToolInputRequested("Window or aisle?", deadline=TIME)
        await world.tool(context)
        return f"booked: {context.answers[-1].answer}"

    return book


def _sleeping_tool(world: World) -> FunctionTool:
    coats: list[str] = []

    def put_on() -> str:
        coats.append("white")
        return "white"

    @function_tool(
        name="paint",
        effect=IDEMPOTENT,
        requires_approval=False,
        description="Paints twice, and lets the paint dry between.",
    )
    async def paint(context: ToolContext) -> str:
        before = len(coats)
        coat = await context.step("first coat", put_on)
        await context.sleep("drying", TIME)
        if len(coats) > before:  # it was recorded, or nothing could have dried
            world.complaints.append("a recorded step was done again")
        await world.tool(context)
        return f"painted: {coat}"

    return paint


def _same_wait(clean: Ending, run: Ending, may_be_unknown: bool) -> list[str]:
    """How long somebody waited depends on when they ended it."""
    return same(_without_seconds(clean), _without_seconds(run), may_be_unknown)


def _without_seconds(ending: Ending) -> Ending:
    lines = (replace(line, text=_SECONDS.sub("", line.text)) for line in ending.transcript)
    return replace(ending, transcript=tuple(lines))


_SECONDS = re.compile(r', "waited_seconds": [0-9.]+')


def _unless_unknown(clean: Ending, run: Ending, may_be_unknown: bool) -> list[str]:
    """Where a worker died while a tool that runs once was at work, nobody is asked or waited for, and all may differ.

    Then nothing may be left over.
    """
    unknown = may_be_unknown and UNKNOWN in {status for _, _, status in run.calls.values()}
    return (any_end if unknown else same)(clean, run, may_be_unknown)


def _notified_tool(*, hesitates: bool = False) -> ToolOf:
    """Return a tool that waits for an event. `hesitates`: a while passes before it does."""

    def of(world: World) -> FunctionTool:
        @function_tool(name="order", effect=ONCE, requires_approval=False, description="Orders once it was paid.")
        async def order(context: ToolContext) -> str:
            await world.reach("in-order")
            if hesitates:
                await world.clock.sleep(1.0)
            try:
                paid = await context.wait_for_event("paid", within=TIME)
            except EventTimeoutError as error:
                raise ToolExecutionError("no money came") from error
            await world.tool(context)
            return f"ordered for {paid}"

        return order

    return of


def _remote_tool(every: timedelta, *, looks: int, asks: bool = False) -> ToolOf:
    """Return a tool that starts remote work.

    Args:
        every: Time between two looks.
        looks: How many looks find it pending.
        asks: Before any of these it wants to know something.
    """

    def of(world: World) -> FunctionTool:
        async def poll(_: str, context: ToolContext) -> str | TaskPending:
            await world.point("remote.looked at")
            seen, told = context.continuation
            told = context.resolution.status if context.resolution is not None else told
            if asks and told is None:
                raise ToolInputRequested("Express?", deadline=TIME, continuation=[seen, "asked"])
            return TaskPending(continuation=[seen + 1, told]) if seen < looks else f"printed; {told}"

        async def cancel(_: str, __: ToolContext) -> None:
            await world.point("remote.cancelled")

        @function_tool(
            name="print",
            effect=ONCE,
            requires_approval=False,
            description="Prints, somewhere far away.",
            poll=poll,
            cancel=cancel,
        )
        async def prints(context: ToolContext) -> ToolTask:
            await world.tool(context)
            return ToolTask(task_id="job-1", poll_interval=every, continuation=[0, None])

        return prints

    return of


@dataclass(frozen=True)
class _Kind:
    """A wait, and how it may end."""

    about: str
    agent: Build
    ends: tuple[str, ...]


_BY_PEOPLE = ("stopped", "steered", "paused")
_EARLIER_OR_LATER = ("timed-out", "skipped", "moved", "cancelled")

KINDS = {
    "question": _Kind(
        "a question of the model",
        _waiting("ask_user", question="Window or aisle?"),
        ("answered", "timed-out", "moved", *_BY_PEOPLE),
    ),
    "tool-question": _Kind(
        "a question of a tool", _waiting("book", _asking_tool), ("answered", "timed-out", *_BY_PEOPLE)
    ),
    "sleep": _Kind(
        "a wait of the model",
        _waiting("durable_wait", duration_seconds=TIME.seconds),
        (*_EARLIER_OR_LATER, *_BY_PEOPLE),
    ),
    "tool-sleep": _Kind("a sleep of a tool", _waiting("paint", _sleeping_tool), (*_EARLIER_OR_LATER, *_BY_PEOPLE)),
    "event": _Kind(
        "an event that a tool waits for",
        _waiting("order", _notified_tool()),
        ("arrived", "timed-out", "cancelled", *_BY_PEOPLE),
    ),
    "early-event": _Kind(
        "an event that comes before a tool waits for it",
        _waiting("order", _notified_tool(hesitates=True)),
        ("arrived-early",),
    ),
    "task": _Kind(
        "remote work",
        _waiting("print", _remote_tool(timedelta(minutes=1), looks=2)),
        ("timed-out", "cancelled-at-work", "stopped-at-work"),
    ),
    "long-task": _Kind(
        "remote work that is looked at every six hours",
        _waiting("print", _remote_tool(TIME, looks=0)),
        ("timed-out", "skipped", "cancelled", *_BY_PEOPLE),
    ),
    "task-question": _Kind(
        "a question of remote work",
        _waiting("print", _remote_tool(timedelta(minutes=1), looks=1, asks=True)),
        ("answered", "timed-out", "stopped"),
    ),
}


async def _begun(user: User) -> None:
    await user.send(FIRST)
    await user.settled()


async def _answered(user: User) -> None:
    await _begun(user)
    await user.answer("aisle")
    await user.settled()


async def _timed_out(user: User) -> None:
    await _begun(user)
    await user.wait(LATER)
    await user.settled()


async def _stopped(user: User) -> None:
    await _begun(user)
    await user.stop()
    await user.settled()
    check(not await user.waits(), "a stopped turn waits")
    await user.send(SECOND)
    await user.wait(LATER)
    await user.settled()


async def _steered(user: User) -> None:
    await _begun(user)
    await user.send(SECOND, delivery="steer")
    await user.wait(LATER)
    await user.settled()


async def _paused(user: User) -> None:
    """Pause, let the wait end, and resume."""
    await _begun(user)
    await user.do("pause")
    await user.answer("aisle")
    await user.wait(LATER)
    await user.do("resume")
    await user.settled()


async def _skip(user: User) -> None:
    for wait_id in await user.waits():
        await user.do("skip_wait", wait_id=wait_id)


async def _cancel(user: User) -> None:
    for wait_id in await user.waits():
        await user.do("cancel_wait", wait_id=wait_id)


async def _skipped(user: User) -> None:
    await _begun(user)
    await _skip(user)
    await user.settled()
    await user.wait(LATER)  # the timer that was set before does nothing
    await user.settled()


async def _moved(user: User) -> None:
    """Put the end off: at the time that held before, nothing may happen."""
    await _begun(user)
    moved = await user.waits()
    for wait_id in moved:
        await user.do("change_wait", wait_id=wait_id, until=format_time(user.now() + 2 * TIME))
    await user.wait(LATER)
    check(await user.waits() == moved, "what was moved ended at the time that held before")
    await user.wait(TIME)
    await user.settled()


async def _cancelled(user: User) -> None:
    await _begun(user)
    await _cancel(user)
    await user.wait(LATER)
    await user.settled()


def _comes(head: Head) -> EventArrived | None:
    calls = head.turn.open_calls if head.turn else ()
    call_id = next((call.call_id for call in calls), None)
    return EventArrived(call_id=call_id, name="paid", value=42, actor=ANNA) if call_id else None


async def _arrived(user: User) -> None:
    await _begun(user)
    await user.tell(_comes)
    await user.tell(_comes)  # a second time changes nothing
    await user.settled()


async def _arrived_early(user: User) -> None:
    """Bring the event while the tool is on its way to wait for it."""
    await user.send(FIRST)
    await user.when("in-order")
    await user.tell(_comes)
    await user.settled()
    check(not await user.waits(), "a tool waits for an event that has come")


def _at_work(end: Script) -> Script:
    async def script(user: User) -> None:
        await user.send(FIRST)
        await user.when("in-print")
        await user.wait(timedelta(seconds=90))
        await end(user)
        await user.settled()

    return script


async def _stop(user: User) -> None:
    await user.stop()


_WAYS: dict[str, Script] = {
    "answered": _answered,
    "timed-out": _timed_out,
    "skipped": _skipped,
    "moved": _moved,
    "cancelled": _cancelled,
    "arrived": _arrived,
    "arrived-early": _arrived_early,
    "cancelled-at-work": _at_work(_cancel),
    "stopped-at-work": _at_work(_stop),
    "stopped": _stopped,
    "steered": _steered,
    "paused": _paused,
}
"""How a wait ends."""

_WHOLE = (("question", "answered"), ("sleep", "timed-out"))
"""The small ones, of which each fault strikes at each point."""


def _compare(kind: str, way: str) -> Compare:
    if way.endswith("at-work"):  # it may come before the work has begun, or when it is over
        return any_end
    if kind == "sleep":
        return _same_wait
    return same if kind in ("question", "tool-sleep") else _unless_unknown


WAITS: tuple[Scenario, ...] = tuple(
    Scenario(
        name=kind if way == "arrived-early" else f"{kind}-{way}",
        about=f"{waits.about} that is {way.replace('-', ' ')}",
        agent=waits.agent,
        script=_WAYS[way],
        compare=_compare(kind, way),
        large=(kind, way) not in _WHOLE,
    )
    for kind, waits in KINDS.items()
    for way in waits.ends
)
