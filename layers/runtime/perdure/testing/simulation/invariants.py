"""What holds after every commit and at the end of every run (design §10), whatever happened in between."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.agents.built_ins import BUILT_IN_TOOLS
from perdure.core import texts
from perdure.core.cursor import advance_sequence
from perdure.core.entries import Entry
from perdure.core.expected import expected_dispatches, expected_timers, sweep_due_at
from perdure.core.fates import TURN_ENDS, fates_of
from perdure.core.head import WRITES_ONCE, Call, Head
from perdure.core.limits import MAX_PARALLEL_WRITES
from perdure.core.usage import UsageTotals
from perdure.testing.simulation.ending import UNKNOWN, Ending, cut_calls
from perdure.testing.simulation.world import World

ASKS_A_PERSON = ("awaiting_approval", "awaiting_answer")
"""Statuses of calls that wait for a person."""


class ViolationError(AssertionError):
    """A promise was broken; the message says which."""


def check(holds: object, what: str) -> None:
    """Raise if something that must hold does not."""
    if not holds:
        raise ViolationError(what)


def check_head(old: Head, new: Head) -> None:
    """Check HEAD as a commit left it, against HEAD before: its next step or the person it waits for is named.

    Raises:
        ViolationError: Something does not hold.
    """
    check(new.version == old.version + 1, f"version {new.version} follows {old.version}")
    check(new.message_sequence >= old.message_sequence, "the counter of messages went back")
    check(new.event_sequence >= old.event_sequence, "the counter of events went back")
    check(new.turn_count - old.turn_count in (0, 1), "the counter of turns jumped")
    turn = new.turn
    if turn is None:
        closed = new.paused_at is not None or new.hold is not None
        waiting = [message for message in new.inbox if not message.is_passive]
        check(closed or not waiting, "a message waits in the inbox and no turn will take it")
        steps = [step for step in expected_dispatches(new) if step.kind != "cancel_tool_task"]
        check(not steps, "a step is expected of no turn")
        return
    asked = {call.call_id for call in turn.open_calls if call.status in ASKS_A_PERSON}
    check(not (turn.step and turn.open_calls), "a model step is expected beside open calls")
    check(turn.step or turn.open_calls, "the turn has neither a step nor a call")
    check(asked == {i.call_id for i in turn.interrupts}, "who is asked and the interrupts differ")
    for call in turn.open_calls:
        _check_waker(new, call)
    expected = expected_dispatches(new)
    check(not expected or sweep_due_at(new) is not None, "the sweep would never look at this session")
    writes = [call for call in turn.open_calls if call.holds_a_place]
    check(len(writes) <= MAX_PARALLEL_WRITES, f"{len(writes)} writes run side by side")
    for call in turn.calls:
        before = old.turn.call(call.call_id) if old.turn else None
        if before is not None:
            asks = call.is_final or call.status == "awaiting_answer"  # it said that it did nothing
            check(not before.started or call.started or asks, f"{call.call_id} lost its start")
            check(not before.is_final or before.status == call.status, f"{call.call_id} changed its final status")


def _check_waker(head: Head, call: Call) -> None:
    """Check that HEAD says who goes on with an open call: a worker, a person, a time, or what trusted code brings."""
    asks = call.status in ASKS_A_PERSON
    check(call.is_ready + asks + (call.wait is not None) <= 1, f"two things would go on with {call.call_id}")
    if call.wait is not None:
        timed = any(timer.timer_id == call.call_id for timer in expected_timers(head))
        check(timed or call.wait.kind in ("event", "result"), f"nothing will ever end the wait of {call.call_id}")
    elif not call.is_ready and not asks:
        check(call.status == "approved", f"{call.call_id} is {call.status}, and nobody goes on with it")


def check_log(head: Head, entries: Sequence[Entry]) -> None:
    """Check a whole log: no gaps, one result for each call, one start of what runs once, closed turns stay closed.

    Raises:
        ViolationError: Something does not hold.
    """
    check([e.version for e in entries] == list(range(1, head.version + 1)), "versions have a gap")
    ids = [e.commit_id for e in entries]
    check(len(set(ids)) == len(ids), "one command was committed twice")
    events = [event for entry in entries for event in entry.events]
    check([e.sequence for e in events] == list(range(1, head.event_sequence + 1)), "event sequences have a gap")
    messages = [message for entry in entries for message in entry.messages]
    check([m.sequence for m in messages] == list(range(1, head.message_sequence + 1)), "message sequences have a gap")
    receipts = [receipt.key_hash for entry in entries for receipt in entry.receipts]
    check(len(set(receipts)) == len(receipts), "one idempotency key was accepted twice")
    accepted = {i.message_id for entry in entries for i in entry.inputs}
    elsewhere = {message.message_id for message in head.inbox}
    elsewhere |= {event.payload["message_id"] for event in events if event.type == "message_removed"}
    rehomed = {turn_id: fate.rehomed for turn_id, fate in fates_of(entries).items()}
    taken = [
        message.message_id
        for message in messages
        if message.role == "user" and message.message_id not in rehomed.get(message.turn_id, ())
    ]
    check(sorted(taken) == sorted(accepted - elsewhere), "an accepted message has no turn, or two")
    _check_calls(entries)
    rows = [row for entry in entries for row in entry.usage]
    check(head.usage == UsageTotals().plus(rows), "usage totals are not the sum of the rows")


def check_calm(entries: Sequence[Entry]) -> None:
    """Check the log of a run that no fault struck: nothing was lost and nothing had to be done again.

    Raises:
        ViolationError: Something was.
    """
    kinds = {entry.kind for entry in entries}
    check("attempt_lost" not in kinds, "an attempt was lost without any fault")
    parts = [part for entry in entries for message in entry.messages for part in message.parts]
    unknown = {part["tool_call_id"] for part in parts if part.get("status") == UNKNOWN}
    check(unknown <= cut_calls(entries), "an outcome is unknown without any fault")


def _check_calls(entries: Sequence[Entry]) -> None:
    closed: set[str | None] = set()
    asked: dict[str, str] = {}
    answered: set[str] = set()
    started: set[str] = set()
    left_off: set[str] = set()
    effects: dict[str, str] = {}
    for entry in entries:
        for message in entry.messages:
            check(message.turn_id not in closed, f"{message.turn_id} was closed and got a message")
            for part in message.parts:
                if part["type"] == "tool_call":
                    asked[part["tool_call_id"]] = message.turn_id
                elif part["type"] == "tool_result":
                    call_id = part["tool_call_id"]
                    check(asked.get(call_id) == message.turn_id, f"{call_id} has a result and was never asked for")
                    check(call_id not in answered, f"{call_id} has two results")
                    answered.add(call_id)
        for event in entry.events:
            if event.type == "tool_call_deferred":
                effects[event.payload["tool_call_id"]] = event.payload["effect"]
            elif event.type == "tool_call_started":
                call_id = event.payload["tool_call_id"]
                once = effects[call_id] in WRITES_ONCE
                again = once and call_id in started and call_id not in left_off
                check(not again, f"{call_id} runs once and was started twice")
                started.add(call_id)
                left_off.discard(call_id)
            elif entry.kind in ("tool_asked", "tool_parked", "event_arrived") and "tool_call_id" in event.payload:
                left_off.add(event.payload["tool_call_id"])
            elif event.type in TURN_ENDS:
                check(event.turn_id not in closed, f"{event.turn_id} was closed twice")
                open_calls = {call_id for call_id, turn in asked.items() if turn == event.turn_id} - answered
                check(not open_calls, f"{event.turn_id} was closed over {sorted(open_calls)}")
                closed.add(event.turn_id)


def check_books(ending: Ending, world: World) -> None:
    """Check what the transcript says of each call against what its body really did.

    Raises:
        ViolationError: They contradict each other.
    """
    check(not world.complaints, "; ".join(world.complaints))
    check(max(world.attempts.values(), default=0) <= 1, "one attempt ran twice")
    check(world.overstated == 0, "a checkpoint told of work that nobody had done")
    outputs = {line.call: line.text for line in ending.transcript if line.role == "tool"}
    for call_id, number in ending.call_ids.items():
        tool, effect, status = ending.calls[number]
        began, effects = world.began[call_id] - world.asked[call_id], world.effects[call_id]
        once = effect in WRITES_ONCE
        again = began - world.parked[call_id] > 1
        check(not (once and again), f"{tool} runs once, and its body began {began} times")
        check(len(world.keys.get(call_id, ())) <= 1, f"{tool} got different idempotency keys")
        check(
            status != UNKNOWN or once or number in ending.cut,
            f"{tool} may run again, and its outcome is said to be unknown",
        )
        if status == "succeeded" and tool not in BUILT_IN_TOOLS and tool not in world.elsewhere:
            check(effects >= 1, f"{tool} is said to have succeeded, and never took effect")
        if status == "rejected" and effect != "read":
            check(not began, f"{tool} is said to have been rejected, and its body began")
        if f": {texts.DID_NOT_RUN}" in outputs.get(number, ""):
            did = effects if tool in world.looks_up else began
            check(not did, f"{tool} is said not to have run, and it did")


def check_told(sequences: Sequence[int], head: Head, who: str = "a viewer") -> None:
    """Check what somebody was sent: every durable event, the first time in order; one may come again (promise 4)."""
    last = 0
    for sequence in sequences:
        told = advance_sequence(last, sequence)
        check(told != "gap", f"{who} got event {sequence} when it had {last}")
        last = sequence if told == "accepted" else last
    check(last == head.event_sequence, f"{who} got {last} of {head.event_sequence} events")
