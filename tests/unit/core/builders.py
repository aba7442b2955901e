"""Builders for tests of the core: calls that a model may ask for, and `Play`, which lives one session's life."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from perdure.core.commands import (
    AttemptLost,
    Command,
    InboxPolicy,
    ModelFinished,
    RequestedCall,
    ResolveInterrupt,
    SendInput,
    StopTurn,
    Taker,
    TimerFired,
    ToolFinished,
    ToolStarted,
)
from perdure.core.control_commands import PauseSession, ResumeSession
from perdure.core.decide import decide
from perdure.core.decision import Decision
from perdure.core.entries import Actor, Entry, Event, Input, Message, ReceiptClaim
from perdure.core.expected import Dispatch, expected_dispatches, expected_timers
from perdure.core.head import Call, Head, ModelStep, Turn
from perdure.core.history import HistoryItem, ToolResultItem, history
from perdure.core.public import public_calls, public_messages
from perdure.core.usage import CallUsage
from perdure.core.wait_commands import (
    CancelWait,
    ChangeWait,
    EventArrived,
    Question,
    SkipWait,
    StepRecorded,
    TaskLooked,
    TaskStarted,
    ToolAsked,
    ToolParked,
)

JsonObject = dict[str, Any]

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
ALICE = Actor(issuer="https://login.example", subject="alice")
BOB = Actor(issuer="https://login.example", subject="bob")
SOME_USAGE = CallUsage(input_tokens=10, output_tokens=5, cached_input_tokens=0, reasoning_tokens=0)

WRITE_EFFECTS = ("idempotent_write", "non_idempotent_write", "unclassified")


def text_part(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def a_call(tool_name: str = "lookup", effect: str = "read", *, gated: bool = False, **changes: Any) -> RequestedCall:
    """Return a call that a model asks for; `gated` ones need an approval."""
    call = RequestedCall(tool_name=tool_name, effect=effect, requires_approval=gated, arguments={"of": tool_name})
    return replace(call, **changes)


def a_read(tool_name: str = "lookup", **changes: Any) -> RequestedCall:
    return a_call(tool_name, "read", **changes)


def a_safe_write(tool_name: str = "put", **changes: Any) -> RequestedCall:
    """Return a call of a tool whose body may run again."""
    return a_call(tool_name, "idempotent_write", **changes)


def a_single_write(tool_name: str = "pay", **changes: Any) -> RequestedCall:
    """Return a call of a tool whose body may run once; not gated unless told so."""
    return a_call(tool_name, "non_idempotent_write", **changes)


def a_question(question: str = "Which colour?", **arguments: Any) -> RequestedCall:
    """Return the model's call of `ask_user`; `approval_deadline` is how long the user has."""
    deadline = arguments.pop("approval_deadline", None)
    told = {"question": question, **arguments}
    return a_read("ask_user", arguments=told, built_in=True, approval_deadline=deadline)


def a_wait(seconds: float = 3600, reason: str | None = None) -> RequestedCall:
    """Return the model's call of `durable_wait`."""
    arguments = {"duration_seconds": seconds} | ({"reason": reason} if reason else {})
    return a_read("durable_wait", arguments=arguments, built_in=True)


def a_claim(key: str, content: str = "content") -> ReceiptClaim:
    return ReceiptClaim(key_hash=key, content_hash=content)


class Play:
    """One session: applies commands to its head, one tick of the clock apart, and keeps its log."""

    tick = timedelta(milliseconds=10)

    def __init__(self, head: Head | None = None) -> None:
        self.head = head or Head()
        self.log: list[Entry] = []
        self.now = NOON
        self.taker: Taker | None = None

    def apply(self, command: Command) -> Decision:
        """Decide on a command and commit the decision."""
        self.now += self.tick
        decision = decide(
            self.head, command, now=self.now, commit_id=f"commit-of-{self.head.version + 1}", taker=self.taker
        )
        if decision.entry is not None:
            self.log.append(decision.entry)
        self.head = decision.head
        return decision

    def wait(self, duration: timedelta) -> None:
        self.now += duration

    # --- what people do ----------------------------------------------------------------------------------------

    def send(self, text: str = "hello", **changes: Any) -> Decision:
        return self.apply(replace(SendInput(text=text, actor=ALICE, default_agent="support"), **changes))

    def approve(self, interrupt_id: str, **changes: Any) -> Decision:
        return self.apply(replace(ResolveInterrupt(interrupt_id=interrupt_id, actor=BOB, approved=True), **changes))

    def reject(self, interrupt_id: str, message: str | None = None, **changes: Any) -> Decision:
        return self.approve(interrupt_id, approved=False, message=message, **changes)

    def answer(self, interrupt_id: str, answer: str, **changes: Any) -> Decision:
        return self.approve(interrupt_id, approved=None, answer=answer, **changes)

    def pause(self) -> Decision:
        return self.apply(PauseSession(actor=ALICE))

    def resume(self) -> Decision:
        return self.apply(ResumeSession(actor=ALICE))

    def skip(self, wait_id: str, **details: Any) -> Decision:
        return self.apply(SkipWait(wait_id=wait_id, actor=BOB, details=details))

    def move(self, wait_id: str, until: datetime | None) -> Decision:
        return self.apply(ChangeWait(wait_id=wait_id, until=until, actor=BOB))

    def cancel(self, wait_id: str) -> Decision:
        return self.apply(CancelWait(wait_id=wait_id, actor=BOB))

    def stop(self, **changes: Any) -> Decision:
        return self.apply(replace(StopTurn(actor=ALICE), **changes))

    # --- what workers do ---------------------------------------------------------------------------------------

    def model_ends(self, ending: str = "answer", **changes: Any) -> Decision:
        """End the model step that is expected now."""
        step = self.step
        command = ModelFinished(
            turn_id=self.turn.turn_id,
            step_id=step.step_id,
            attempt=step.attempt,
            started_at=self.now,
            ending=ending,  # type: ignore[arg-type]
            usage=(SOME_USAGE,),
        )
        return self.apply(replace(command, **changes))

    def model_answers(self, text: str = "done", **changes: Any) -> Decision:
        return self.model_ends(parts=(text_part(text),), **changes)

    def model_asks(self, *calls: RequestedCall, **changes: Any) -> list[str]:
        """Have the model ask for tools; returns the ids of the calls, in the model's order."""
        entry = self.model_ends("tool_calls", calls=calls, **changes).entry
        assert entry is not None
        parts = entry.messages[0].parts
        return [part["tool_call_id"] for part in parts if part["type"] == "tool_call"]

    def starts(self, call_id: str, *, owner: str = "worker-1", attempt: int | None = None) -> bool:
        """Have a worker ask whether a write may run; returns its answer."""
        number = attempt or self.call(call_id).attempt
        return bool(self.apply(ToolStarted(call_id=call_id, attempt=number, owner=owner)).reply["go"])

    def finishes(self, call_id: str, output: str = "ok", outcome: str = "succeeded", **changes: Any) -> Decision:
        """End a tool's attempt; a write has to be started first (`runs` does both)."""
        call = self.turn.call(call_id) if self.head.turn else None
        command = ToolFinished(
            turn_id=self.turn.turn_id if self.head.turn else "turn-1",
            call_id=call_id,
            attempt=call.attempt if call else 1,
            started_at=self.now,
            outcome=outcome,  # type: ignore[arg-type]
            output=output,
        )
        return self.apply(replace(command, **changes))

    def runs(self, call_id: str, output: str = "ok", outcome: str = "succeeded") -> Decision:
        """Run a call's attempt from start to end."""
        if not self.call(call_id).is_read:
            assert self.starts(call_id, owner=f"worker-of-{call_id}-{self.call(call_id).attempt}")
        return self.finishes(call_id, output, outcome)

    def _ending(self, call_id: str) -> dict[str, Any]:
        call = self.call(call_id)
        return {"turn_id": self.turn.turn_id, "call_id": call_id, "attempt": call.attempt, "started_at": self.now}

    def begins(self, call_id: str) -> None:
        """Have a worker begin a call's attempt; a write is started."""
        if not self.call(call_id).is_read:
            assert self.starts(call_id, owner=f"worker-of-{call_id}-{self.call(call_id).attempt}")

    def asks(self, call_id: str, question: str = "Really?", *, continuation: Any = None, **changes: Any) -> Decision:
        """End an attempt that was begun: its tool asks first."""
        asked = Question(question=question, **changes)
        return self.apply(ToolAsked(**self._ending(call_id), question=asked, continuation=continuation))

    def parks(
        self, call_id: str, name: str = "nap", sleep: timedelta | None = None, *, event: bool = False
    ) -> Decision:
        """End an attempt that was begun: its tool goes on later."""
        return self.apply(ToolParked(**self._ending(call_id), name=name, sleep=sleep, event=event))

    def records(self, call_id: str, name: str = "first", value: Any = 1) -> bool:
        """Have a running tool record a step; returns whether it counts."""
        call = self.call(call_id)
        recorded = StepRecorded(
            turn_id=self.turn.turn_id, call_id=call_id, attempt=call.attempt, name=name, value=value
        )
        return bool(self.apply(recorded).reply["recorded"])

    def starts_task(self, call_id: str, interval: timedelta = timedelta(seconds=10), **changes: Any) -> Decision:
        """End an attempt that was begun: its tool has started remote work, `job-1`."""
        started = TaskStarted(**self._ending(call_id), task_id="job-1", interval=interval)
        return self.apply(replace(started, **changes))

    def looks(self, call_id: str, interval: timedelta = timedelta(seconds=10), **changes: Any) -> Decision:
        """End a look at remote work that goes on."""
        return self.apply(replace(TaskLooked(**self._ending(call_id), interval=interval), **changes))

    def arrives(self, call_id: str, name: str, value: Any = None) -> Decision:
        """Have trusted code bring an event."""
        return self.apply(EventArrived(call_id=call_id, name=name, actor=BOB, value=value))

    def loses(self, step_id: str, *, claimed: bool = True, final: bool = False, attempt: int | None = None) -> Decision:
        """Give up the attempt of a step that is expected now."""
        if attempt is None:
            attempt = next(d.attempt for d in self.dispatches if d.step_id == step_id)
        return self.apply(
            AttemptLost(step_id=step_id, attempt=attempt, claimed=claimed, final=final, reason="its worker died")
        )

    def fires(self, timer_id: str, fence: int | None = None) -> Decision:
        if fence is None:
            fence = next(t.fence for t in expected_timers(self.head) if t.timer_id == timer_id)
        return self.apply(TimerFired(timer_id=timer_id, fence=fence))

    # --- what came out -----------------------------------------------------------------------------------------

    @property
    def turn(self) -> Turn:
        assert self.head.turn is not None
        return self.head.turn

    @property
    def step(self) -> ModelStep:
        assert self.turn.step is not None
        return self.turn.step

    def call(self, call_id: str) -> Call:
        call = self.turn.call(call_id)
        assert call is not None
        return call

    @property
    def dispatches(self) -> tuple[Dispatch, ...]:
        return expected_dispatches(self.head)

    @property
    def dispatched(self) -> list[str]:
        return [dispatch.step_id for dispatch in self.dispatches]

    @property
    def pending(self) -> list[str]:
        interrupts = self.head.turn.interrupts if self.head.turn else ()
        return [interrupt.interrupt_id for interrupt in interrupts if interrupt.raised_at is not None]

    @property
    def last(self) -> Entry:
        return self.log[-1]

    def facts(self, call_id: str) -> list[tuple[str, str, Any]]:
        """Return kind, name and value of the facts of a call that HEAD still knows of."""
        call = self.call(call_id)
        versions = set(call.records) | ({call.task.version, call.task.resolution} if call.task else set())
        kept = [fact for entry in self.log if entry.version in versions for fact in entry.facts]
        return [(fact.kind, fact.name, fact.value) for fact in kept if fact.call_id == call_id]

    @property
    def timers(self) -> list[tuple[str, datetime]]:
        return [(timer.timer_id, timer.due_at) for timer in expected_timers(self.head)]

    def reason(self, call_id: str) -> str | None:
        """Return why a call was ended, as everybody is told."""
        (ended,) = [e for e in self.events("tool_call_finished") if e.payload["tool_call_id"] == call_id]
        return ended.payload.get("cancellation_reason")

    def events(self, *types: str) -> list[Event]:
        return [event for entry in self.log for event in entry.events if not types or event.type in types]

    @property
    def messages(self) -> list[Message]:
        return [message for entry in self.log for message in entry.messages]

    @property
    def results(self) -> list[JsonObject]:
        """All results of calls, in the order in which they came."""
        return [part for message in self.messages for part in message.parts if part["type"] == "tool_result"]

    def result(self, call_id: str) -> JsonObject:
        """Return the one result of a call."""
        (found,) = [part for part in self.results if part["tool_call_id"] == call_id]
        return found

    def status(self, call_id: str) -> str:
        status: str = self.result(call_id)["status"]
        return status

    def history(self) -> tuple[HistoryItem, ...]:
        return history(self.log)

    def inputs(self) -> dict[str, Input]:
        return {accepted.message_id: accepted for entry in self.log for accepted in entry.inputs}

    def public_messages(self) -> list[JsonObject]:
        return public_messages(self.log)

    def public_calls(self, turn_id: str = "turn-1") -> list[JsonObject]:
        return public_calls(self.log, turn_id, self.head)


GOES_ON = {"support": InboxPolicy(on_turn_failure="continue")}
"""Policies of an agent whose inbox is never held by a turn that failed."""


def a_session(text: str = "hello", **changes: Any) -> Play:
    """Return a session whose first turn waits for the model."""
    play = Play()
    play.send(text, **changes)
    return play


def asked_for(*calls: RequestedCall) -> tuple[Play, list[str]]:
    """Return a session whose model has asked for these tools, and the ids of the calls."""
    play = a_session()
    return play, play.model_asks(*calls)


# --- what waits, and what the model is shown ------------------------------------------------------------------------


def words(play: Play) -> list[str]:
    """Return what the model would be shown, briefly."""
    return [_word(item) for item in history(play.log)]


def _word(item: HistoryItem) -> str:
    if isinstance(item, ToolResultItem):
        return f"{item.tool_name}: {item.status}"
    return item.text


def waiting(play: Play) -> list[tuple[str, str]]:
    """Return the texts that wait and how each is delivered."""
    inputs = play.inputs()
    return [(inputs[m.message_id].text, m.delivery) for m in play.head.inbox]


def deliver(play: Play, text: str, delivery: str | None = None, **changes: Any) -> dict[str, Any]:
    return play.send(text, delivery=delivery, **changes).reply
