"""Effects and policies: what a tool may do to the world, and who has to agree first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from perdure.errors import ConfigurationError

Effect = Literal["read", "idempotent_write", "non_idempotent_write", "unclassified"]
EFFECTS: tuple[Effect, ...] = ("read", "idempotent_write", "non_idempotent_write", "unclassified")
DEFAULT_EFFECT: Effect = "unclassified"
"""The safest route: runs once, after an approval (spec TOOL-28)."""

ApprovalRule = bool | Callable[[Mapping[str, Any]], Literal["approved", "ask"]]
"""Whether a call needs an approval, or a pure function of its validated arguments that says so (spec APPR-05)."""

MAX_APPROVAL_DEADLINE = timedelta(days=3653)
"""Our own choice: ten years are longer than anybody waits, and far from the last day that a clock can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPolicy:
    """Overrides what a tool says of itself. None leaves the tool's own word.

    Attributes:
        approval_deadline: How long a person has to decide, at most ten years; then the call is rejected. None: no end.
    """

    effect: Effect | None = None
    requires_approval: ApprovalRule | None = None
    approval_deadline: timedelta | None = None

    def __post_init__(self) -> None:
        check_effect(self.effect, "a tool policy")
        if self.approval_deadline is not None and not timedelta(0) < self.approval_deadline <= MAX_APPROVAL_DEADLINE:
            raise ConfigurationError(
                "the approval_deadline of a tool policy must be longer than zero, and at most ten years: "
                "leave it out to wait for ever"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectivePolicy:
    """What holds for one tool: its own word, overridden by the agent's policy, then the agent's default."""

    effect: Effect
    requires_approval: ApprovalRule
    approval_deadline: timedelta | None = None

    def needs_approval(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a call with these validated arguments waits for a person. Decided once and stored with the call."""
        if callable(self.requires_approval):
            return self.requires_approval(arguments) != "approved"
        return self.requires_approval


def effective_policy(
    *,
    own_effect: Effect | None,
    own_approval: ApprovalRule | None,
    policy: ToolPolicy | None,
    default_effect: Effect,
) -> EffectivePolicy:
    """Resolve a tool's policy (spec TOOL-03). Writes that run once ask for approval unless told otherwise."""
    policy = policy or ToolPolicy()
    effect = policy.effect or own_effect or default_effect
    approval = policy.requires_approval if policy.requires_approval is not None else own_approval
    if approval is None:
        approval = effect in ("non_idempotent_write", "unclassified")
    return EffectivePolicy(effect=effect, requires_approval=approval, approval_deadline=policy.approval_deadline)


def check_effect(effect: object, whose: str) -> None:
    """Refuse a word that is no effect."""
    if effect is not None and effect not in EFFECTS:
        raise ConfigurationError(f"{whose} has the effect {effect!r}: use one of {', '.join(EFFECTS)}")
