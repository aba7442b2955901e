"""What became of a turn, as the entry that closed it tells: facts that the messages of the turn do not have (spec U-5).

Messages never change. Who shows one, to a person or a model, asks here what is left of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from perdure.core.codec import decode
from perdure.core.entries import Entry, Event
from perdure.core.head import Frontier, Head

JsonObject = dict[str, Any]

TURN_ENDS = ("turn_completed", "turn_failed", "turn_cancelled", "turn_steered")
"""The events that close a turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFate:
    """How a turn ended.

    Attributes:
        ending: The event that closed it.
        rehomed: Messages that joined it and went back to the inbox; they are not shown at their old place.
        discarded: It was superseded: its answer is on record, and no prompt has it.
        frontier: What the user saw when they stopped it.
        lengths: By message id, the characters of text and reasoning that the frontier leaves; None: all of it.
    """

    ending: str
    error_code: str | None = None
    rehomed: frozenset[str] = frozenset()
    discarded: bool = False
    frontier: Frontier | None = None
    lengths: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)

    def cut(self, message_id: str, parts: tuple[JsonObject, ...]) -> list[JsonObject]:
        """Return a model message's parts without what lies behind the frontier. Calls and results are never cut."""
        if message_id not in self.lengths:
            return list(parts)
        left = dict(zip(("text", "reasoning"), self.lengths[message_id], strict=True))
        shown: list[JsonObject] = []
        for part in parts:
            kind = part["type"]
            room = left.get(kind)
            if room is None:
                shown.append(part)
            elif room:
                text = part["text"][:room]
                left[kind] = room - len(text)
                shown.append(part | {"text": text})
        return shown


def fates_of(entries: Iterable[Entry], head: Head | None = None) -> dict[str, TurnFate]:
    """Return how the turns ended that these entries close, by turn id.

    Args:
        entries: With the whole of each turn whose messages are of interest.
        head: Also tells of the turn that is being stopped right now.
    """
    answers: dict[str, list[tuple[str, int]]] = {}
    fates: dict[str, TurnFate] = {}
    for entry in entries:
        for message in entry.messages:
            if message.role == "assistant":
                answers.setdefault(message.turn_id, []).append((message.message_id, entry.version))
        for event in entry.events:
            if event.type in TURN_ENDS and event.turn_id is not None:
                fates[event.turn_id] = fate_of(event, answers.get(event.turn_id, []))
    turn = head.turn if head is not None else None
    if turn is not None and turn.stop is not None and turn.stop.frontier is not None:
        lengths = _lengths(turn.stop.frontier, answers.get(turn.turn_id, []))
        fates[turn.turn_id] = TurnFate(ending="turn_stopping", frontier=turn.stop.frontier, lengths=lengths)
    return fates


def fate_of(event: Event, answers: list[tuple[str, int]]) -> TurnFate:
    """Return how the turn ended that an event closes. `answers`: its model messages and the versions they are of."""
    payload = event.payload
    frontier = decode(Frontier, payload["frontier"]) if "frontier" in payload else None
    return TurnFate(
        ending=event.type,
        error_code=payload["error"]["code"] if "error" in payload else None,
        rehomed=frozenset(payload.get("rehomed", ())),
        discarded=payload.get("disposition") == "discard",
        frontier=frontier,
        lengths=_lengths(frontier, answers) if frontier is not None else {},
    )


def _lengths(frontier: Frontier, answers: list[tuple[str, int]]) -> dict[str, tuple[int | None, int | None]]:
    """Say what is left of the model messages behind a frontier: some of the first one, nothing of later ones."""
    behind = [message_id for message_id, version in answers if version > frontier.version]
    lengths: dict[str, tuple[int | None, int | None]] = dict.fromkeys(behind, (0, 0))
    if behind:
        lengths[behind[0]] = (frontier.text, frontier.reasoning)
    return lengths
