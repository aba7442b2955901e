"""Stop policies: when a turn has seen enough, though its model would go on (spec MODEL-18)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from perdure.agents.step import StepContext, answered
from perdure.errors import ConfigurationError

MAX_STEPS = "max-steps"
"""Reserved for the runtime's own cap on the model calls of a turn (`max_model_calls`)."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StopPolicy:
    """Ends a turn before its next model call, once the results of the last one's tools are there.

    Attributes:
        name: Stored with the turn and published: `turn_completed {reason: "policy_stop", policy_name}`.
        when: Looks at the steps so far, sync or async. It is asked before every model call but a turn's first, and
            may be asked again after a crash, so it should depend on what it is given alone.
        tool_only: What the tools did is the turn's output, so that an agent that requires output accepts it.

    Raises:
        ConfigurationError: The name is none, or is reserved.
    """

    name: str
    when: Callable[[StepContext], bool | Awaitable[bool]]
    tool_only: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(f"the name of stop policy {self.name!r} must match {_NAME.pattern}")
        if self.name == MAX_STEPS:
            raise ConfigurationError(f"{MAX_STEPS!r} is the name of the runtime's own cap: rename the stop policy")


def stop_after(tool_name: str) -> StopPolicy:
    """Return the policy `after-<tool>`: the turn ends when this tool succeeded, and that is its output."""

    def succeeded(step: StepContext) -> bool:
        results = step.steps[-1].results
        return any(result.tool_name == tool_name and result.status == "succeeded" for result in results)

    return StopPolicy(name=f"after-{tool_name}", when=succeeded, tool_only=True)


def token_budget(limit: int, *, unknown: Literal["continue", "stop"] = "continue") -> StopPolicy:
    """Return the policy `token-budget`: the turn ends before a model call once it has used this many tokens.

    Counted is what the providers reported of all calls of the turn, input (cached too) and output together, across
    continuations, crashes, waits and approvals. The call that passes the limit is still paid, so a turn uses at most
    `limit` and one call more. A retry by a person is a turn of its own, with a budget of its own.

    Args:
        limit: Tokens, at least 1.
        unknown: What follows a call whose provider reported no figure, such as one that failed. It is never taken for
            zero: `continue` compares the rest, which is a floor, so that `max_model_calls` alone may bound the turn;
            `stop` ends the turn, because nobody can tell that the budget holds.

    Raises:
        ConfigurationError: The limit is below 1.
    """
    if limit < 1:
        raise ConfigurationError(f"a token budget of {limit} ends no turn sensibly: give at least 1")

    def spent(step: StepContext) -> bool:
        used = step.turn_usage
        if unknown == "stop" and {"input_tokens", "output_tokens"} & set(used.missing):
            return True
        return (used.input_tokens or 0) + (used.output_tokens or 0) >= limit

    return StopPolicy(name="token-budget", when=spent)


async def winner(policies: Sequence[StopPolicy], step: StepContext) -> StopPolicy | None:
    """Return the first policy, in the agent's order, that ends the turn here; None before the first step."""
    if not step.steps:
        return None
    for policy in policies:
        if await answered(policy.when(step)):
            return policy
    return None
