"""What the model is shown of the past: a deterministic projection of the log.

Every call has exactly one result directly behind its message, in the model's order (spec MODEL-08, MODEL-09). What
became of a turn is in its facts, and is told in notes that are never stored (spec U-5).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perdure.core.entries import Entry, Input
from perdure.core.ids import version_of
from perdure.core.items import (
    CallItem,
    HistoryItem,
    HistoryOptions,
    ModelItem,
    RecordDecision,
    ToolResultItem,
    UserItem,
    file_of,
    file_part,
)
from perdure.core.rendering import ShownTurn

__all__ = [
    "CallItem",
    "HistoryItem",
    "HistoryOptions",
    "ModelItem",
    "RecordDecision",
    "ToolResultItem",
    "Transcript",
    "UserItem",
    "file_of",
    "file_part",
    "history",
    "wire_ids",
]

JsonObject = dict[str, Any]


class Transcript:
    """The projection, kept up as the log grows: what closed turns look like never changes again.

    Feed it every entry once, in order.

    Attributes:
        version: That of the last entry.
        run_state: The last that a runner kept.
        settings: The settings that the latest turn is bound to, its own on top of the session's (spec SET-02, SET-06).
        last_prompt_tokens: What the last completed model step read, as its provider reported it.
        values: What people gave the application by `input` requests, by name; the latest of each (spec APPR-15).
        partial: Text of an answer that was cut and whose provider is to be called again.
        decisions: What became of each message of the closed turns in the prompt (spec MODEL-24).
    """

    def __init__(self, options: HistoryOptions | None = None) -> None:
        self.options = options or HistoryOptions()
        self.version = 0
        self.run_state: JsonObject | None = None
        self.settings: JsonObject = {}
        self.last_prompt_tokens: int | None = None
        self.values: JsonObject = {}
        self.partial = ""
        self.decisions: list[RecordDecision] = []
        self._latest_settings: JsonObject = {}
        self._own_settings: JsonObject = {}
        self._closed: list[HistoryItem] = []
        self._inputs: dict[str, Input] = {}
        self._open: ShownTurn | None = None

    def extend(self, entries: Iterable[Entry]) -> None:
        """Take the next entries of the log."""
        for entry in entries:
            if entry.version <= self.version:
                continue
            for accepted in entry.inputs:
                self._inputs[accepted.message_id] = accepted
            self.values |= {fact.name: fact.value for fact in entry.facts if fact.kind == "input"}
            if entry.settings is not None:
                self._latest_settings = entry.settings
            self._take(entry)
            self.version = entry.version
            self.run_state = entry.run_state or self.run_state
            if entry.usage and any(
                e.type == "model_finished" and e.payload["status"] == "completed" for e in entry.events
            ):
                self.last_prompt_tokens = entry.usage[-1].input_tokens
            if entry.kind in ("model_waits", "model_finished"):
                self.partial = entry.partial or ""

    def items(self) -> tuple[HistoryItem, ...]:
        """Return the conversation in the order in which the model should see it."""
        return (*self._closed, *(self._open.render(self.options)[0] if self._open else ()))

    @property
    def turn_start(self) -> int:
        """Where in `items` the turn begins that has not ended."""
        return len(self._closed)

    def _take(self, entry: Entry) -> None:
        # One entry may close a turn and open the next, so its facts go to the turn that they name.
        starts = next((event for event in entry.events if event.type == "turn_started"), None)
        if starts is not None and "retry_of" in starts.payload and self._open is not None:
            self._expect_again(self._open)
            self._open.reopen(starts.turn_id or "")
        elif starts is not None:
            self._own_settings = {}
        if starts is not None:
            self.settings = self._latest_settings | self._own_settings
        for message in entry.messages:
            if self._open is None or message.turn_id != self._open.turn_id:
                self._close(entry)
                self._open = ShownTurn(message.turn_id, is_first=not self._closed)
            if message.role == "user":
                accepted = self._inputs.pop(message.message_id, None)
                if accepted is not None and accepted.run_settings is not None and starts is not None:
                    self._own_settings = accepted.run_settings
                    self.settings = self._latest_settings | self._own_settings
                self._open.take_input(message, accepted)
            else:
                self._open.take(message, entry.version)
        if self._open is not None:
            self._open.note(entry)
        for event in entry.events:
            if event.type == "message_removed":
                self._inputs.pop(event.payload["message_id"], None)

    def _close(self, entry: Entry) -> None:
        if self._open is not None:
            self._open.note(entry)
            items, decisions = self._open.render(self.options)
            self._closed += items
            self.decisions += decisions
            self._expect_again(self._open)

    def _expect_again(self, turn: ShownTurn) -> None:
        """Await what was rehomed from a turn once more. Whoever edited it since has the word."""
        self._inputs = {accepted.message_id: accepted for accepted in turn.rehomed_inputs()} | self._inputs


def history(entries: Iterable[Entry], options: HistoryOptions | None = None) -> tuple[HistoryItem, ...]:
    """Return the conversation in the order in which the model should see it, from a log read from its start."""
    transcript = Transcript(options)
    transcript.extend(entries)
    return transcript.items()


def wire_ids(items: Iterable[HistoryItem], provider: str) -> dict[str, str]:
    """Return the id that each call has on the wire to a provider, by our own id.

    A provider gets its own ids back (field case F010), unless they are repeated or somebody else's (F008, F014), or
    look like ours: then it gets ours, which are unique and match `[a-zA-Z0-9_-]{1,64}`.
    """
    ids: dict[str, str] = {}
    used: set[str] = set()
    for item in items:
        if not isinstance(item, ModelItem):
            continue
        native = (item.provider or {}).get("provider") == provider
        for call in item.calls:
            theirs = call.provider_call_id
            echoes = native and theirs and theirs not in used and version_of(theirs) is None
            echoed = theirs if echoes and theirs else call.call_id
            used.add(echoed)
            ids[call.call_id] = echoed
    return ids
