"""Everything that can happen to a session, as values. `decide` turns one into a decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal

from perdure.core.command import Command, StepCommand, UserCommand
from perdure.core.entries import Actor, FileRef, ReceiptClaim
from perdure.core.head import Frontier
from perdure.core.usage import CallUsage

__all__ = [
    "AttemptLost",
    "AttemptPutOff",
    "Command",
    "GrantScope",
    "InboxPolicy",
    "ModelFinished",
    "ModelWaits",
    "Reconnect",
    "RequestedCall",
    "ResolveInterrupt",
    "SendInput",
    "StepCommand",
    "StopTurn",
    "Taker",
    "TimerFired",
    "ToolFinished",
    "ToolStarted",
    "ToolsFinished",
    "UserCommand",
]

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taker:
    """A worker that goes on with the next step itself, if its commit makes one ready (the hot turn, design §3).

    Attributes:
        owner: Its nonce; it claims the step in the commit.
        any_tool: It may run every tool. Else only those whose call says `inline`, because a tool that runs here
            needs this worker's permissions.
    """

    owner: str
    any_tool: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxPolicy:
    """What an agent says of its inbox.

    Attributes:
        delivery: How a message is delivered that does not say.
        coalesce: Messages that wait share one turn (spec INBOX-10).
        on_turn_failure: `auto`, `hold` or `continue` (spec U-6).
        answers: A person's message that says no delivery answers the one open question, or replaces what is asked
            (field case F064).
    """

    delivery: str = "queue"
    coalesce: bool = False
    on_turn_failure: str = "auto"
    answers: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SendInput(UserCommand):
    """A user's message was accepted at the edge. `agent` None: keep the session's, or take `default_agent`.

    Attributes:
        delivery: One of `inbox.DELIVERIES`; None: as the policy of the session's agent says.
        policies: By agent name; an agent that is not there has the default one.
        settings: Makes these the session's settings, for the turn that begins next.
        run_settings: Settings on top of the session's for this message's own turn.
        source: Who wrote it: `person`, or trusted code (`Input.source`).
        credentials: By agent name, what changes with its models' credentials; another one lifts a block (spec U-6).
    """

    DECIDED_IN: ClassVar[str] = "admission"
    BEGINS_A_SESSION: ClassVar[bool] = True

    text: str
    actor: Actor
    default_agent: str
    agent: str | None = None
    message_id: str | None = None
    delivery: str | None = None
    policies: Mapping[str, InboxPolicy] = field(default_factory=dict)
    metadata: JsonObject | None = None
    files: tuple[FileRef, ...] = ()
    settings: JsonObject | None = None
    run_settings: JsonObject | None = None
    source: str = "person"
    credentials: Mapping[str, str] = field(default_factory=dict)
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedCall:
    """One tool call that a model asked for, with the policy that was resolved for it.

    Attributes:
        provider_call_id: The provider's id, kept to be echoed. May be absent or repeated.
        arguments: The parsed object, or None when `arguments_text` is no JSON object.
        settled: Status and text when the call is over before it begins: an unknown tool, bad arguments.
        approval_deadline: How long a person has to decide. None: for ever.
        inline: The worker of the model step may run it, without a queue between.
        built_in: It is one of ours: its result is decided by the core, and no worker runs it.
        lane: Of the calls with the same one, one runs at a time.
        reconciles: Its tool can look up what became of an attempt whose outcome is not known.
        brought: Its provider runs it, and trusted code brings the result (spec TOOL-19).
        shown: Fields that are shown beside it (spec TOOL-17).
    """

    tool_name: str
    effect: str
    requires_approval: bool
    provider_call_id: str | None = None
    arguments: JsonObject | None = None
    arguments_text: str | None = None
    approval_deadline: timedelta | None = None
    settled: tuple[str, str] | None = None
    inline: bool = False
    built_in: bool = False
    lane: str | None = None
    reconciles: bool = False
    brought: bool = False
    shown: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconnect:
    """A provider call of a model step that failed and was sent again within the same attempt."""

    at: datetime
    retry_in_ms: int
    number: int
    reason: str
    partial: bool = False


Ending = Literal["answer", "tool_calls", "truncated", "filtered", "refused", "not_accepted", "failed", "aborted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFinished(StepCommand):
    """A model step's attempt is over.

    Attributes:
        parts: Text and reasoning of the answer, or what there was of it; no tool calls.
        usage: One row for each provider call of the attempt; failed ones without figures.
        call_limit: The agent's cap on model calls in one turn, for the text that says so.
        limit_reached: No tools were offered because the cap was reached; calls asked for all the same end the turn.
        error_code, error_message: Why, when `ending` is `failed` (codes: surface §4.2); of `not_accepted` the message.
        stop_policy: The policy that ended the turn before a provider was called; `ending` is `answer` then.
        credential: A hash of the credential that the provider refused.
        approval_mode: The agent's, for a session that has none of its own (spec APPR-08).
        one_by_one: Approvals are asked one at a time (spec APPR-07).
        answered: Its calls were all run by the provider, so the text behind them is the answer.
        titles: The agent has a model that names sessions by their first turn.
    """

    DECIDED_IN: ClassVar[str] = "models"
    IS_OUTCOME: ClassVar[bool] = True

    turn_id: str
    step_id: str
    attempt: int
    started_at: datetime
    ending: Ending
    parts: tuple[JsonObject, ...] = ()
    provider: JsonObject | None = None
    calls: tuple[RequestedCall, ...] = ()
    usage: tuple[CallUsage, ...] = ()
    reconnects: tuple[Reconnect, ...] = ()
    run_state: JsonObject | None = None
    call_limit: int = 100
    limit_reached: bool = False
    error_code: str = "internal"
    error_message: str = ""
    stop_policy: str | None = None
    credential: str | None = None
    approval_mode: str = "ask"
    one_by_one: bool = False
    answered: bool = False
    titles: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWaits(StepCommand):
    """A model step's provider is to be called again after a wait that is too long for a worker to hold.

    `partial`: text of the answer that was cut, for that call. The attempt is over; the next one counts for no budget.
    """

    DECIDED_IN: ClassVar[str] = "models"
    IS_OUTCOME: ClassVar[bool] = True

    turn_id: str
    step_id: str
    attempt: int
    started_at: datetime
    retry_in: timedelta
    usage: tuple[CallUsage, ...]
    reconnects: tuple[Reconnect, ...]
    partial: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPutOff(StepCommand):
    """A worker that holds an attempt's claim did not begin it, because the session is paused."""

    DECIDED_IN: ClassVar[str] = "recovery"

    step_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted(StepCommand):
    """A worker is about to run the body of a tool that writes. The reply's `go` says whether it may."""

    DECIDED_IN: ClassVar[str] = "tools"

    call_id: str
    attempt: int
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished(StepCommand):
    """A tool's attempt is over.

    `outcome` is `succeeded`, `failed` (the model should see it, no retry) or `error` (unexpected: the effect
    decides). `output` is the text that the model sees; for `error` it says what went wrong, without secrets.
    """

    DECIDED_IN: ClassVar[str] = "tools"
    IS_OUTCOME: ClassVar[bool] = True

    turn_id: str
    call_id: str
    attempt: int
    started_at: datetime
    outcome: Literal["succeeded", "failed", "error"]
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsFinished(StepCommand):
    """Several tools' attempts of one turn are over: one commit for all of them (the group commit, races.md X14)."""

    DECIDED_IN: ClassVar[str] = "tools"
    IS_OUTCOME: ClassVar[bool] = True

    outcomes: tuple[ToolFinished, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLost(StepCommand):
    """An attempt was revoked: nobody will finish it.

    Attributes:
        claimed: Whether somebody had claimed it. Only a revoked, never claimed attempt proves that it did not run.
        final: Give the step up instead of trying again (a dead letter).
        error_code: What a turn that fails by it is told (codes: surface §4.2).
        turn_id, usage: The provider calls that a model step had made by then, told by its own worker.
        parts: What viewers had seen of a model's answer, when its turn is being stopped.
    """

    DECIDED_IN: ClassVar[str] = "recovery"

    step_id: str
    attempt: int
    claimed: bool
    reason: str
    final: bool = False
    error_code: str = "internal"
    turn_id: str | None = None
    usage: tuple[CallUsage, ...] = ()
    parts: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantScope:
    """What is approved ahead together with a call: its tool, with the same values in `fields`, for a while.

    `match` is `grants.scope_match` of the approved call; `max_uses` None: as often as asked for until then.
    """

    match: str
    lasts: timedelta
    fields: tuple[str, ...] = ()
    max_uses: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveInterrupt(UserCommand):
    """A person decided. Exactly one of `approved`, `answer` and `value` is set; `value` holds one as `{"value": …}`.

    `arguments`: those that an approved call is to run with, in place of the model's; they were checked by its tool.
    """

    DECIDED_IN: ClassVar[str] = "interrupts"

    interrupt_id: str
    actor: Actor
    approved: bool | None = None
    answer: str | None = None
    message: str | None = None
    arguments_hash: str | None = None
    arguments: JsonObject | None = None
    grant: GrantScope | None = None
    value: JsonObject | None = None
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired(StepCommand):
    """A timer came due. With another fence than HEAD's it is stale and does nothing.

    `details`: what the worker looked up for it: the `reason` of a durable wait, the `spec` of a schedule.
    """

    DECIDED_IN: ClassVar[str] = "interrupts"

    timer_id: str
    fence: int
    details: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTurn(UserCommand):
    """Somebody wants the running turn to end, or the hold after a failed one.

    At most one of `turn_id`, `message_id` and `step_id` names what is meant (spec STOP-08); none: whichever runs.
    """

    DECIDED_IN: ClassVar[str] = "control"

    actor: Actor
    turn_id: str | None = None
    message_id: str | None = None
    step_id: str | None = None
    disposition: str = "keep"
    frontier: Frontier | None = None
    receipts: tuple[ReceiptClaim, ...] = field(default=())
