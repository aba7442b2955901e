"""The core as a state machine: every command in any order, and what has to hold after each (design §10)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from perdure.core.commands import (
    AttemptLost,
    AttemptPutOff,
    InboxPolicy,
    ModelFinished,
    ModelWaits,
    Reconnect,
    ResolveInterrupt,
    SendInput,
    StopTurn,
    Taker,
    TimerFired,
    ToolFinished,
    ToolStarted,
)
from perdure.core.control_commands import (
    CredentialChanged,
    DeliverMessage,
    EditMessage,
    MoveMessage,
    PauseSession,
    RemoveMessage,
    ResumeSession,
    RetryTurn,
    UpdateSettings,
)
from perdure.core.expected import expected_timers
from perdure.core.head import ClosedTurn, Frontier, Head, Turn
from perdure.core.inbox import DELIVERIES, find
from perdure.core.usage import NO_TOTALS
from tests.property.strategies import ENDINGS, call_lists, deliveries, parts, policies, providers, usage_rows
from tests.property.world import World
from tests.unit.core.builders import ALICE, BOB, a_claim


class CoreMachine(RuleBasedStateMachine):
    """Plays people, workers, the sweep and the queue at once, without mercy but by the rules of the leases."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.old_interrupts: list[tuple[str, int]] = []

    # --- people ------------------------------------------------------------------------------------------------

    @rule(named=st.booleans(), key=st.sampled_from([None, "k"]), delivery=deliveries, policy=policies)
    def send(self, named: bool, key: str | None, delivery: str | None, policy: InboxPolicy) -> None:
        """Send a message; an id of the sender's is new, because its receipt keeps it from being taken twice."""
        receipts = (a_claim(key),) if key else ()
        text = f"text {self.world.head.version}"
        message_id = f"m{self.world.head.version}" if named else None
        self.world.do(
            SendInput(
                text=text,
                actor=ALICE,
                default_agent="support",
                message_id=message_id,
                delivery=delivery,
                policies={"support": policy},
                settings={"n": 1} if named else None,
                run_settings={"m": 1} if key else None,
                receipts=receipts,
            )
        )

    # --- what waits --------------------------------------------------------------------------------------------

    def _waiting(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from([m.message_id for m in self.world.head.inbox]))

    @precondition(lambda self: self.world.head.inbox)
    @rule(data=st.data(), stale=st.booleans())
    def edit(self, data: st.DataObject, stale: bool) -> None:
        message_id = self._waiting(data)
        message = find(self.world.head, message_id)
        assert message is not None
        edited = replace(self.world.inputs()[message_id], text="edited")
        done = self.world.do(EditMessage(edited=edited, actor=ALICE, base_version=message.input_version - stale))
        assert (done is None) == stale

    @precondition(lambda self: self.world.head.inbox)
    @rule(data=st.data(), place=st.sampled_from(["before", "after", "first", "last"]))
    def move(self, data: st.DataObject, place: str) -> None:
        message_id, other = self._waiting(data), self._waiting(data)
        if place in ("first", "last"):
            self.world.do(MoveMessage(message_id=message_id, actor=ALICE, position=place))
        else:
            before, after = (other, None) if place == "before" else (None, other)
            self.world.do(MoveMessage(message_id=message_id, actor=ALICE, before=before, after=after))

    @precondition(lambda self: self.world.head.inbox)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        assert self.world.do(RemoveMessage(message_id=self._waiting(data), actor=ALICE)) is not None

    @precondition(lambda self: self.world.head.inbox)
    @rule(data=st.data(), delivery=st.sampled_from(DELIVERIES))
    def deliver(self, data: st.DataObject, delivery: str) -> None:
        command = DeliverMessage(message_id=self._waiting(data), delivery=delivery, actor=ALICE)
        assert self.world.do(command) is not None

    # --- the gate ----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.head.exists)
    @rule()
    def pause(self) -> None:
        self.world.do(PauseSession(actor=ALICE))

    @precondition(lambda self: self.world.head.paused_at is not None)
    @rule()
    def resume(self) -> None:
        self.world.do(ResumeSession(actor=ALICE))

    @precondition(lambda self: self.world.head.exists)
    @rule(retry_id=st.sampled_from(["r1", "r2"]))
    def retry(self, retry_id: str) -> None:
        self.world.do(RetryTurn(actor=BOB, retry_id=retry_id, receipts=(a_claim(retry_id),)))

    @precondition(lambda self: self.world.head.exists)
    @rule(credential=st.sampled_from(["old", "new"]))
    def credential_is_looked_at(self, credential: str) -> None:
        self.world.do(CredentialChanged(credential=credential))

    @precondition(lambda self: self.world.head.exists)
    @rule(mode=st.sampled_from([None, "allow_all", "deny_all", "read_only", "always_ask"]))
    def settings(self, mode: str | None) -> None:
        self.world.do(UpdateSettings(settings={"approval_mode": mode} if mode else {}, actor=ALICE))

    @precondition(lambda self: self.world.head.paused_at is not None and self.world.expected_attempts())
    @rule(data=st.data())
    def attempt_is_put_off(self, data: st.DataObject) -> None:
        """A worker claims an attempt, finds the gate closed, and says so."""
        world = self.world
        attempt = self._draw_attempt(data)
        if attempt in world.claimed | world.revoked:
            return
        world.claimed.add(attempt)
        world.do(AttemptPutOff(step_id=attempt[0], attempt=attempt[1]))
        assert attempt not in world.expected_attempts()

    @precondition(lambda self: self.world.pending)
    @rule(data=st.data(), approved=st.booleans(), message=st.sampled_from([None, "please"]), wrong=st.booleans())
    def resolve(self, data: st.DataObject, approved: bool, message: str | None, wrong: bool) -> None:
        interrupt = data.draw(st.sampled_from([i for i in self.world.turn.interrupts if i.raised_at is not None]))
        asks, wrong = interrupt.kind == "question", wrong and interrupt.kind == "approval"
        shown = "another" if wrong else data.draw(st.sampled_from([None, interrupt.arguments_hash or None]))
        decided = self.world.do(
            ResolveInterrupt(
                interrupt_id=interrupt.interrupt_id,
                actor=BOB,
                **({"answer": "yes"} if asks and approved else {"approved": approved}),
                message=message,
                arguments_hash=shown,
            )
        )
        late = interrupt.deadline is not None and self.world.now >= interrupt.deadline
        assert (decided is None) == (wrong or late)
        self.old_interrupts.append((interrupt.interrupt_id, interrupt.fence))

    @precondition(lambda self: self.old_interrupts)
    @rule(data=st.data(), approved=st.booleans())
    def resolve_again(self, data: st.DataObject, approved: bool) -> None:
        interrupt_id, _ = data.draw(st.sampled_from(self.old_interrupts))
        if interrupt_id not in self.world.pending:
            assert self.world.do(ResolveInterrupt(interrupt_id=interrupt_id, actor=BOB, approved=approved)) is None

    @rule(which=st.sampled_from(["any", "current", "older"]), key=st.sampled_from([None, "s"]))
    def stop(self, which: str, key: str | None) -> None:
        number = self.world.head.turn_count - (which == "older")
        turn_id = None if which == "any" else f"turn-{number}"
        frontier = Frontier(version=max(self.world.head.version - 1, 0), text=1, reasoning=0) if key else None
        self.world.do(
            StopTurn(actor=ALICE, turn_id=turn_id, frontier=frontier, receipts=(a_claim(key),) if key else ())
        )

    @precondition(lambda self: self.world.head.inbox)
    @rule(data=st.data())
    def stop_a_waiting_message(self, data: st.DataObject) -> None:
        done = self.world.do(StopTurn(actor=ALICE, message_id=self._waiting(data)))
        assert done is not None
        assert done.reply == {"result": "recorded"}

    # --- workers -----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.head.turn and self.world.head.turn.step)
    @rule(data=st.data(), ending=st.sampled_from(ENDINGS), said=parts, provider=providers, usage=usage_rows)
    def model_ends(self, data: st.DataObject, ending: Any, said: Any, provider: Any, usage: Any) -> None:
        step = self.world.step
        if (step.step_id, step.attempt) in self.world.revoked:
            return
        stops = ending in ("answer", "not_accepted") and data.draw(st.sampled_from([False, False, True]))
        self.world.do(
            ModelFinished(
                turn_id=self.world.turn.turn_id,
                step_id=step.step_id,
                attempt=step.attempt,
                started_at=self.world.now,
                ending=ending,
                parts=() if stops else said,
                provider=provider,
                calls=data.draw(call_lists) if ending == "tool_calls" else (),
                usage=() if stops else usage,
                stop_policy="enough" if stops else None,
                reconnects=(Reconnect(at=self.world.now, retry_in_ms=250, number=1, reason="timeout", partial=True),),
                run_state={"model_calls": 1},
                limit_reached=data.draw(st.sampled_from([False, False, False, True])),
                one_by_one=data.draw(st.booleans()),
                error_code=data.draw(st.sampled_from(["provider", "auth"])),
                error_message="it broke",
                credential="old",
            )
        )

    @precondition(lambda self: self.world.head.turn and self.world.head.turn.step)
    @rule(partial=st.sampled_from([None, "half"]), usage=usage_rows)
    def model_waits(self, partial: str | None, usage: Any) -> None:
        step = self.world.step
        if (step.step_id, step.attempt) in self.world.revoked:
            return
        self.world.do(
            ModelWaits(
                turn_id=self.world.turn.turn_id,
                step_id=step.step_id,
                attempt=step.attempt,
                started_at=self.world.now,
                retry_in=timedelta(seconds=40),
                usage=usage,
                reconnects=(Reconnect(at=self.world.now, retry_in_ms=40_000, number=1, reason="timeout"),),
                partial=partial,
            )
        )

    def _draw_attempt(self, data: st.DataObject) -> tuple[str, int]:
        return data.draw(st.sampled_from(self.world.expected_attempts()))

    @precondition(lambda self: self.world.dispatches)
    @rule(data=st.data(), twice=st.booleans())
    def tool_starts(self, data: st.DataObject, twice: bool) -> None:
        """A worker claims an attempt and, for a write, asks whether it may run; its answer may get lost."""
        world = self.world
        attempt = self._draw_attempt(data)
        if attempt in world.claimed or attempt in world.revoked:
            return
        world.claimed.add(attempt)
        call = world.turn.call(attempt[0])
        if call is None:
            return
        if call.is_read:
            world.bodies[call.call_id] += 1
            return
        command = ToolStarted(call_id=call.call_id, attempt=attempt[1], owner=f"{attempt}")
        first = world.do(command)
        assert first is not None
        if twice:
            again = world.do(command)
            assert again is not None
            assert again.reply == first.reply
        stranger = world.do(ToolStarted(call_id=call.call_id, attempt=attempt[1], owner="stranger"))
        assert stranger is not None
        assert not stranger.reply["go"]

    @precondition(lambda self: self.world.dispatches)
    @rule(data=st.data(), outcome=st.sampled_from(["succeeded", "succeeded", "failed", "error"]))
    def tool_ends(self, data: st.DataObject, outcome: Any) -> None:
        world = self.world
        attempt = self._draw_attempt(data)
        call = world.turn.call(attempt[0])
        ran = call is not None and (call.is_read or call.started_attempt == attempt[1])
        if call is None or not ran or attempt not in world.claimed or attempt in world.revoked:
            return
        self.world.do(
            ToolFinished(
                turn_id=world.turn.turn_id,
                call_id=call.call_id,
                attempt=attempt[1],
                started_at=world.now,
                outcome=outcome,
                output="out",
            )
        )

    @precondition(lambda self: self.world.dispatches)
    @rule(data=st.data(), final=st.booleans())
    def attempt_is_lost(self, data: st.DataObject, final: bool) -> None:
        attempt = self._draw_attempt(data)
        self.world.revoked.add(attempt)
        self.world.do(
            AttemptLost(
                step_id=attempt[0],
                attempt=attempt[1],
                claimed=attempt in self.world.claimed,
                reason="its worker died",
                final=final,
            )
        )

    # --- time --------------------------------------------------------------------------------------------------

    @precondition(lambda self: bool(expected_timers(self.world.head)))
    @rule(data=st.data(), stale=st.booleans())
    def timer_fires(self, data: st.DataObject, stale: bool) -> None:
        timer = data.draw(st.sampled_from(expected_timers(self.world.head)))
        decision = self.world.do(TimerFired(timer_id=timer.timer_id, fence=timer.fence - stale))
        assert decision is not None
        assert (decision.entry is not None) == (not stale and timer.due_at <= self.world.now)
        if decision.entry is not None:
            self.old_interrupts.append((timer.timer_id, timer.fence))

    @precondition(lambda self: self.old_interrupts)
    @rule(data=st.data())
    def old_timer_fires(self, data: st.DataObject) -> None:
        interrupt_id, fence = data.draw(st.sampled_from(self.old_interrupts))
        if interrupt_id not in self.world.pending:
            decision = self.world.do(TimerFired(timer_id=interrupt_id, fence=fence))
            assert decision is not None
            assert decision.entry is None

    @rule(taker=st.sampled_from([None, Taker(owner="hot"), Taker(owner="hot", any_tool=True)]))
    def workers_go_on_or_not(self, taker: Taker | None) -> None:
        self.world.taker = taker

    @rule(minutes=st.sampled_from([1, 31, 180]))
    def time_passes(self, minutes: int) -> None:
        self.world.wait(timedelta(minutes=minutes))

    # --- the queue ---------------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.done)
    @rule(data=st.data())
    def an_old_message_comes_again(self, data: st.DataObject) -> None:
        command = data.draw(st.sampled_from(self.world.done))
        if isinstance(command, (ModelFinished, ModelWaits, ToolFinished, ToolStarted, AttemptLost, AttemptPutOff)):
            before = self.world.head
            self.world.do(command)
            after = self.world.head
            assert after.message_sequence == before.message_sequence, "an outcome counted twice"
            assert _but_for_usage(after) == _but_for_usage(before)

    @invariant()
    def all_holds(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        """From wherever it is, the session comes to rest once everybody does their part."""
        world = self.world
        if world.head.exists:
            world.do(ResumeSession(actor=ALICE))
        for _ in range(2000):
            if world.head.turn is None and world.head.hold is not None:
                world.do(StopTurn(actor=ALICE))
            if world.head.turn is None:
                break
            world.one_step_to_the_end()
        assert world.head.turn is None, "the session never comes to rest"
        assert all(message.is_passive for message in world.head.inbox)
        world.check()


def _but_for_usage(head: Head) -> tuple[Turn | None, ClosedTurn | None]:
    """The turns of a session but for usage: what an attempt spent counts, however late it comes (design §3)."""
    return head.turn and replace(head.turn, usage=NO_TOTALS), head.last_turn


def _machine(**profile: Any) -> Callable[[], None]:
    case = CoreMachine.TestCase
    case.settings = settings(deadline=None, suppress_health_check=list(HealthCheck), **profile)

    def run() -> None:
        case("runTest").runTest()

    return run


def test_whatever_happens_in_whatever_order_the_core_keeps_its_promises() -> None:
    _machine(max_examples=50, stateful_step_count=40, derandomize=True, database=None)()


@pytest.mark.slow
def test_a_longer_random_search_finds_nothing_either() -> None:
    """The same search each time; PERDURE_DEEP=1 makes it one of some minutes that goes another way each time."""
    if "PERDURE_DEEP" in os.environ:
        _machine(max_examples=1500, stateful_step_count=120)()
    else:
        _machine(max_examples=40, stateful_step_count=120, derandomize=True, database=None)()
