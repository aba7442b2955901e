"""The steps of remote work: one look at it, and one try to have it stopped. Nothing is held between them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from perdure.agents.definition import AgentDefinition
from perdure.agents.execution import output_text, run_body
from perdure.agents.runner import TaskRunner
from perdure.agents.stepwise import StepwiseRunner
from perdure.agents.tools import ToolContext, running_tool
from perdure.agents.waiting import (
    DidNotHappenError,
    TaskPending,
    ToolInputRequested,
    kept_value,
    whole_seconds,
)
from perdure.core import texts
from perdure.core.commands import ToolFinished
from perdure.core.head import Call, Cancellation
from perdure.core.limits import LEASE_DURATION
from perdure.core.wait_commands import TaskCancelled, TaskLooked
from perdure.errors import ConfigurationError, ToolExecutionError
from perdure.operator_events import tell
from perdure.ports import SessionKey
from perdure.steps.attempt import Attempt, claimed
from perdure.steps.base import StepDeps, StepMessage
from perdure.steps.call_tool import (
    WATCH_SECONDS,
    context_of,
    failure_text,
    idempotency_key,
    polls,
    within_limits,
)
from perdure.steps.commit import execute, resend_unclaimed
from perdure.steps.facts import CallFacts, facts_of, versions_of
from perdure.steps.going_on import question_of
from perdure.steps.limited import in_time

LONGEST_LOOK = timedelta(minutes=2)
"""Longest run of one look at remote work. Our own choice: it only reads."""

LONGEST_CANCEL = timedelta(seconds=30)
"""Longest try to have remote work stopped (spec TASK-08)."""


async def poll_tool_task(deps: StepDeps, message: StepMessage, *, deadline: datetime | None = None) -> None:
    """Look once at the remote work of a call, or for what became of it, and commit what was seen."""
    async with claimed(deps.ports, message, deadline=deadline, watch_seconds=WATCH_SECONDS) as attempt:
        if attempt is None:
            return
        call = attempt.turn.call(attempt.step_id)
        assert call is not None, "HEAD expects this step"
        attempt.deadline = min(attempt.deadline, attempt.started_at + LONGEST_LOOK)
        seen = await _look(deps, attempt, call)
        if seen is not None:
            await attempt.commit(seen)


async def _look(deps: StepDeps, attempt: Attempt, call: Call) -> ToolFinished | TaskLooked | None:
    """Return what a look found; None when nobody wants to know any more."""
    assert call.task is not None, "it has one"
    agent = deps.agents.get(attempt.head.agent or "")
    if agent is None:
        return _ended(attempt, call, "error", f"agent {attempt.head.agent!r} is not part of this deployment")
    facts = await facts_of(attempt.ports, attempt.key, call.call_id, versions_of(call))
    resolution = facts.answers[-1] if call.task.resolution is not None and facts.answers else None
    context = replace(
        context_of(attempt, call),
        continuation=facts.continuation,
        answers=tuple(facts.answers),
        resolution=resolution,
        supports_tasks=True,
    )
    try:
        found = await attempt.run(_body(agent, context, call, facts), cancel_on_abort=True)
    except ToolInputRequested as asked:
        return _asks(attempt, call, asked, _interval(facts))
    except DidNotHappenError as error:
        return _ended(attempt, call, "failed", texts.did_not_run(failure_text(call, error)))
    except ToolExecutionError as error:
        return _ended(attempt, call, "failed", failure_text(call, error))
    except Exception as error:  # noqa: BLE001  whatever it raises is tried again (spec TASK-03)
        tell("fault", "a task could not be looked at", error=error, tool_name=call.tool_name)
        return _ended(attempt, call, "error", f"the task of {call.tool_name} failed with {type(error).__name__}")
    if isinstance(found, TaskPending):
        return TaskLooked(
            **attempt.named(call.call_id),
            interval=whole_seconds(found.poll_interval or _interval(facts)),
            continuation=kept_value(found.continuation, "a continuation"),
        )
    if isinstance(found, str):
        return _ended(attempt, call, *within_limits(agent, call, found))
    if attempt.timed_out:
        return _ended(attempt, call, "error", f"the look at the task of {call.tool_name} did not end in time")
    return None


async def _body(agent: AgentDefinition, context: ToolContext, call: Call, facts: CallFacts) -> str | TaskPending:
    assert call.task is not None, "it has one"
    tool = agent.tool(call.tool_name)
    if call.task.kind == "reconcile":
        if tool is None or tool.reconcile is None:
            raise LookupError(f"tool {call.tool_name} of agent {agent.name} finds out nothing")
        with running_tool(context):
            found = await run_body(tool.reconcile, {}, context.idempotency_key, context)
        return found if isinstance(found, TaskPending) else output_text(call.tool_name, found)
    runner = agent.runner or StepwiseRunner()
    if not isinstance(runner, TaskRunner) or not polls(agent, runner, call.tool_name):
        raise LookupError(texts.NO_POLLER)
    return await runner.poll_tool_task(agent, context, facts.task_id)


def _asks(attempt: Attempt, call: Call, asked: ToolInputRequested, interval: timedelta) -> TaskLooked | ToolFinished:
    try:
        return TaskLooked(
            **attempt.named(call.call_id),
            interval=interval,  # that of the looks behind the one that brings the answer
            continuation=kept_value(asked.continuation, "a continuation"),
            question=question_of(asked),
        )
    except (ValueError, ConfigurationError) as error:
        return _ended(attempt, call, "error", f"the task of {call.tool_name} can't ask this: {error}")


def _interval(facts: CallFacts) -> timedelta:
    return timedelta(seconds=facts.interval_seconds)


def _ended(attempt: Attempt, call: Call, outcome: Any, output: str) -> ToolFinished:
    return ToolFinished(**attempt.named(call.call_id), outcome=outcome, output=output)


async def cancel_tool_task(deps: StepDeps, message: StepMessage, *, deadline: datetime | None = None) -> None:
    """Ask remote work to stop, once. It belongs to no turn any more, so it holds its claim without a watch."""
    ports, key = deps.ports, message.key
    loaded = await ports.store.load(key)
    waiting = next((c for c in loaded.head.cancellations if c.step_id == message.step_id), None)
    if waiting is None or waiting.attempt != message.attempt:
        await resend_unclaimed(ports, key, loaded.head)
        return
    now = ports.clock.now()
    limit = min(now + LONGEST_CANCEL, deadline) if deadline is not None else now + LONGEST_CANCEL
    if not await ports.leases.claim(key, message.step_id, message.attempt, ports.new_id(), now + LEASE_DURATION):
        return
    of: dict[str, Any] = {"step_id": waiting.step_id, "attempt": waiting.attempt}
    if _can_stop(deps.agents.get(loaded.head.agent or ""), waiting.tool_name):
        done = await _cancelled(deps, key, loaded.head.agent, waiting, limit)
        await execute(ports, key, TaskCancelled(**of, done=done))
    else:
        await execute(ports, key, TaskCancelled(**of, done=False, final=True))


def _can_stop(agent: AgentDefinition | None, tool_name: str) -> bool:
    """Whether there is anybody to ask. False: the tool has no `cancel`. Of an agent that is gone nobody knows."""
    tool = agent.tool(tool_name) if agent is not None and agent.runner is None else None
    return tool is None or tool.cancel is not None


async def _cancelled(deps: StepDeps, key: SessionKey, name: str | None, waiting: Cancellation, limit: datetime) -> bool:
    agent = deps.agents.get(name or "")
    runner = agent.runner if agent is not None and agent.runner is not None else StepwiseRunner()
    if agent is None or not isinstance(runner, TaskRunner):
        return False
    facts = await facts_of(deps.ports, key, waiting.call_id, [waiting.task_version])
    context = ToolContext(
        tenant=key.tenant,
        session_id=key.session_id,
        turn_id=waiting.turn_id,
        tool_call_id=waiting.call_id,
        tool_name=waiting.tool_name,
        attempt=waiting.attempt,
        idempotency_key=idempotency_key(key, waiting.turn_id, waiting.call_id),
        deadline=limit,
        supports_tasks=True,
    )
    clock = deps.ports.clock
    try:
        seconds = (limit - clock.now()).total_seconds()
        await in_time(clock, seconds, runner.cancel_tool_task(agent, context, facts.task_id))
    except Exception as error:  # noqa: BLE001  whatever it raises, or that it takes too long, is tried again
        tell("fault", "remote work could not be asked to stop", error=error, tool_name=waiting.tool_name)
        return False
    return True
