"""The decisions in a posted UI message. Nothing else of it is read: not the call, its arguments or its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perdure.errors import InvalidRequestError
from perdure.streams.ui_calls import QUESTION

JsonObject = dict[str, Any]

MOST_DECISIONS = 100
"""Decisions of one message that are taken, the first of each id (spec UI-05)."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What somebody decided. `how`: as `Service.resolve_interrupt` takes it."""

    interrupt_id: str
    how: JsonObject


def decisions_of(parts: Sequence[JsonObject]) -> list[Decision]:
    """Return the first decision on each interrupt: approvals that were responded to, and questions with an answer.

    Raises:
        InvalidRequestError: A decision is not of the types it has to be.
    """
    found: dict[str, Decision] = {}
    for part in parts:
        decision = _answer(part) if part["type"] == QUESTION else _approval(part)
        if decision is not None and len(found) < MOST_DECISIONS:
            found.setdefault(decision.interrupt_id, decision)
    return list(found.values())


def _approval(part: JsonObject) -> Decision | None:
    if part.get("state") != "approval-responded":
        return None
    approval = part.get("approval")
    if not isinstance(approval, dict) or not isinstance(approval.get("id"), str):
        raise InvalidRequestError("a part in state `approval-responded` has an `approval` with an `id`")
    if not isinstance(approval.get("approved"), bool):
        raise InvalidRequestError(f"`approved` of approval {approval['id'][:100]!r} is true or false")
    how: JsonObject = {"approved": approval["approved"]}
    if approval.get("reason") is not None:
        how["message"] = _text(approval["reason"], "the `reason` of an approval")
    return Decision(approval["id"], how)


def _answer(part: JsonObject) -> Decision | None:
    """Return the answer that the page put into the data of a question that was pending."""
    data, interrupt_id = part.get("data"), part.get("id")
    if not isinstance(data, dict) or data.get("state") != "pending" or not isinstance(interrupt_id, str):
        return None
    if data.get("answer") is not None:
        how: JsonObject = {"answer": _text(data["answer"], "the `answer` to a question")}
    elif data.get("value") is not None:
        how = {"value": data["value"]}
    elif data.get("declined") is True:
        how = {"approved": False}
    else:
        return None
    if data.get("message") is not None:
        how["message"] = _text(data["message"], "the `message` with an answer")
    return Decision(interrupt_id, how)


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidRequestError(f"{name} is a text")
    return value
