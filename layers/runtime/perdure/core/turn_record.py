"""One turn by itself: how it went, what it answered and what it used, out of its own entries (spec STORE-10)."""

from __future__ import annotations

import re
from typing import Any

from perdure.core.codec import format_time
from perdure.core.cursor import Cursor
from perdure.core.entries import Entry, Event, Message
from perdure.core.fates import TURN_ENDS, TurnFate, fate_of
from perdure.core.head import Head
from perdure.core.public import public_message, public_waiting_for
from perdure.core.usage import total_figures

JsonObject = dict[str, Any]

_TURN_ID = re.compile(r"turn-([1-9][0-9]{0,11})")

_REASONS_OF_THEIR_OWN = ("interrupted", "superseded", "abandoned")
"""Why a turn was cancelled, where that says more than that it was (spec SESS-10)."""


def turn_number(turn_id: str) -> int | None:
    """Return the number of a turn by its id, or None for an id of nothing that runs."""
    match = _TURN_ID.fullmatch(turn_id)
    return int(match.group(1)) if match else None


def last_turn_in(entry: Entry) -> int | None:
    """Return the number of the last turn that an entry opens or adds messages to; None: it does neither.

    Along the log this never goes down.
    """
    ids = [event.turn_id for event in entry.events if event.type == "turn_started"]
    ids += [message.turn_id for message in entry.messages]
    numbers = [number for turn_id in ids if turn_id is not None and (number := turn_number(turn_id)) is not None]
    return max(numbers, default=None)


class TurnRecord:
    """Takes the entries of a turn in order, from the one that opens it, and keeps no more than what is shown.

    Attributes:
        begun: Whether the entry that opens it was seen.
        ended: Whether the one that closes it was.
    """

    def __init__(self, turn_id: str) -> None:
        self.begun = False
        self.ended = False
        self._turn_id = turn_id
        self._shown: JsonObject = {"turn_id": turn_id}
        self._message_ids: list[str] = []
        self._calls: dict[str, str | None] = {}
        self._answers: list[tuple[str, int]] = []
        self._last: tuple[Message, Entry] | None = None
        self._place = Cursor()
        self._ending: tuple[Event, Entry] | None = None

    def take(self, entry: Entry) -> None:
        """Take the next entry."""
        for message in entry.messages:
            if message.turn_id == self._turn_id:
                self._take_message(message, entry)
        for index, event in enumerate(entry.events):
            if event.turn_id == self._turn_id:
                self._take_event(event, entry, index)

    def _take_message(self, message: Message, entry: Entry) -> None:
        self._last = (message, entry)
        if message.role == "user":
            self._message_ids.append(message.message_id)
        elif message.role == "assistant":
            self._answers.append((message.message_id, entry.version))
        for part in message.parts:
            if part["type"] == "tool_call":
                self._calls[part["tool_call_id"]] = None
            elif part["type"] == "tool_result":
                self._calls[part["tool_call_id"]] = part["status"]

    def _take_event(self, event: Event, entry: Entry, index: int) -> None:
        if event.type == "turn_started":
            self.begun = True
            self._shown["started_at"] = format_time(event.at or entry.at)
            self._place = Cursor(version=entry.version, index=index)
            if "retry_of" in event.payload:
                self._shown["retry_of"] = event.payload["retry_of"]
        elif event.type in TURN_ENDS:
            self.ended = True
            self._ending = (event, entry)

    def public(self, session_id: str, head: Head) -> JsonObject:
        """Return the turn as it is shown. While it runs, HEAD tells what it waits for and has used."""
        fate = fate_of(self._ending[0], self._answers) if self._ending else None
        shown = self._shown | {
            "message_ids": [name for name in self._message_ids if fate is None or name not in fate.rehomed],
            "tool_calls": self._counts(),
            "cursor": self._place.encode(session_id),
        }
        if self._ending is None or fate is None:
            return shown | _running(head)
        event, entry = self._ending
        shown |= _outcome(event) | {
            "ended_at": format_time(event.at or entry.at),
            "usage": total_figures(entry.turn_usage),
        }
        answer = self._answer(fate)
        return shown if answer is None else shown | {"answer": answer}

    def _answer(self, fate: TurnFate) -> JsonObject | None:
        """Return the message that the turn ended with, if that is the agent's and says anything."""
        if self._last is None or self._last[0].role != "assistant":
            return None
        message, entry = self._last
        shown = public_message(message, entry, {}, {self._turn_id: fate})
        return shown if shown["parts"] else None

    def _counts(self) -> JsonObject:
        statuses = list(self._calls.values())
        counts = {"total": len(statuses)}
        for status in ("succeeded", "failed", "rejected", "outcome_unknown"):
            counts[status] = statuses.count(status)
        return counts


def _running(head: Head) -> JsonObject:
    shown: JsonObject = {"status": "running"}
    if head.turn is not None:
        shown["usage"] = total_figures(head.turn.usage)
        if head.turn.stop is not None:
            shown["stopping"] = True
        if waiting := [item for item in public_waiting_for(head) if item["kind"] != "input"]:  # those are no turn's
            shown["waiting_for"] = waiting
    return shown


def _outcome(event: Event) -> JsonObject:
    """Return how a turn ended, in the words of `state.last_turn`."""
    outcome = event.type.removeprefix("turn_")
    if event.type == "turn_failed":
        error = {name: event.payload["error"][name] for name in ("code", "message")}
        return {"status": outcome, "error": error}
    reason = event.payload.get("reason")
    if reason in _REASONS_OF_THEIR_OWN:
        return {"status": reason}
    shown = {"status": outcome} if reason is None else {"status": outcome, "reason": reason}
    policy = event.payload.get("policy_name")
    return shown if policy is None else shown | {"policy_name": policy}
