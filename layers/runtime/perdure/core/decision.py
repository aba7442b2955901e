"""A decision, and the draft that one is put together on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from perdure.core.commands import Taker
from perdure.core.entries import SCHEMA_VERSION as ENTRY_SCHEMA
from perdure.core.entries import CallFact, Entry, Event, Input, Message, Receipt, ReceiptClaim, ScheduleSpec
from perdure.core.head import SCHEMA_VERSION as HEAD_SCHEMA
from perdure.core.head import Call, Head, Turn
from perdure.core.ids import made_by
from perdure.core.usage import NO_TOTALS, CallUsage, UsageTotals
from perdure.core.values import replace

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows from a command: the new head, the entry to commit with it, and the answer to the caller.

    `entry` None: nothing changes and nothing is to be committed.
    """

    head: Head
    entry: Entry | None
    reply: JsonObject

    @classmethod
    def unchanged(cls, head: Head, reply: JsonObject | None = None) -> Decision:
        return cls(head, None, reply or {})


class Draft:
    """The commit that is being put together: it numbers events, messages and ids as they are added."""

    def __init__(self, head: Head, *, now: datetime, commit_id: str, kind: str, taker: Taker | None = None) -> None:
        self.head = head
        self.now = now
        self.version = head.version + 1
        self.taker = taker
        self.turn_id = head.turn.turn_id if head.turn else None
        self._commit_id = commit_id
        self._kind = kind
        self._made: dict[str, int] = {}
        self._inputs: list[Input] = []
        self._messages: list[Message] = []
        self._events: list[Event] = []
        self._usage: list[CallUsage] = []
        self._usage_before = NO_TOTALS
        self._turn_usage = NO_TOTALS
        self._run_state: JsonObject | None = None
        self._settings: JsonObject | None = None
        self._partial: str | None = None
        self._facts: list[CallFact] = []
        self._schedules: list[ScheduleSpec] = []
        self._message_sequence = head.message_sequence
        self._event_sequence = head.event_sequence

    @property
    def message_sequence(self) -> int:
        """The last message sequence given, this commit's included."""
        return self._message_sequence

    def new_id(self, kind: str) -> str:
        """Return the next id of a kind that this commit makes."""
        index = self._made.get(kind, 0)
        self._made[kind] = index + 1
        return made_by(kind, self.version, index)

    def accept(self, accepted: Input) -> None:
        """Store a user's message as it was accepted."""
        self._inputs.append(accepted)

    def message(
        self,
        role: str,
        parts: tuple[JsonObject, ...] = (),
        *,
        message_id: str | None = None,
        status: str | None = None,
        provider: JsonObject | None = None,
        input_version: int | None = None,
    ) -> Message:
        """Append a message of the current turn to the transcript."""
        assert self.turn_id is not None, "a message belongs to a turn"
        self._message_sequence = sequence = self._message_sequence + 1
        message = Message(
            message_id=message_id or self.new_id("message"),
            sequence=sequence,
            turn_id=self.turn_id,
            role=role,
            parts=parts,
            status=status,
            provider=provider,
            input_version=input_version,
        )
        self._messages.append(message)
        return message

    def event(
        self,
        event_type: str,
        payload: JsonObject | None = None,
        *,
        step: str | None = None,
        attempt: int | None = None,
        at: datetime | None = None,
        turn_id: str | None = None,
    ) -> None:
        """Add a durable event; it takes the next sequence and belongs to the current turn unless told otherwise."""
        self._event_sequence = sequence = self._event_sequence + 1
        self._events.append(
            Event(
                type=event_type,
                sequence=sequence,
                payload={name: value for name, value in (payload or {}).items() if value is not None},
                turn_id=turn_id or self.turn_id,
                step_execution_id=step,
                attempt=attempt,
                at=at,
            )
        )

    def usage(self, rows: tuple[CallUsage, ...], turn_id: str | None) -> None:
        """Count provider calls of a turn, which may be over."""
        if not self._usage:
            self._usage_before = self.head.usage
        self._usage.extend(rows)
        turn = self.head.turn
        if turn is not None and turn.turn_id == turn_id:
            turn = replace(turn, usage=turn.usage.plus(rows))
        self.head = replace(self.head, usage=self.head.usage.plus(rows), turn=turn)

    def turn_usage(self, used: UsageTotals) -> None:
        """Keep what the turn that ends with this commit has used."""
        self._turn_usage = used

    def run_state(self, state: JsonObject | None) -> None:
        """Keep what a runner wants to see again at the turn's next model step."""
        self._run_state = state

    def settings(self, settings: JsonObject) -> None:
        """Make these the session's settings; they bind when the next turn starts (spec SET-02)."""
        self._settings = settings
        self.head = replace(self.head, settings_version=self.version)

    def partial(self, text: str) -> None:
        """Keep the text of an answer that was cut, until its provider is called again."""
        self._partial = text

    def remember(self, call: Call, kind: str, value: Any = None, *, name: str = "") -> Call:
        """Keep a fact of a call in this entry; returns the call that knows where it is."""
        self.fact(call.call_id, kind, value, name=name)
        if self.version in call.records:
            return call
        return replace(call, records=(*call.records, self.version))

    def schedule(self, spec: ScheduleSpec) -> None:
        """Keep a schedule as it was set."""
        self._schedules.append(spec)

    def fact(self, call_id: str, kind: str, value: Any = None, *, name: str = "") -> None:
        """Keep a fact of a call in this entry; whoever wants it knows the version."""
        self._facts.append(CallFact(call_id=call_id, kind=kind, name=name, value=value))

    def set_turn(self, turn: Turn | None) -> None:
        """Make this the running turn."""
        self.head = replace(self.head, turn=turn)

    @property
    def turn(self) -> Turn:
        """The running turn; there is one."""
        assert self.head.turn is not None, "no turn is running"
        return self.head.turn

    def decision(self, reply: JsonObject | None = None, receipts: tuple[ReceiptClaim, ...] = ()) -> Decision:
        """Close the draft."""
        answer = reply or {}
        entry = Entry(
            version=self.version,
            commit_id=self._commit_id,
            at=self.now,
            kind=self._kind,
            inputs=tuple(self._inputs),
            messages=tuple(self._messages),
            events=tuple(self._events),
            receipts=tuple(Receipt(key_hash=c.key_hash, content_hash=c.content_hash, reply=answer) for c in receipts),
            run_state=self._run_state,
            usage=tuple(self._usage),
            usage_before=self._usage_before,
            turn_usage=self._turn_usage,
            settings=self._settings,
            partial=self._partial,
            facts=tuple(self._facts),
            schedules=tuple(self._schedules),
            schema_version=ENTRY_SCHEMA,
        )
        head = replace(
            self.head,
            version=self.version,
            message_sequence=self._message_sequence,
            event_sequence=self._event_sequence,
            schema_version=HEAD_SCHEMA,
        )
        return Decision(head, entry, answer)
