"""What the loop does around a provider call, whoever makes it: settings, stop policies, and what may end a turn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from perdure.agents.acceptance import Answer, complaint_about
from perdure.agents.definition import AgentDefinition
from perdure.agents.prepare import step_context
from perdure.agents.runner import AgentTurnContext, ModelOutcome
from perdure.agents.settings import effective_settings
from perdure.agents.stop_policies import StopPolicy, winner
from perdure.core.commands import ModelFinished
from perdure.errors import ItemTooLargeError

JsonObject = dict[str, Any]

NOTHING_SAID = ModelOutcome(ending="answer")
"""The outcome of a step that a stop policy ended before its provider call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnd:
    """How a model step ended.

    Attributes:
        policy: The stop policy that ended the turn instead of a provider call.
        complaint: Why the answer is not accepted, for the session's owner. None: it is, or the turn goes on.
    """

    outcome: ModelOutcome
    policy: StopPolicy | None = None
    complaint: str | None = None


async def with_settings(agent: AgentDefinition, context: AgentTurnContext) -> AgentTurnContext:
    """Return the step with its settings resolved.

    Raises:
        SettingsError: The agent's resolver failed.
    """
    if agent.settings_resolver is None:
        return context
    return replace(context, settings=await effective_settings(agent, step_context(agent, context)))


async def policy_that_stops(agent: AgentDefinition, context: AgentTurnContext) -> StopPolicy | None:
    """Return the stop policy that ends the turn before this step, if one does."""
    return await winner(agent.stop_policies, step_context(agent, context)) if agent.stop_policies else None


async def step_end(
    agent: AgentDefinition,
    context: AgentTurnContext,
    outcome: ModelOutcome,
    policy: StopPolicy | None,
    *,
    parts: tuple[JsonObject, ...],
    last: bool,
) -> StepEnd:
    """Return how a step ended, with the complaint about an answer that would end the turn.

    Args:
        parts: Those of its message.
        last: The turn ends here even if the model asked for tools, because it reached its cap.
    """
    if agent.acceptance == "allow_empty" or not (last or outcome.ending == "answer"):
        return StepEnd(outcome=outcome, policy=policy)
    said = outcome.text
    if policy is not None:
        said = step_context(agent, context).steps[-1].text
    answer = Answer(
        session_id=context.session_id,
        turn_id=context.turn_id,
        text=said,
        parts=parts,
        settings=context.settings,
        stop_policy=policy.name if policy else None,
        tool_only=policy is not None and policy.tool_only,
    )
    return StepEnd(outcome=outcome, policy=policy, complaint=await complaint_about(agent.acceptance, answer))


def without_its_answer(command: ModelFinished, error: ItemTooLargeError) -> ModelFinished:
    """Return how a step ends whose answer no place can hold: failed, or stopped as it was."""
    return replace(
        command,
        ending="aborted" if command.ending == "aborted" else "failed",
        parts=(),
        provider=None,
        calls=(),
        run_state=None,
        error_code="internal",
        error_message=f"the model's answer can't be stored: {error.message}",
    )
