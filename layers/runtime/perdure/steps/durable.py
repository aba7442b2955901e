"""The recorded steps, sleeps and events of a running tool (spec TOOL-25)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

from perdure.agents.execution import output_text, run_body
from perdure.agents.waiting import AttemptOver, EventTimeoutError, Parked, kept_value, own_event
from perdure.core.head import Call
from perdure.core.limits import MAX_RECORDS
from perdure.core.wait_commands import EventShown, OutputShown, StepRecorded
from perdure.errors import ConfigurationError, ToolExecutionError
from perdure.models.surrogates import mended
from perdure.steps.attempt import Attempt
from perdure.steps.facts import CallFacts
from perdure.steps.progress import Progress

MAX_NAME = 100
"""Length of a name within a tool, in characters. Our own choice."""

SHORT_SLEEP = timedelta(seconds=5)
"""A shorter sleep stays in the worker: to park and come back costs about as long (design §3)."""


class RecordedSteps:
    """`DurableSteps` of one attempt: what is in the log is not done again."""

    def __init__(self, attempt: Attempt, call: Call, facts: CallFacts, progress: Progress) -> None:
        self._attempt = attempt
        self._call = call
        self._facts = facts
        self._progress = progress
        self._used: set[str] = set()
        self._recorded = len(call.records)

    async def step(self, name: str, function: Callable[[], Awaitable[Any] | Any]) -> Any:
        """See `ToolContext.step`. After a stop no further step begins."""
        self._use(name)
        if name in self._facts.steps:
            return self._facts.steps[name]
        if self._attempt.abort.is_set():
            raise AttemptOver("its turn was stopped before its next step")
        if self._recorded >= MAX_RECORDS:
            raise ToolExecutionError(f"{self._call.tool_name} recorded {MAX_RECORDS} facts, the most one call may have")
        result = await run_body(function, {})
        try:
            value = kept_value(result, f"the result of step {name!r}")
        except ConfigurationError as error:  # it was done; to do it again would be worse than to say so
            raise ToolExecutionError(f"step {name!r} was done, but {error.message}") from error
        recorded = StepRecorded(
            turn_id=self._attempt.turn.turn_id,
            call_id=self._call.call_id,
            attempt=self._attempt.number,
            name=name,
            value=value,
        )
        executed = await self._attempt.commit(recorded)
        if not executed.reply.get("recorded"):
            raise AttemptOver("another attempt took its place")
        self._recorded += 1
        self._facts.steps[name] = value
        return value

    async def sleep(self, name: str, duration: timedelta) -> None:
        """See `ToolContext.sleep`."""
        self._use(name)
        if name in self._facts.sleeps or duration <= timedelta(0):
            return
        if duration < SHORT_SLEEP:
            await self._attempt.ports.clock.sleep(duration.total_seconds())
            return
        raise Parked(name, sleep=duration, event=False)

    async def wait_for_event(self, name: str, within: timedelta | None) -> Any:
        """See `ToolContext.wait_for_event`."""
        self._use(name)
        if name not in self._facts.events:
            raise Parked(name, sleep=within, event=True)
        arrived = self._facts.events[name]
        if arrived.get("timed_out"):
            raise EventTimeoutError(f"event {name!r} did not come in time")
        return arrived.get("value")

    async def show(self, output: Any) -> None:
        """See `ToolContext.show`."""
        shown = OutputShown(
            turn_id=self._attempt.turn.turn_id,
            call_id=self._call.call_id,
            attempt=self._attempt.number,
            output=output_text(self._call.tool_name, output),
        )
        await self._attempt.commit(shown)

    async def event(self, event_type: str, payload: Mapping[str, Any], *, durable: bool) -> None:
        """See `ToolContext.event`."""
        checked = own_event(event_type, payload)
        if not durable:
            await self._progress.say(event_type, checked)
            return
        await self._progress.flush()  # what was shown before it comes before it
        shown = EventShown(
            turn_id=self._attempt.turn.turn_id,
            call_id=self._call.call_id,
            attempt=self._attempt.number,
            event_type=event_type,
            payload=checked,
        )
        await self._attempt.commit(shown)

    def _use(self, name: str) -> None:
        if not 1 <= len(name) <= MAX_NAME:
            raise ConfigurationError(f"a step, sleep or event of a tool has a name of 1 to {MAX_NAME} characters")
        if mended(name) != name:  # no store takes it, and mended it could be another's
            raise ConfigurationError(f"the name {name!r} holds a lone surrogate, which is no character")
        if name in self._used:
            raise ConfigurationError(f"{self._call.tool_name} uses the name {name!r} twice: each is recorded once")
        self._used.add(name)
