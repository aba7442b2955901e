"""From Lambda events to steps and back: batches, partial failures, deadlines and the container's event loop, once.

`functions/<step>/app.py` names the trigger and the step; everything else of a queue's function is here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from importlib import import_module
from typing import Any, Protocol, TypeVar, cast

from perdure.aws.bootstrap import Runtime
from perdure.aws.limits import DEADLINE_MARGIN
from perdure.aws.messages import (
    NoticeMessage,
    StepQueueMessage,
    TimerMessage,
    UnreadableMessageError,
    read_step_or_timer,
)
from perdure.core.expected import expected_timers
from perdure.errors import TransientError
from perdure.operator_events import OperatorEvent, tell
from perdure.ports import SessionKey
from perdure.steps.base import HotTurn, StepDeps, StepMessage
from perdure.steps.firing import FIRING_BUDGET

JsonObject = dict[str, Any]
Handler = Callable[[JsonObject, Any], JsonObject]
Fire = Callable[[StepDeps, SessionKey, str, int], Awaitable[object]]
M = TypeVar("M")

DEAD_LETTER_REASON = "its message could not be processed"


class Step(Protocol):
    """One step of `perdure.steps`."""

    def __call__(self, deps: StepDeps, message: StepMessage, *, deadline: datetime | None) -> Awaitable[object]: ...


def step_handler(
    step: Step, runtime: Callable[[], Runtime], *, hot: HotTurn | None = None, others: Mapping[str, str] | None = None
) -> Handler:
    """Return the handler of a queue of steps. A record that fails is received again; the others are done.

    Args:
        hot: The function goes on with the next step itself while it has time.
        others: Kinds of steps that share the queue, with the module of each; it is imported with the first of them.
    """

    def step_of(kind: str) -> Step:
        return step if kind not in (others or {}) else cast(Step, getattr(import_module((others or {})[kind]), kind))

    async def work(container: Runtime, message: StepQueueMessage, deadline: datetime | None) -> None:
        dispatch = message.dispatch
        if dispatch.not_before is not None and dispatch.not_before > container.clock.now():
            await container.queue.send(message.key, dispatch)  # the longest delay was too short
            return
        run = step_of(dispatch.kind)
        await run(replace(container.deps, hot=hot), StepMessage.of(message.key, dispatch), deadline=deadline)

    return _queue_handler(StepQueueMessage.read, work, runtime)


def timer_handler(fire: Fire, runtime: Callable[[], Runtime]) -> Handler:
    """Return the handler of the timers queue. A timer that comes early is sent again with the rest as its delay."""
    return _queue_handler(TimerMessage.read, partial(_take_timer, fire), runtime)


async def _take_timer(fire: Fire, container: Runtime, message: TimerMessage, _: datetime | None) -> None:
    """Fire a timer, within `FIRING_BUDGET`, or set it again if it is not due.

    One that is far from due stands in for a schedule that could not be made; nobody makes one for what HEAD does not
    expect any more.
    """
    if message.due_at > container.clock.now():
        far = container.timers.needs_schedule(message.timer)
        if not far or message.timer in expected_timers((await container.store.load(message.key)).head):
            await container.timers.set(message.key, message.timer)
        return
    async with asyncio.timeout(FIRING_BUDGET.total_seconds()):
        await fire(container.deps, message.key, message.timer_id, message.fence)


def dead_letter_handler(
    record: Callable[[StepDeps, StepMessage, str], Awaitable[object]],
    runtime: Callable[[], Runtime],
    *,
    fire: Fire | None = None,
) -> Handler:
    """Return the handler of the queues of dead letters: of steps and, with `fire`, of timers, which fire after all."""

    async def work(container: Runtime, message: StepQueueMessage | TimerMessage, _: datetime | None) -> None:
        if isinstance(message, StepQueueMessage):
            await record(container.deps, StepMessage.of(message.key, message.dispatch), DEAD_LETTER_REASON)
        elif fire is not None:
            await _take_timer(fire, container, message, None)

    return _queue_handler(read_step_or_timer if fire is not None else StepQueueMessage.read, work, runtime)


def notices_handler(runtime: Callable[[], Runtime]) -> Handler:
    """Return the handler of the notices queue: a sink is given what a session has for it."""

    async def work(container: Runtime, message: NoticeMessage, deadline: datetime | None) -> None:
        await container.notices.deliver(message, deadline)

    return _queue_handler(NoticeMessage.read, work, runtime)


def sweep_handler(sweep: Callable[[StepDeps], Awaitable[int]], runtime: Callable[[], Runtime]) -> Handler:
    """Return the handler of the schedule that looks after overdue sessions."""

    def handler(_event: JsonObject, _context: Any) -> JsonObject:
        container = runtime()

        async def work() -> int:
            return await sweep(container.deps)

        return {"sessions": container.run(work())}

    return handler


def _queue_handler(
    read: Callable[[str], M],
    work: Callable[[Runtime, M, datetime | None], Awaitable[None]],
    runtime: Callable[[], Runtime],
) -> Handler:
    """Return a handler that answers as `ReportBatchItemFailures` wants."""

    async def one(container: Runtime, record: JsonObject, deadline: datetime | None) -> bool:
        try:
            await work(container, read(record["body"]), deadline)
        except UnreadableMessageError as error:
            # After its last receive it is a dead letter, where a person can look at it.
            tell("fault", "a queue message is none of ours", error=error, message_id=record["messageId"])
            return False
        except Exception as error:  # noqa: BLE001 - whatever it is, the message comes again
            kind: OperatorEvent = "outage" if isinstance(error, TransientError) else "fault"
            tell(kind, "a queue message failed", error=error, message_id=record["messageId"])
            return False
        return True

    def handler(event: JsonObject, context: Any) -> JsonObject:
        container = runtime()
        deadline = deadline_of(context, container.clock.now())
        records: list[JsonObject] = event.get("Records", [])

        async def batch() -> list[bool]:
            return await asyncio.gather(*(one(container, record, deadline) for record in records))

        done = container.run(batch())
        failed = [record["messageId"] for record, ok in zip(records, done, strict=True) if not ok]
        return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}

    return handler


def deadline_of(context: Any, now: datetime) -> datetime | None:
    """Return when a step has to end: 30 s before its function would be killed (spec AWS-01). None: no function."""
    if context is None:
        return None
    return now + timedelta(milliseconds=context.get_remaining_time_in_millis()) - DEADLINE_MARGIN
