"""How a run ended, in a form in which two runs can be compared, and what is different between two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perdure.core.entries import Entry
from perdure.core.expected import expected_dispatches, expected_timers
from perdure.core.fates import TURN_ENDS
from perdure.core.head import WRITES_ONCE, Head
from perdure.core.public import inputs_of, public_messages

JsonObject = dict[str, Any]

UNKNOWN = "outcome_unknown"


@dataclass(frozen=True)
class Line:
    """One part of a message. Ids hold versions, which a fault may move, so a call goes by its place.

    `call` is the call's number within the session, from 1; 0: the part belongs to no call.
    """

    role: str
    text: str
    turn: int
    status: str | None = None
    call: int = 0


@dataclass(frozen=True)
class Ending:
    """What a session came to.

    Attributes:
        transcript: Every part of every message.
        calls: By number: tool, effect and status (None: no result yet).
        call_ids: Number by id.
        turns: How each turn ended; None: it runs.
        error: Why the latest turn failed.
        waiting: Texts that wait in the inbox.
        pending: Tools that wait for a person.
        work: Kinds of the steps that should be in flight, and `timer` for each timer.
        messages: HEAD's counter of messages.
        cut: Numbers of the calls that somebody ended while they waited, which may have done something by then.
    """

    transcript: tuple[Line, ...]
    calls: Mapping[int, tuple[str, str, str | None]]
    call_ids: Mapping[str, int]
    turns: tuple[str | None, ...]
    error: str | None
    waiting: tuple[str, ...]
    pending: tuple[str, ...]
    work: tuple[str, ...]
    messages: int
    cut: frozenset[int] = frozenset()

    @classmethod
    def of(cls, head: Head, entries: Sequence[Entry]) -> Ending:
        """Read it from a session's whole log."""
        inputs = inputs_of(entries)
        shown = public_messages(entries)
        call_ids: dict[str, int] = {}
        lines: list[Line] = []
        tools: dict[int, str] = {}
        statuses: dict[int, str] = {}
        for message in shown:
            for part in message["parts"]:
                number = 0
                if "tool_call_id" in part:
                    number = call_ids.setdefault(part["tool_call_id"], len(call_ids) + 1)
                    tools[number] = part["tool_name"]
                    if part["type"] == "tool_result":
                        statuses[number] = part["status"]
                lines.append(_line(message, part, number))
        effects = {
            call_ids[event.payload["tool_call_id"]]: event.payload["effect"]
            for entry in entries
            for event in entry.events
            if event.type == "tool_call_deferred"
        }
        ended = {e.turn_id: e.type for entry in entries for e in entry.events if e.type in TURN_ENDS}
        turn = head.turn
        return cls(
            transcript=tuple(lines),
            calls={number: (tools[number], effects[number], statuses.get(number)) for number in tools},
            call_ids=call_ids,
            turns=tuple(ended.get(f"turn-{number}") for number in range(1, head.turn_count + 1)),
            error=head.last_turn_error.code if head.last_turn_error else None,
            waiting=tuple(inputs[queued.input_version, queued.message_id].text for queued in head.inbox),
            pending=tuple(tools[call_ids[i.call_id]] for i in turn.interrupts) if turn else (),
            work=(*(d.kind for d in expected_dispatches(head)), *("timer" for _ in expected_timers(head))),
            messages=head.message_sequence,
            cut=frozenset(call_ids[call_id] for call_id in cut_calls(entries)),
        )

    def results_in_order(self) -> tuple[Line, ...]:
        """Return the transcript with the results of each response in the order of its calls, not of their ends."""
        ordered: list[Line] = []
        results: list[Line] = []
        for line in self.transcript:
            if line.role == "tool":
                results.append(line)
                continue
            ordered += sorted(results, key=lambda result: result.call)
            results = []
            ordered.append(line)
        return (*ordered, *sorted(results, key=lambda result: result.call))


def cut_calls(entries: Sequence[Entry]) -> set[str]:
    """Return the ids of the calls that were ended by a stop, or whose wait was cancelled."""
    events = [event for entry in entries for event in entry.events if event.type == "tool_call_finished"]
    by_people = ("turn_cancelled", "cancelled")
    return {e.payload["tool_call_id"] for e in events if e.payload.get("cancellation_reason") in by_people}


def pending(head: Head, kind: str) -> tuple[str, ...]:
    """Return the ids of what a person is asked now: of all approvals, or of all questions."""
    interrupts = head.turn.interrupts if head.turn else ()
    return tuple(i.interrupt_id for i in interrupts if i.kind == kind and i.raised_at is not None)


def waits(head: Head) -> tuple[str, ...]:
    """Return the ids of what can be changed: questions, and calls that wait."""
    calls = head.turn.open_calls if head.turn else ()
    waiting = tuple(call.call_id for call in calls if call.wait is not None or call.task is not None)
    return (*pending(head, "question"), *waiting)


def _line(message: JsonObject, part: JsonObject, call: int) -> Line:
    kind = part["type"]
    if kind == "tool_call":
        text = f"{part['tool_name']} {part.get('arguments', part.get('arguments_text'))}"
    elif kind == "tool_result":
        text = f"{part['tool_name']}: {part['output']}"
    else:
        text = str(part.get("text", part.get("reference")))
    turn = int(message["turn_id"].rsplit("-", 1)[1])
    return Line(message["role"], text, turn, part["status"] if kind == "tool_result" else message.get("status"), call)


def differences(clean: Ending, run: Ending, *, may_be_unknown: bool) -> list[str]:
    """Return what is different from the clean run.

    Args:
        may_be_unknown: A call that runs at most once may have ended as `outcome_unknown` instead.
    """
    found = []
    expected, seen = clean.results_in_order(), run.results_in_order()
    if may_be_unknown:
        expected = tuple(_allowed(line, seen, run) for line in expected)
    for number, (left, right) in enumerate(zip(expected, seen, strict=False), start=1):
        if left != right:
            found.append(f"message part {number} is {_short(right)} instead of {_short(left)}")
            break
    if len(expected) != len(seen):
        found.append(f"the transcript has {len(seen)} parts instead of {len(expected)}")
    for name in ("turns", "error", "waiting", "pending", "work", "messages"):
        left, right = getattr(clean, name), getattr(run, name)
        if left != right:
            found.append(f"{name}: {right!r} instead of {left!r}")
    return found


def _allowed(line: Line, seen: Sequence[Line], run: Ending) -> Line:
    if line.role != "tool" or line.call not in run.calls:
        return line
    _, effect, status = run.calls[line.call]
    if status != UNKNOWN or effect not in WRITES_ONCE:
        return line
    return next(other for other in seen if other.role == "tool" and other.call == line.call)


def _short(line: Line) -> str:
    text = line.text if len(line.text) <= 60 else f"{line.text[:60]}…"
    return f"{line.role} {line.status or ''} {text!r}"
