"""`decide`: the one pure function through which everything happens to a session."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from perdure.core.admission import on_send_input
from perdure.core.approvals import on_resolve_interrupt, on_timer_fired
from perdure.core.codec import encode
from perdure.core.commands import (
    AttemptLost,
    Command,
    ModelFinished,
    ResolveInterrupt,
    SendInput,
    StopTurn,
    Taker,
    TimerFired,
    ToolFinished,
    ToolsFinished,
    ToolStarted,
)
from perdure.core.decision import Decision, Draft
from perdure.core.head import Head
from perdure.core.limits import MAX_HEAD_BYTES
from perdure.core.models import on_model_finished
from perdure.core.recovery import on_attempt_lost
from perdure.core.stop import on_stop_turn
from perdure.core.tools import on_tool_finished, on_tool_started, on_tools_finished
from perdure.errors import NotFoundError, TooLargeError

_TRANSITIONS: dict[type[Any], tuple[str, Callable[[Draft, Any], Decision]]] = {
    SendInput: ("send_input", on_send_input),
    ModelFinished: ("model_finished", on_model_finished),
    ToolStarted: ("tool_started", on_tool_started),
    ToolFinished: ("tool_finished", on_tool_finished),
    ToolsFinished: ("tools_finished", on_tools_finished),
    AttemptLost: ("attempt_lost", on_attempt_lost),
    ResolveInterrupt: ("resolve_interrupt", on_resolve_interrupt),
    TimerFired: ("timer_fired", on_timer_fired),
    StopTurn: ("stop_turn", on_stop_turn),
}


def decide(head: Head, command: Command, *, now: datetime, commit_id: str, taker: Taker | None = None) -> Decision:
    """Turn a command into a decision. Pure: the same arguments always give the same decision.

    Args:
        head: The session as it is; `Head()` for one that was never written.
        now: The time of the decision, in UTC.
        commit_id: The command's id, the same through all its retries.
        taker: Who would go on with the next step at once; None: nobody.

    Raises:
        RequestError: The command can't be carried out; nothing changes. Its class and `code` say why.
    """
    kind, transition = _TRANSITIONS[type(command)]
    if not head.exists and not isinstance(command, SendInput):
        if isinstance(command, (ResolveInterrupt, StopTurn)):
            raise NotFoundError("this session was never written: send it a message first")
        return Decision.unchanged(head)  # a step of a purged life

    decision = transition(Draft(head, now=now, commit_id=commit_id, kind=kind, taker=taker), command)
    receipts = getattr(command, "receipts", ())
    if decision.entry is None and receipts:  # remember the answer, so that the same key gives it again
        draft = Draft(head, now=now, commit_id=commit_id, kind=kind)
        return draft.decision(decision.reply, receipts)
    if isinstance(command, SendInput) and decision.head.inbox and head_bytes(decision.head) > MAX_HEAD_BYTES:
        raise TooLargeError(
            f"this session already holds {len(head.inbox)} queued messages and is full: "
            "wait for its turn to end, or stop it"
        )
    return decision


def head_bytes(head: Head) -> int:
    """Return the size of HEAD's stored form, in bytes."""
    return len(json.dumps(encode(head), separators=(",", ":")))
