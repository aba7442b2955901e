"""`decide`: the one pure function through which everything happens to a session."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

from perdure.core.command import Command, UserCommand
from perdure.core.decision import Decision, Draft
from perdure.core.entries import ReceiptClaim
from perdure.core.head import Head
from perdure.core.limits import MAX_HEAD_BYTES
from perdure.core.size import head_bytes
from perdure.errors import NotFoundError, TooLargeError

if TYPE_CHECKING:
    from perdure.core.commands import Taker

_MAY_FILL_HEAD = ("send_input", "edit_message", "set_schedule")
"""Kinds of commands that are refused when they would leave a HEAD that is too large."""

_transitions: dict[type[Any], tuple[str, Callable[[Draft, Any], Decision]]] = {}


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
    kind, transition = _transitions.get(type(command)) or _transition_of(type(command))
    if not head.exists and not (isinstance(command, UserCommand) and command.BEGINS_A_SESSION):
        if isinstance(command, UserCommand):
            raise NotFoundError("this session was never written: send it a message first")
        return Decision.unchanged(head)  # a step of a purged life

    decision = transition(Draft(head, now=now, commit_id=commit_id, kind=kind, taker=taker), command)
    receipts: tuple[ReceiptClaim, ...] = getattr(command, "receipts", ())
    if decision.entry is None and receipts:  # remember the answer, so that the same key gives it again
        draft = Draft(head, now=now, commit_id=commit_id, kind=kind)
        return draft.decision(decision.reply, receipts)
    if (
        kind in _MAY_FILL_HEAD
        and (decision.head.inbox or decision.head.schedules)
        and head_bytes(decision.head) > MAX_HEAD_BYTES
    ):
        raise TooLargeError(
            f"this session already holds {len(head.inbox)} queued messages and is full: "
            "wait for its turn to end, or stop it"
        )
    return decision


def _transition_of(cls: type[Command]) -> tuple[str, Callable[[Draft, Any], Decision]]:
    """Return the kind of a class of commands, which its commits tell, and its transition."""
    kind = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
    found = (kind, getattr(import_module(f"perdure.core.{cls.DECIDED_IN}"), f"on_{kind}"))
    _transitions[cls] = found
    return found
