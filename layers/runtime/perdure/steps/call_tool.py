"""The tool step: one attempt to run one tool call. Writes that run once use the same code; the effect decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from perdure.agents.calls import unknown_tool
from perdure.agents.definition import AgentDefinition
from perdure.agents.runner import AgentFrameworkRunner, TaskRunner
from perdure.agents.stepwise import StepwiseRunner
from perdure.agents.tools import ToolContext
from perdure.agents.waiting import (
    AttemptOver,
    EventTimeoutError,
    Parked,
    ToolInputRequested,
    ToolTask,
)
from perdure.core import texts
from perdure.core.command import StepCommand
from perdure.core.commands import Taker, ToolFinished, ToolStarted
from perdure.core.entries import Entry
from perdure.core.head import Call
from perdure.core.ids import version_of
from perdure.core.limits import MAX_TOOL_OUTPUT_BYTES
from perdure.errors import ItemTooLargeError, ToolExecutionError
from perdure.models.surrogates import mended
from perdure.operator_events import LEASE_LOST, StepNames, tell
from perdure.ports import SessionKey
from perdure.steps.attempt import STEP_BUDGET, Attempt, claimed
from perdure.steps.base import StepDeps, StepMessage
from perdure.steps.commit import Executed
from perdure.steps.facts import CallFacts, facts_of
from perdure.steps.group import finish_in_line, finish_together, is_grouped
from perdure.steps.progress import Progress, shortened

JsonObject = dict[str, Any]

WATCH_SECONDS = 5.0
"""Time between two looks for a stop while a tool runs (design §3)."""


async def call_tool(deps: StepDeps, message: StepMessage, *, deadline: datetime | None = None) -> None:
    """Run one attempt of a tool call and commit its outcome."""
    async with claimed(deps.ports, message, deadline=deadline, watch_seconds=WATCH_SECONDS) as attempt:
        if attempt is None:
            return
        await run_call(deps, attempt)


call_single_attempt_tool = call_tool
"""The step of tools that run at most once. It has its own queue and function, so its own permissions."""


async def run_call(
    deps: StepDeps, attempt: Attempt, *, made_by: Entry | None = None, taker: Taker | None = None
) -> Executed | None:
    """Run a claimed attempt of a tool call. Returns what was committed; None when nobody wants the outcome.

    Args:
        made_by: The entry that stored the call, when the caller has it.
        taker: Goes on with the step that the outcome makes ready.
    """
    call = attempt.turn.call(attempt.step_id)
    assert call is not None, "HEAD expects this step"
    agent = deps.agents.get(attempt.head.agent or "")
    if agent is None:
        detail = f"agent {attempt.head.agent!r} is not part of this deployment"
        return await _can_not_run(deps, attempt, call, texts.did_not_run(detail))
    if agent.runner is None and agent.tool(call.tool_name) is None and agent.built_in(call.tool_name) is None:
        return await _can_not_run(deps, attempt, call, unknown_tool(agent, call.tool_name))
    attempt.deadline = min(attempt.deadline, attempt.started_at + min(agent.tool_timeout, STEP_BUDGET))
    facts = await facts_of(attempt.ports, attempt.key, call.call_id, call.records)
    approved = facts.arguments  # may be none at all
    arguments = approved if approved is not None else await _arguments(attempt, call, made_by)
    if not call.is_read and not await _may_start(attempt, call):
        return None
    ended = await _outcome(agent, attempt, call, arguments, facts)
    if ended is None or isinstance(ended, tuple):
        return await _finish(deps, attempt, call, *ended, taker) if ended is not None else None
    return await attempt.commit(ended, taker=taker)


async def _can_not_run(deps: StepDeps, attempt: Attempt, call: Call, why: str) -> Executed:
    """End an attempt without its body. What an earlier attempt did stays unknown (field case F134)."""
    return await _finish(deps, attempt, call, "failed" if call.started is None and not call.parked else "error", why)


async def _arguments(attempt: Attempt, call: Call, made_by: Entry | None) -> JsonObject:
    """Return the arguments that were checked when the call was stored."""
    version = version_of(call.call_id)
    assert version is not None, "a call's id is ours"
    entries: Sequence[Entry] = (made_by,) if made_by is not None and made_by.version == version else ()
    entries = entries or attempt.at_hand(version)[:1]
    if not entries:
        entries = await attempt.entries(version, version)
    for entry in entries:
        for message in entry.messages:
            for part in message.parts:
                if part.get("tool_call_id") == call.call_id and part["type"] == "tool_call":
                    return dict(part["arguments"])
    raise LookupError(f"the log of session {attempt.key.session_id} has no arguments for {call.call_id}")


async def _may_start(attempt: Attempt, call: Call) -> bool:
    """Record that a write is about to run, and have it confirmed, before its body runs (spec TOOL-07)."""
    if call.started == attempt.owner and call.started_attempt == attempt.number:
        return True  # in the commit that made it ready
    executed = await attempt.commit(ToolStarted(call_id=call.call_id, attempt=attempt.number, owner=attempt.owner))
    return bool(executed.reply.get("go"))


async def _outcome(
    agent: AgentDefinition, attempt: Attempt, call: Call, arguments: JsonObject, facts: CallFacts
) -> tuple[str, str] | StepCommand | None:
    """Run the body. Returns outcome and text, or that it goes on later; None when nobody wants the outcome any more."""
    progress = Progress(attempt)
    if call.is_read:  # a write's start is an event of its own commit
        await progress.say("tool_call_started", {"tool_call_id": call.call_id, "tool_name": call.tool_name})

    async def report(text: str) -> None:
        await progress.say("tool_progress", {"tool_call_id": call.call_id, **shortened(text)})

    from perdure.steps.durable import RecordedSteps  # with the first tool: few model steps run one themselves
    from perdure.steps.session_handle import StepSession

    runner = agent.runner or StepwiseRunner()
    supports_tasks = polls(agent, runner, call.tool_name)
    context = replace(
        context_of(attempt, call),
        report_progress=report,
        answers=tuple(facts.answers),
        continuation=facts.continuation,
        supports_tasks=supports_tasks,
        durable=RecordedSteps(attempt, call, facts, progress),
        checkpoint=await attempt.checkpoint(),
        save_checkpoint=attempt.save_checkpoint,
        session=StepSession(attempt),
    )
    try:
        output = await attempt.run(_body(runner, agent, context, arguments, attempt), cancel_on_abort=call.is_read)
    except (ToolInputRequested, Parked) as later:
        from perdure.steps.going_on import goes_on_later

        return goes_on_later(attempt, call, later)
    except AttemptOver as over:
        return "error", str(over)
    except ToolExecutionError as error:
        return "failed", failure_text(call, error)
    except EventTimeoutError as error:  # what is recorded: another attempt would hear the same
        return "failed" if call.is_read else "error", f"{call.tool_name} failed: {error}"
    except Exception as error:  # noqa: BLE001  whatever a tool raises is its outcome (spec TOOL-09)
        session_id, step_id = attempt.key.session_id, attempt.step_id
        named = StepNames(session_id=session_id, step_id=step_id, attempt=attempt.number)
        tell("fault", "a tool failed unexpectedly", error=error, tool_name=call.tool_name, **named)
        return "error", f"{call.tool_name} failed with {type(error).__name__}"
    finally:
        await progress.close()
    if isinstance(output, ToolTask):
        from perdure.steps.going_on import goes_on_as_task

        return goes_on_as_task(attempt, call, output, polls=supports_tasks)
    if output is not None:
        return within_limits(agent, call, output)
    if attempt.lost:
        tell("lease_lost", LEASE_LOST, session_id=attempt.key.session_id, step_id=attempt.step_id)
    if attempt.timed_out:
        return "error", f"{call.tool_name} did not end before its deadline"
    return None


def context_of(attempt: Attempt, call: Call) -> ToolContext:
    """Return what every function of a tool may know of its call."""
    return ToolContext(
        tenant=attempt.key.tenant,
        session_id=attempt.key.session_id,
        turn_id=attempt.turn.turn_id,
        tool_call_id=call.call_id,
        tool_name=call.tool_name,
        attempt=attempt.number,
        idempotency_key=idempotency_key(attempt.key, attempt.turn.turn_id, call.call_id),
        message_id=attempt.turn.message_id,
        deadline=attempt.deadline,
        abort=attempt.abort,
    )


def polls(agent: AgentDefinition, runner: AgentFrameworkRunner, tool_name: str) -> bool:
    """Whether somebody can look after remote work that this tool starts (spec TASK-09)."""
    tool = agent.tool(tool_name)
    return isinstance(runner, TaskRunner) and (tool is None or tool.poll is not None)


async def _body(
    runner: AgentFrameworkRunner,
    agent: AgentDefinition,
    context: ToolContext,
    arguments: JsonObject,
    attempt: Attempt,
) -> str | ToolTask:
    if agent.built_in(context.tool_name) is not None:
        from perdure.steps.built_ins import run_built_in  # most agents have none

        return await run_built_in(agent, attempt, context.tool_name, arguments)
    output = await runner.execute_tool(agent, context, arguments)
    if not isinstance(output, (str, ToolTask)):  # None would read as cut off, and anything else can't be stored
        raise TypeError(f"{context.tool_name} returned {type(output).__name__} where its output text was expected")
    return output


def within_limits(agent: AgentDefinition, call: Call, output: str) -> tuple[str, str]:
    """Return outcome and output as valid Unicode, or say that it is too large to be kept."""
    output = mended(output)  # a lone surrogate can't be stored: it becomes U+FFFD here, once and for all
    size = len(output.encode())
    if size > MAX_TOOL_OUTPUT_BYTES:
        return _output_not_kept(call, f"has {size} bytes, and at most {MAX_TOOL_OUTPUT_BYTES} are kept")
    if agent.errors_inside_outputs and call.is_read:  # a write that says so may still have done something
        from perdure.agents.errors_inside import error_inside

        return "succeeded" if error_inside(output) is None else "failed", output
    return "succeeded", output


def _output_not_kept(call: Call, why: str) -> tuple[Literal["succeeded", "failed"], str]:
    """Return how a call ends that succeeded with an output that is too large: what a write did stays done."""
    note = f"the output of {call.tool_name} {why}"
    return ("failed", note) if call.is_read else ("succeeded", f"{texts.NOTE} The tool succeeded, but {note}.")


def failure_text(call: Call, error: ToolExecutionError) -> str:
    text = mended(str(error.message))
    size = len(text.encode())
    if size > MAX_TOOL_OUTPUT_BYTES:
        return f"{call.tool_name} failed; its message has {size} bytes, and at most {MAX_TOOL_OUTPUT_BYTES} are kept"
    return text


def idempotency_key(key: SessionKey, turn_id: str, call_id: str) -> str:
    """Return the key of a call, the same for every attempt (spec TOOL-08)."""
    return f"{key.tenant}/{key.session_id}/{turn_id}/{call_id}"


async def _finish(
    deps: StepDeps, attempt: Attempt, call: Call, outcome: Any, output: str, taker: Taker | None = None
) -> Executed:
    finished = ToolFinished(
        turn_id=attempt.turn.turn_id,
        call_id=call.call_id,
        attempt=attempt.number,
        started_at=attempt.started_at,
        outcome=outcome,
        output=output,
    )
    if is_grouped(attempt, finished):
        if attempt.ports.results is None:
            return await finish_in_line(attempt, finished, deps.lines(attempt.key))
        return await finish_together(attempt, finished)
    try:
        return await attempt.commit(finished, taker=taker)
    except ItemTooLargeError as error:
        return await attempt.commit(_without_its_output(call, finished, error), taker=taker)


def _without_its_output(call: Call, finished: ToolFinished, error: ItemTooLargeError) -> ToolFinished:
    """Return how a call ends whose output no place can hold (spec STORE-03)."""
    why = f"has {len(finished.output.encode())} bytes and can't be stored ({error.message})"
    if finished.outcome != "succeeded":
        return replace(finished, output=f"{call.tool_name} failed; its message {why}")
    outcome, output = _output_not_kept(call, why)
    return replace(finished, outcome=outcome, output=output)
