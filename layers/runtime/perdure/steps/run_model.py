"""The model step: one attempt to get the model's next answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from perdure.agents.definition import AgentDefinition
from perdure.agents.reconnect import ReconnectPolicy
from perdure.agents.runner import AgentFrameworkRunner, AgentTurnContext, ModelOutcome, history_options
from perdure.agents.stepwise import StepwiseRunner, requested_calls
from perdure.agents.waiting import own_event
from perdure.core.commands import AttemptLost, ModelFinished, ModelWaits, Reconnect, Taker
from perdure.core.expected import Dispatch, expected_dispatches
from perdure.core.history import HistoryOptions, Transcript
from perdure.core.usage import NO_USAGE, CallUsage
from perdure.errors import (
    ConfigurationError,
    ConflictError,
    ContextOverflowError,
    DatabaseUnusableError,
    ItemTooLargeError,
    ModelCallError,
    SettingsError,
    TransientError,
)
from perdure.models.base import Delta
from perdure.models.surrogates import mended
from perdure.operator_events import LEASE_LOST, OperatorEvent, tell
from perdure.ports import SessionKey
from perdure.steps.attempt import Attempt, claimed, taken
from perdure.steps.base import StepDeps, StepMessage
from perdure.steps.call_tool import WATCH_SECONDS as TOOL_WATCH_SECONDS
from perdure.steps.call_tool import run_call
from perdure.steps.commit import Executed
from perdure.steps.inactivity import Activity, unless_silent
from perdure.steps.prepare import NOTHING_SAID, StepEnd, policy_that_stops, step_end, with_settings, without_its_answer
from perdure.steps.progress import Progress
from perdure.steps.segments import Segments

JsonObject = dict[str, Any]

VIEWERS_TURNS = 2
"""Turns of the event loop that viewers in this process get before an answer is committed: one to wake, one to read. The
commit drops the deltas, and without these they would never see the last words come."""

LONGEST_HELD_WAIT = timedelta(seconds=5)
"""A wait before a reconnect that is longer is no worker's: its step comes back as a delayed message (spec U-7)."""

TIME_TO_GO_ON = timedelta(minutes=5)
"""Time that a worker must have left to take another step itself; our own choice."""

WATCH_SECONDS = 1.0
"""Time between two looks for a stop while a model runs (design §3)."""

_FAULTS_OF_THE_STORE = (TransientError, ConflictError, DatabaseUnusableError)
"""Nothing can be recorded then: the sweep finds the attempt when its lease has ended."""

_ERROR_CODES = {"auth": "auth", "credits": "credits", "timeout": "timeout"}
"""Model error kinds that a failed turn names; every other kind is `provider` (surface §4.2)."""


async def run_model(deps: StepDeps, message: StepMessage, *, deadline: datetime | None = None) -> None:
    """Run one attempt of a model step and commit how it ended; then, if `deps.hot` allows, the steps that follow."""
    first = deps.transcripts.version(message.key) + 1
    aside: list[asyncio.Task[None]] = []
    try:
        async with claimed(
            deps.ports,
            message,
            deadline=deadline,
            watch_seconds=WATCH_SECONDS,
            first=first,
            aside=aside if deps.hot is not None else None,
        ) as attempt:
            if attempt is None:
                return
            owner = attempt.owner
            done = await _ModelCall(deps, attempt).run()
        while done is not None:
            aside += [done.telling] if done.telling is not None else []
            dispatch = _taken(done, owner)
            done = await _go_on(deps, message.key, done, dispatch, deadline, aside) if dispatch is not None else None
    finally:
        await asyncio.gather(*aside, return_exceptions=True)


def _taken(done: Executed, owner: str) -> Dispatch | None:
    """Return the step that this worker took with its commit, or None."""
    if done.known is None or done.entry is None:
        return None
    return next((d for d in expected_dispatches(done.known.head) if d.claimed_by == owner), None)


async def _go_on(
    deps: StepDeps,
    key: SessionKey,
    done: Executed,
    dispatch: Dispatch,
    deadline: datetime | None,
    aside: list[asyncio.Task[None]],
) -> Executed | None:
    """Run the step that this worker took, without a queue between."""
    assert done.known is not None
    assert done.entry is not None
    deps.transcripts.add(key, done.entry)
    is_model = dispatch.kind == "run_model"
    async with taken(
        deps.ports,
        key,
        done.known,
        dispatch,
        deadline=deadline,
        watch_seconds=WATCH_SECONDS if is_model else TOOL_WATCH_SECONDS,
        aside=aside,
    ) as attempt:
        if is_model:
            return await _ModelCall(deps, attempt).run()
        return await run_call(deps, attempt, made_by=done.entry, taker=taker_of(deps, attempt))


def taker_of(deps: StepDeps, attempt: Attempt) -> Taker | None:
    """Return who goes on after this attempt's commit: this worker, if it may and has the time."""
    if deps.hot is None:
        return None
    if attempt.host_deadline is not None and attempt.host_deadline - attempt.ports.clock.now() < TIME_TO_GO_ON:
        return None
    return Taker(owner=attempt.owner, any_tool=deps.hot.any_tool)


class _PutOff(Exception):  # noqa: N818  no error: the way out of a call that waits
    """The provider is to be called again after a wait that is too long to hold."""

    def __init__(self, delay: timedelta) -> None:
        super().__init__()
        self.delay = delay


@dataclass(slots=True)
class _ModelCall:
    """The provider calls of one attempt, and what is gathered on the way."""

    deps: StepDeps
    attempt: Attempt
    shown: Segments = field(default_factory=Segments)
    usage: list[CallUsage] = field(default_factory=list)
    reconnects: list[Reconnect] = field(default_factory=list)
    retried_partial: str = ""
    progress: Progress = field(init=False)
    activity: Activity = field(init=False)

    def __post_init__(self) -> None:
        self.progress = Progress(self.attempt)
        self.activity = Activity(self.attempt.ports.clock)

    async def run(self) -> Executed | None:
        """Run the attempt. Returns what was committed; None when nobody wants the outcome."""
        attempt = self.attempt
        if attempt.turn.stop is not None:
            return await self._finish(ending="aborted")
        agent = self.deps.agents.get(attempt.head.agent or "")
        if agent is None:
            message = (
                f"agent {attempt.head.agent!r} is not part of this deployment: deploy it again, or start a new session"
            )
            return await self._finish(ending="failed", error_code="configuration", error_message=message)
        return await self._run(agent)

    async def _run(self, agent: AgentDefinition) -> Executed | None:
        attempt = self.attempt
        try:
            try:
                end = await attempt.run(self._ended(agent), cancel_on_abort=True)
            finally:
                await self.progress.close()
            if end is not None:
                return await self._finish_with(agent, end)
        except _PutOff as put_off:
            return await self._put_off(put_off.delay)
        except ModelCallError as error:
            code = _ERROR_CODES.get(error.kind, "provider")
            return await self._finish(
                ending="failed",
                error_code=code,
                error_message=error.message,
                credential=agent.credential_version(),
            )
        except (ContextOverflowError, SettingsError) as error:
            return await self._finish(ending="failed", error_code=error.code, error_message=error.message)
        except (ConfigurationError, ItemTooLargeError) as error:
            return await self._finish(ending="failed", error_code="internal", error_message=error.message)
        except _FAULTS_OF_THE_STORE:
            raise
        except Exception as error:  # noqa: BLE001  any fault of a runner counts as a lost attempt (spec MODEL-07)
            # Also one that shows only when its outcome is checked or stored, such as an item that is no JSON.
            tell("fault", "a model step failed unexpectedly", error=error, session_id=attempt.key.session_id)
            return await self._give_up(f"the model step failed with {type(error).__name__}", "internal")
        if attempt.lost:
            tell("lease_lost", LEASE_LOST, session_id=attempt.key.session_id, step_id=attempt.step_id)
            return None
        if attempt.timed_out:
            return await self._give_up("the model step ran into its deadline", "timeout")
        return await self._finish(ending="aborted", parts=self.shown.parts())

    async def _ended(self, agent: AgentDefinition) -> StepEnd:
        """Do the step: ask the stop policies, else the provider, and look at what would end the turn."""
        context = await with_settings(agent, await self._context(agent))
        policy = await policy_that_stops(agent, context)
        outcome = NOTHING_SAID if policy is not None else await self._answered(agent, context)
        parts, last = self.shown.parts_of(outcome), self._limit_reached(agent)
        return await step_end(agent, context, outcome, policy, parts=parts, last=last)

    async def _answered(self, agent: AgentDefinition, context: AgentTurnContext) -> ModelOutcome:
        """Call the provider, and call it again while the failures allow it."""
        runner: AgentFrameworkRunner = agent.runner or StepwiseRunner()
        await self.progress.say("model_started", {})
        while True:
            try:
                asking = runner.run_model_step(agent, replace(context, retried_partial=self.retried_partial))
                outcome = await unless_silent(asking, self.activity, agent.inactivity_timeout)
            except ModelCallError as error:
                self.usage.append(NO_USAGE)
                await self._wait_to_reconnect(agent.reconnect, error)
            except asyncio.CancelledError:
                self.usage.append(NO_USAGE)  # it was made, and what it cost is not known
                raise
            else:
                self.usage.append(outcome.usage)
                for _ in range(VIEWERS_TURNS if self.attempt.ports.in_process else 0):
                    await asyncio.sleep(0)
                return outcome

    async def _wait_to_reconnect(self, policy: ReconnectPolicy, error: ModelCallError) -> None:
        number = self.attempt.turn.reconnects + len(self.reconnects) + 1
        delay = policy.delay_before(number, error)
        if delay is None:
            raise error
        clock = self.attempt.ports.clock
        reset = bool(self.shown)
        if error.kind == "rate_limited":
            tell(
                "throttled",
                "a model's provider asks for patience",
                session_id=self.attempt.key.session_id,
                code=error.kind,
            )
        retry_in_ms = round(delay.total_seconds() * 1000)
        self.reconnects.append(
            Reconnect(at=clock.now(), retry_in_ms=retry_in_ms, number=number, reason=error.kind, partial=reset)
        )
        if reset:
            self.retried_partial = self.shown.said("text") if policy.partial == "echo" else ""
            self.shown.clear()
            await self.progress.say("attempt_reset", {"reason": error.kind})
        await self.progress.say(
            "model_retry_scheduled", {"retry_in_ms": retry_in_ms, "attempt": number, "reason": error.kind}
        )
        await self.progress.flush()
        told: OperatorEvent = "throttled" if error.kind == "rate_limited" else "outage"
        tell(told, "a model is asked again", session_id=self.attempt.key.session_id, code=error.kind, count=number)
        if delay > LONGEST_HELD_WAIT:
            raise _PutOff(delay)
        await clock.sleep(delay.total_seconds())

    async def _put_off(self, delay: timedelta) -> Executed:
        """Let the step come back when the wait is over; nobody holds it until then."""
        attempt = self.attempt
        waits = ModelWaits(
            turn_id=attempt.turn.turn_id,
            step_id=attempt.step_id,
            attempt=attempt.number,
            started_at=attempt.started_at,
            retry_in=delay,
            usage=tuple(self.usage),
            reconnects=tuple(self.reconnects),
            partial=mended(self.retried_partial) or None,
        )
        return await attempt.commit(waits)

    async def _transcript(self, options: HistoryOptions) -> Transcript:
        """Take the session's conversation, reading only entries that this process has not seen."""
        attempt = self.attempt
        transcript = self.deps.transcripts.take(attempt.key, options)
        first = transcript.version + 1
        if first <= attempt.head.version:
            entries = attempt.at_hand(first)
            if not entries:
                entries = await attempt.entries(first, attempt.head.version)
            transcript.extend(entries)
        return transcript

    async def _context(self, agent: AgentDefinition) -> AgentTurnContext:
        attempt = self.attempt
        transcript = await self._transcript(history_options(agent))
        context = AgentTurnContext(
            tenant=attempt.key.tenant,
            session_id=attempt.key.session_id,
            turn_id=attempt.turn.turn_id,
            step_execution_id=attempt.step_id,
            attempt=attempt.number,
            history=transcript.items(),
            emit=self._emit,
            run_state=transcript.run_state if attempt.turn.model_version is not None else None,
            offer_tools=attempt.turn.model_calls < agent.max_model_calls,
            interaction_mode=attempt.head.interaction_mode,
            deadline=attempt.deadline,
            abort=attempt.abort,
            settings=transcript.settings,
            turn_start=transcript.turn_start,
            last_prompt_tokens=transcript.last_prompt_tokens,
            turn_usage=attempt.turn.usage,
            values=transcript.values,
            event=self._event,
            alive=self.activity.seen,
        )
        self.retried_partial = transcript.partial if agent.reconnect.partial == "echo" else ""
        self.deps.transcripts.put_back(attempt.key, transcript)
        return context

    async def _emit(self, delta: Delta) -> None:
        self.activity.seen()
        event = self.shown.take(delta)
        if event is not None:
            await self.progress.say(*event)

    async def _event(self, event_type: str, payload: Mapping[str, Any]) -> None:
        self.activity.seen()
        await self.progress.say(event_type, own_event(event_type, payload))

    def _limit_reached(self, agent: AgentDefinition) -> bool:
        return self.attempt.turn.model_calls >= agent.max_model_calls

    async def _finish_with(self, agent: AgentDefinition, end: StepEnd) -> Executed:
        outcome, policy = end.outcome, end.policy.name if end.policy else None
        said: dict[str, Any] = {
            "parts": self.shown.parts_of(outcome),
            "provider": outcome.provider,
            "stop_policy": policy,
        }
        if end.complaint is not None:
            return await self._finish(ending="not_accepted", error_message=end.complaint, **said)
        asked = outcome.ending == "tool_calls"
        return await self._finish(
            ending=outcome.ending,
            calls=requested_calls(agent, outcome.calls, outcome.offered) if asked else (),
            run_state=outcome.run_state,
            call_limit=agent.max_model_calls,
            limit_reached=self._limit_reached(agent),
            answered=asked and all(call.provider_executed and call.output is not None for call in outcome.calls),
            **said,
        )

    async def _finish(self, *, error_message: str = "", **outcome: Any) -> Executed:
        attempt = self.attempt
        agent = self.deps.agents.get(attempt.head.agent or "")
        if agent is not None:
            outcome["approval_mode"] = agent.approval_mode
            outcome["one_by_one"] = agent.approval_order == "sequential"
            outcome["titles"] = agent.title_model is not None
        command = ModelFinished(
            turn_id=attempt.turn.turn_id,
            step_id=attempt.step_id,
            attempt=attempt.number,
            started_at=attempt.started_at,
            usage=tuple(self.usage),
            reconnects=tuple(self.reconnects),
            error_message=mended(error_message),
            **outcome,
        )
        taker = taker_of(self.deps, attempt)
        try:
            return await attempt.commit(command, taker=taker)
        except ItemTooLargeError as error:
            # The provider would only be paid again for it, so what fits nowhere is left out (spec STORE-03).
            return await attempt.commit(without_its_answer(command, error), taker=taker)

    async def _give_up(self, reason: str, code: str) -> Executed:
        """Record this very attempt as lost; we hold its claim, so nobody else can."""
        attempt = self.attempt
        lost = AttemptLost(
            step_id=attempt.step_id,
            attempt=attempt.number,
            claimed=True,
            reason=reason,
            error_code=code,
            turn_id=attempt.turn.turn_id,
            # What a runner of somebody else's returned may be anything.
            usage=tuple(row for row in self.usage if isinstance(row, CallUsage)),  # type: ignore[redundant-expr]
        )
        return await attempt.commit(lost)
