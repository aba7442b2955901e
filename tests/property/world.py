"""One session under test: every command goes through `World.do`, which checks what has to hold whatever happens."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from perdure.core import texts
from perdure.core.codec import decode, encode
from perdure.core.commands import Command, ModelFinished, SendInput, ToolStarted
from perdure.core.decide import decide
from perdure.core.decision import Decision
from perdure.core.entries import Entry
from perdure.core.expected import awaited_steps, expected_timers, sweep_due_at
from perdure.core.fates import TurnFate, fates_of
from perdure.core.head import Call, Head
from perdure.core.history import HistoryItem, ModelItem, ToolResultItem, Transcript, UserItem, history, wire_ids
from perdure.core.limits import MAX_HEAD_BYTES, MAX_PARALLEL_WRITES
from perdure.core.public import inputs_of, public_calls, public_messages
from perdure.core.size import head_bytes
from perdure.core.usage import TOKEN_FIGURES, CallUsage, UsageTotals
from perdure.core.wait_commands import EventArrived, ResultBrought, TaskCancelled, ToolAsked, ToolParked
from perdure.errors import RequestError
from tests.unit.core.builders import BOB, Play

NO_FATE = TurnFate(ending="")


class World(Play):
    """A play that remembers what the outside saw, and checks the core against it.

    Attributes:
        done: Every command that was carried out or refused, to be sent again later.
        claimed: Attempts that a worker has claimed, as (step id, attempt).
        revoked: Attempts that were given up; nobody can claim them any more.
        bodies: How often the body of a call began, by call id; a read's begins with its claim.
        asked: Of these, how often it then said that it had done nothing and wanted to ask, by call id.
        parked: How often it left off to go on later, by call id.
        gone: Attempts that were expected once and are no more.
    """

    def __init__(self) -> None:
        super().__init__()
        self.done: list[Command] = []
        self.claimed: set[tuple[str, int]] = set()
        self.revoked: set[tuple[str, int]] = set()
        self.bodies: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.parked: Counter[str] = Counter()
        self.gone: set[tuple[str, int]] = set()
        self.effects: dict[str, str] = {}
        self.call_turns: dict[str, str] = {}
        self.result_of: dict[str, dict[str, Any]] = {}
        self.rows: list[CallUsage] = []
        self.transcript = Transcript()
        self.accepted: set[str] = set()
        self.removed: set[str] = set()
        self.closed_items: tuple[HistoryItem, ...] = ()
        self.closed_messages: list[dict[str, Any]] = []
        self.closed_calls: tuple[str, list[dict[str, Any]]] = ("", [])

    # --- one command -------------------------------------------------------------------------------------------

    def do(self, command: Command) -> Decision | None:
        """Carry out a command; None when it was refused."""
        self.done.append(command)
        self.now += self.tick
        before = encode(self.head)
        stored = json.dumps(before, sort_keys=True)
        try:
            decision = decide(self.head, command, now=self.now, commit_id="c", taker=self.taker)
        except RequestError:
            assert json.dumps(encode(self.head), sort_keys=True) == stored
            return None
        again = decide(self.head, command, now=self.now, commit_id="c", taker=self.taker)
        assert again == decision, "decide is not deterministic"
        assert json.dumps(encode(self.head), sort_keys=True) == stored, "decide changed its input"
        self._check_step(self.head, decision)
        old, self.head = self.head, decision.head
        if decision.entry is not None:
            self._take(old, decision.entry)
        if isinstance(command, SendInput):
            assert head_bytes(self.head) <= MAX_HEAD_BYTES
        if isinstance(command, ToolStarted) and decision.reply["go"] and decision.entry is not None:
            self.bodies[command.call_id] += 1
        if not isinstance(command, ToolStarted) and decision.entry is not None and self.head.turn is not None:
            for call in self.head.turn.calls:  # a write that was taken starts with the commit that made it ready
                before_it = old.turn.call(call.call_id) if old.turn else None
                if call.started is not None and (before_it is None or before_it.started is None):
                    self.bodies[call.call_id] += 1
        self._note_waits(command, old, decision)
        if isinstance(command, ToolStarted) and decision.reply["go"] and old.paused_at is not None:
            begun = old.turn.call(command.call_id) if old.turn else None
            assert begun is not None
            assert begun.started is not None, "a tool began while the session was paused"
        if isinstance(command, ModelFinished) and decision.entry is not None:
            assert decision.entry.usage == command.usage
        return decision

    def _note_waits(self, command: Command, old: Head, decision: Decision) -> None:
        """Note which bodies ended without an end, and that no attempt is ever expected again."""
        if isinstance(command, (ToolAsked, ToolParked)) and decision.entry is not None:
            call = old.turn.call(command.call_id) if old.turn else None
            assert call is not None
            if isinstance(command, ToolAsked) and not call.parked:
                self.asked[call.call_id] += 1
            else:
                self.parked[call.call_id] += 1
        now = set(self.expected_attempts())
        assert not now & self.gone, "an attempt is expected again, and nobody can claim it twice"
        self.gone |= {(d.step_id, d.attempt) for d in awaited_steps(old)} - now

    def apply(self, command: Command) -> Decision:
        """Carry out a command that is not refused; the shortcuts of `Play` come through here."""
        decision = self.do(command)
        assert decision is not None, "the command was refused"
        return decision

    def _check_step(self, old: Head, decision: Decision) -> None:
        if decision.entry is None:
            assert decision.head == old
            return
        entry, new = decision.entry, decision.head
        assert entry.version == new.version == old.version + 1
        assert [e.sequence for e in entry.events] == list(range(old.event_sequence + 1, new.event_sequence + 1))
        assert [m.sequence for m in entry.messages] == list(range(old.message_sequence + 1, new.message_sequence + 1))
        assert decode(Head, json.loads(json.dumps(encode(new)))) == new
        assert decode(Entry, json.loads(json.dumps(encode(entry)))) == entry
        closed = {f"turn-{n}" for n in range(1, old.turn_count + (0 if old.turn else 1))}
        assert not closed & {message.turn_id for message in entry.messages}, "a closed turn got a message"

    def _take(self, old: Head, entry: Entry) -> None:
        self.log.append(entry)
        self.rows += entry.usage
        self.transcript.extend([entry])
        self.accepted |= {accepted.message_id for accepted in entry.inputs}
        if entry.kind == "retry_turn":  # a failed turn that is retried is one with what follows
            self.closed_items = ()
        for message in entry.messages:
            for part in message.parts:
                if part["type"] == "tool_call":
                    self.call_turns[part["tool_call_id"]] = message.turn_id
                elif part["type"] == "tool_result":
                    call_id = part["tool_call_id"]
                    assert call_id not in self.result_of, "a call got two results"
                    assert self.call_turns[call_id] == message.turn_id
                    self.result_of[call_id] = part
        for event in entry.events:
            if event.type == "tool_call_deferred":
                self.effects[event.payload["tool_call_id"]] = event.payload["effect"]
            elif event.type == "message_removed":
                self.removed.add(event.payload["message_id"])
        if self.head.last_turn != old.last_turn:
            begun = [
                m for m in entry.messages if m.role == "user" and self.head.turn and m.turn_id == self.turn.turn_id
            ]
            self._remember_closed_turn(len(begun))

    def _remember_closed_turn(self, begun: int) -> None:
        """Remember the turns that are over. `begun`: the users' messages that have just begun the next one."""
        last = self.head.last_turn
        assert last is not None
        items = self.transcript.items()
        self.closed_items = items[: len(items) - begun]
        self.closed_messages = [m for m in self._public() if not self.head.turn or m["turn_id"] != self.turn.turn_id]
        self.closed_calls = (last.turn_id, public_calls(self._entries_of_last_turn(), last.turn_id, self.head))
        for call_id, turn_id in self.call_turns.items():
            if turn_id == last.turn_id:
                assert call_id in self.result_of, "a turn was closed over a call without a result"

    def _public(self) -> list[dict[str, Any]]:
        return public_messages(self.log)

    def _entries_of_last_turn(self) -> list[Entry]:
        last = self.head.last_turn
        return self.log[last.opened_version - 1 :] if last else []

    def one_step_to_the_end(self) -> None:
        """Have everybody do their part of what is expected now."""
        if self.head.turn is None or not (self.turn.step or self.turn.open_calls):
            waiting = self.head.cancellations[0]
            self.do(TaskCancelled(step_id=waiting.step_id, attempt=waiting.attempt, done=True))
        elif self.turn.step is not None:
            self.model_answers()
        elif self.pending:
            self._decide_all()
        elif steps := [each for each in self.expected_attempts() if self.turn.call(each[0])]:
            self._run_to_the_end(*steps[0])
        else:
            self._end_a_wait()

    def _decide_all(self) -> None:
        self.now = max([self.now, *(t.due_at for t in expected_timers(self.head) if t.timer_id in self.pending)])
        timed = {timer.timer_id for timer in expected_timers(self.head)}
        kinds = {i.interrupt_id: i.kind for i in self.turn.interrupts}
        for interrupt_id in self.pending:
            if interrupt_id in timed:
                self.fires(interrupt_id)
            elif kinds[interrupt_id] == "approval":
                self.approve(interrupt_id)
            else:
                self.answer(interrupt_id, "yes")

    def _run_to_the_end(self, step_id: str, attempt: int) -> None:
        if (step_id, attempt) in self.claimed | self.revoked:
            self.loses(step_id, claimed=(step_id, attempt) in self.claimed)
            return
        self.claimed.add((step_id, attempt))
        call = self.call(step_id)
        if call.is_read or call.task is not None or self.starts(step_id, owner="last"):
            self.finishes(step_id)

    def _end_a_wait(self) -> None:
        call = next(call for call in self.turn.open_calls if call.wait is not None)
        assert call.wait is not None
        if call.wait.until is not None:
            self.now = max(self.now, call.wait.until)
            self.fires(call.call_id)
        elif call.wait.kind == "event":
            self.apply(EventArrived(call_id=call.call_id, name=call.wait.name, actor=BOB))
        else:
            self.apply(ResultBrought(call_id=call.call_id, tool_name=call.tool_name, actor=BOB, output="ok"))

    # --- what holds at any time --------------------------------------------------------------------------------

    def check(self) -> None:
        """Check everything that has to hold between two commands."""
        self._check_progress()
        self._check_calls()
        self._check_projections()
        self._check_usage()
        self._check_inputs()

    def _check_inputs(self) -> None:
        """Nothing that was accepted is ever lost or doubled (spec U-3)."""
        fates = fates_of(self.log)
        waiting = [queued.message_id for queued in self.head.inbox]
        shown = [
            message.message_id
            for entry in self.log
            for message in entry.messages
            if message.role == "user" and message.message_id not in fates.get(message.turn_id, NO_FATE).rehomed
        ]
        places = [*waiting, *shown, *self.removed]
        assert len(places) == len(set(places)), "a message is in two places"
        assert set(places) == self.accepted, "a message is nowhere"
        inputs = inputs_of(self.log)
        texts_of = [
            inputs[message.input_version, message.message_id].text
            for entry in self.log
            for message in entry.messages
            if message.role == "user" and message.message_id in shown
            if message.message_id not in fates.get(message.turn_id, NO_FATE).rehomed
        ]
        users = [item.text for item in self.transcript.items() if isinstance(item, UserItem)]
        assert [text for text in users if not text.startswith(texts.NOTE)] == texts_of, "a model is told otherwise"
        if self.head.turn is not None:
            session, own = (
                self.log[version - 1] if version is not None else None
                for version in (self.turn.settings_version, self.turn.run_settings_version)
            )
            bound = (session.settings if session else None) or {}
            assert self.transcript.settings == bound | ((own.inputs[0].run_settings if own else None) or {})
        classes = [0 if m.is_steered else 1 if m.urgent else 2 for m in self.head.inbox]
        assert classes == sorted(classes)

    def _check_progress(self) -> None:
        head = self.head
        if head.turn is None:
            gate_closed = head.paused_at is not None or head.hold is not None
            waiting = [message for message in head.inbox if not message.is_passive]
            assert gate_closed or not waiting, "a message waits and nothing will take it up"
            assert {d.kind for d in self.dispatches} <= {"cancel_tool_task"}
            assert not any(message.delivery == "inject" for message in head.inbox)
            return
        turn = head.turn
        open_ids = {call.call_id for call in turn.open_calls}
        asked = {call.call_id for call in turn.open_calls if call.status in ("awaiting_approval", "awaiting_answer")}
        going_on = [step for step in awaited_steps(head) if step.kind != "cancel_tool_task"]
        gate_closed = head.paused_at is not None and turn.stop is None
        assert [step for step in self.dispatches if step.kind != "cancel_tool_task"] == (
            [] if gate_closed else going_on
        )
        assert len(head.cancellations) == sum(step.kind == "cancel_tool_task" for step in self.dispatches)
        assert not (turn.step and open_ids), "a model step runs beside calls"
        assert turn.step or open_ids, "the turn is stuck"
        assert asked == {interrupt.call_id for interrupt in turn.interrupts}
        assert len(turn.interrupts) == len(asked)
        assert not turn.interrupts or turn.interrupts[0].raised_at is not None, "nobody was asked"
        assert not self.dispatches or sweep_due_at(head) is not None
        if turn.steer and turn.stop is None:
            begun = [c.started or c.task or c.parked or c.wait or (c.is_read and c.is_ready) for c in turn.open_calls]
            assert turn.step or all(begun), "a turn that gives way waits for the unstarted"
            assert not any(call.built_in for call in turn.open_calls)
        if turn.stop is not None:
            runs = [c.is_ready and c.task is None and (c.started or c.parked) for c in turn.open_calls]
            assert turn.step or all(runs), "a stopped turn waits for what nobody runs"
        writes = [d for d in going_on if d.kind.startswith("call_") and self.effects[d.step_id] != "read"]
        assert len(writes) <= MAX_PARALLEL_WRITES
        running = [c for c in turn.open_calls if c.status == "approved" and c.started_attempt == c.attempt]
        assert {call.call_id for call in running} <= {d.step_id for d in going_on}
        lanes = [call.lane for call in turn.calls if call.holds_lane]
        assert len(lanes) == len(set(lanes)), "two calls of one lane run side by side"
        for call in turn.calls:
            self._check_waker(call)

    def _check_waker(self, call: Call) -> None:
        """Check that an open call names who goes on with it, and a final one nobody and nothing."""
        turn = self.turn
        if call.is_final:
            assert (call.wait, call.task, call.records, call.arrived, call.ready_at) == (None, None, (), (), None)
            return
        asks = call.status in ("awaiting_approval", "awaiting_answer")
        assert call.is_ready + asks + (call.wait is not None) <= 1, "two things would go on with a call"
        if call.wait is not None:
            timed = any(t.timer_id == call.call_id for t in expected_timers(self.head))
            assert timed == (call.wait.until is not None)
            assert timed or call.wait.kind in ("event", "result"), "no time, and nothing that may come"
            kinds = {"timer": "waiting_for_timer", "task": "waiting_for_task"}
            assert call.status == kinds.get(call.wait.kind, "waiting_for_event")
        elif not call.is_ready and not asks:
            assert call.status == "approved", "nothing will ever go on with a call"
            full = sum(other.holds_a_place for other in turn.calls) >= MAX_PARALLEL_WRITES and not call.is_read
            in_line = any(other.holds_lane for other in turn.calls if other.lane == call.lane and other is not call)
            assert self.head.paused_at is not None or full or in_line, "a call could run, and is not made ready"

    def _check_calls(self) -> None:
        for call_id, began in self.bodies.items():
            acted = began - self.asked[call_id]
            if self.effects[call_id] in ("non_idempotent_write", "unclassified"):
                assert acted - self.parked[call_id] <= 1, "a call that runs once began twice"
            result = self.result_of.get(call_id)
            if result is None or not acted:
                continue
            assert not result["output"].startswith(texts.DID_NOT_RUN)
            if self.effects[call_id] != "read":
                assert result["status"] != "rejected"

    def _check_projections(self) -> None:
        items = self.transcript.items()
        assert items == history(self.log)
        assert items[: len(self.closed_items)] == self.closed_items, "a closed turn looks different now"
        assert self._public()[: len(self.closed_messages)] == self.closed_messages
        turn_id, calls = self.closed_calls
        if self.head.last_turn and self.head.last_turn.turn_id == turn_id:
            assert public_calls(self._entries_of_last_turn(), turn_id, self.head) == calls
        check_history(items)

    def _check_usage(self) -> None:
        totals = self.head.usage
        assert totals == UsageTotals().plus(self.rows)
        assert totals.model_calls == len(self.rows)
        for name in TOKEN_FIGURES:
            reported = [value for row in self.rows if (value := getattr(row, name)) is not None]
            assert getattr(totals, name) == (sum(reported) if reported else None)
            assert (name in totals.missing) == (len(reported) < len(self.rows))

    def expected_attempts(self) -> list[tuple[str, int]]:
        return [(d.step_id, d.attempt) for d in awaited_steps(self.head)]


def check_history(items: tuple[HistoryItem, ...]) -> None:
    """Check that a provider would take these items: each call answered right behind it, once, with a unique id."""
    expected: list[str] = []
    for item in items:
        if isinstance(item, ToolResultItem):
            assert expected, "a result without its call"
            assert item.call_id == expected.pop(0), "a result is not where its call wants it"
            continue
        assert not expected, "a call without its result"
        assert isinstance(item, (UserItem, ModelItem))
        if isinstance(item, ModelItem):
            expected = [call.call_id for call in item.calls]
    assert not expected, "a call without its result"
    ids = [call.call_id for item in items if isinstance(item, ModelItem) for call in item.calls]
    assert len(ids) == len(set(ids))
    for provider in ("stub", "other"):
        on_the_wire = wire_ids(items, provider)
        assert set(on_the_wire) == set(ids)
        assert len(set(on_the_wire.values())) == len(ids), "two calls have one id on the wire"
