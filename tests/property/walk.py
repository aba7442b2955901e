"""A seeded walk through the life of one session whose calls wait: people, tools, workers and time, in any order.

Hypothesis seldom gets as far as a tool that asks, is answered and parks; this walk is weighted towards that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

from perdure.core.commands import (
    AttemptLost,
    AttemptPutOff,
    Command,
    ModelFinished,
    ModelWaits,
    RequestedCall,
    ResolveInterrupt,
    SendInput,
    StopTurn,
    Taker,
    TimerFired,
    ToolFinished,
    ToolsFinished,
    ToolStarted,
)
from perdure.core.control_commands import PauseSession, ResumeSession
from perdure.core.expected import Timer, awaited_steps, expected_timers
from perdure.core.head import Call
from perdure.core.wait_commands import (
    CancelWait,
    ChangeWait,
    EventArrived,
    OutputShown,
    Question,
    ResultBrought,
    SkipWait,
    StepRecorded,
    TaskCancelled,
    TaskLooked,
    TaskStarted,
    ToolAsked,
    ToolParked,
)
from tests.property.strategies import EFFECTS
from tests.property.world import World
from tests.unit.core.builders import ALICE, BOB, text_part

OUTCOMES = (
    *(ModelFinished, ModelWaits, ToolFinished, ToolsFinished, ToolStarted, AttemptLost, AttemptPutOff, TimerFired),
    *(ToolAsked, ToolParked, TaskStarted, TaskLooked, TaskCancelled),
)
"""What a queue or a worker may say twice; the second time it changes nothing."""

DEADLINES = (None, None, timedelta(minutes=1), timedelta(hours=2))


class Walk:
    """One walk. `taken` counts the commands that changed something."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.world = World()
        self.taken: Counter[str] = Counter()
        self.timers: list[Timer] = []
        actions: dict[Callable[[], Any], int] = {
            self.send: 2,
            self.model: 8,
            self.begin: 10,
            self.end: 6,
            self.ask: 3,
            self.park: 4,
            self.record: 3,
            self.start_a_task: 3,
            self.look: 4,
            self.cancel_a_task: 2,
            self.decide: 6,
            self.bring: 3,
            self.bring_a_result: 1,
            self.change: 2,
            self.time: 3,
            self.fire: 5,
            self.fire_an_old_one: 1,
            self.lose: 3,
            self.pause: 1,
            self.resume: 3,
            self.stop: 1,
            self.repeat: 3,
            self.go_on: 1,
        }
        self.actions = [action for action, weight in actions.items() for _ in range(weight)]

    def run(self, steps: int) -> None:
        """Take steps that change something, check all that has to hold behind each, and come to rest."""
        for _ in range(steps):
            self._one_step()
            self.world.check()
        self.rest()

    def _one_step(self) -> None:
        version = self.world.head.version
        turn = self.world.head.turn
        likely = self.send if turn is None else self.model if turn.step is not None else None
        if likely is not None and self.dice.random() < 0.5:
            likely()
        for _ in range(20):
            if self.world.head.version > version:
                return
            self.dice.choice(self.actions)()

    def rest(self) -> None:
        """Let everybody do their part until nothing is left to do."""
        world = self.world
        if world.head.exists:
            world.do(ResumeSession(actor=ALICE))
        for _ in range(500):
            if world.head.turn is None and world.head.hold is not None:
                world.do(StopTurn(actor=ALICE))
            if world.head.turn is None and not world.head.cancellations:
                break
            world.one_step_to_the_end()
            world.check()
        assert world.head.turn is None, "the session never comes to rest"
        assert not world.head.cancellations, "remote work is asked to stop for ever"

    def _do(self, command: Command) -> bool:
        before = expected_timers(self.world.head)
        done = self.world.do(command)
        changed = done is not None and done.entry is not None
        self.taken[type(command).__name__] += changed
        self.timers += [timer for timer in before if timer not in expected_timers(self.world.head)]
        return changed

    # --- the model -------------------------------------------------------------------------------------------------

    def send(self) -> None:
        delivery = self.dice.choice([None, "queue", "steer", "steer", "interrupt"])
        self._do(SendInput(text="go on", actor=ALICE, default_agent="support", delivery=delivery))

    def model(self) -> None:
        turn = self.world.head.turn
        if turn is None or turn.step is None or (turn.step.step_id, turn.step.attempt) in self.world.revoked:
            return
        calls = tuple(self._call() for _ in range(self.dice.choice([0, 1, 1, 2, 3, 4, 11])))
        self._do(
            ModelFinished(
                turn_id=turn.turn_id,
                step_id=turn.step.step_id,
                attempt=turn.step.attempt,
                started_at=self.world.now,
                ending="tool_calls" if calls else "answer",
                parts=() if calls else (text_part("done"),),
                calls=calls,
                one_by_one=self.dice.random() < 0.3,
            )
        )

    def _call(self) -> RequestedCall:
        kind = self.dice.choice(["plain"] * 6 + ["ask_user", "durable_wait", "brought"])
        if kind == "plain":
            return RequestedCall(
                tool_name=self.dice.choice("ab"),
                effect=self.dice.choice(EFFECTS),
                requires_approval=self.dice.random() < 0.25,
                arguments={"n": self.dice.randrange(3)},
                approval_deadline=self.dice.choice(DEADLINES),
                lane=self.dice.choice([None, None, "lane"]),
                reconciles=self.dice.random() < 0.3,
            )
        arguments: dict[str, Any] = {"question": "Which?"} if kind == "ask_user" else {}
        if kind == "durable_wait":
            arguments = {"duration_seconds": self.dice.choice([1, 90, 86_400]), "reason": "a build"}
        return RequestedCall(
            tool_name=kind,
            effect=self.dice.choice(EFFECTS) if kind == "brought" else "read",
            requires_approval=False,
            arguments=arguments,
            approval_deadline=self.dice.choice(DEADLINES),
            built_in=kind != "brought",
            brought=kind == "brought",
        )

    # --- tools -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A worker claims an attempt, which nobody has claimed or given up, and starts the body of a write."""
        world = self.world
        free = [each for each in world.expected_attempts() if each not in world.claimed | world.revoked]
        if not free:
            return
        attempt = self.dice.choice(free)
        call = world.head.turn.call(attempt[0]) if world.head.turn else None
        world.claimed.add(attempt)
        gated = world.head.paused_at is not None and (world.head.turn is None or world.turn.stop is None)
        taken = {(d.step_id, d.attempt) for d in awaited_steps(world.head) if d.claimed_by is not None}
        if gated and attempt not in taken and self.dice.random() < 0.8:
            self._do(AttemptPutOff(step_id=attempt[0], attempt=attempt[1]))
        elif call is not None and call.task is None and call.is_read:
            world.bodies[call.call_id] += 1
        elif call is not None and call.task is None:
            self._do(ToolStarted(call_id=call.call_id, attempt=attempt[1], owner=f"{attempt}"))

    def _running(self, *, looks: bool) -> dict[str, Any] | None:
        world = self.world
        if world.head.turn is None:
            return None
        expected = {d: world.turn.call(d[0]) for d in world.expected_attempts()}
        running = [
            {"turn_id": world.turn.turn_id, "call_id": call.call_id, "attempt": attempt[1]}
            for attempt, call in expected.items()
            if call is not None and attempt in world.claimed and attempt not in world.revoked
            if looks == (call.task is not None)
            if looks or call.is_read or call.started_attempt == attempt[1]
        ]
        return self.dice.choice(running) if running else None

    def end(self) -> None:
        if of := self._running(looks=self.dice.random() < 0.3):
            outcome = self.dice.choice(["succeeded", "failed", "error", "error"])
            ended = ToolFinished(**of, started_at=self.world.now, outcome=outcome, output="out")  # type: ignore[arg-type]
            alone = self.dice.random() < 0.5
            self._do(ended if alone else ToolsFinished(outcomes=(ended,)))

    def _question(self) -> Question:
        return Question(question="Really?", deadline=self.dice.choice(DEADLINES), free_text=self.dice.random() < 0.5)

    def ask(self) -> None:
        if of := self._running(looks=False):
            self._do(ToolAsked(**of, started_at=self.world.now, question=self._question(), continuation=[1]))

    def park(self) -> None:
        if of := self._running(looks=False):
            sleep = self.dice.choice([None, timedelta(minutes=1), timedelta(days=3)])
            event = sleep is None or self.dice.random() < 0.5
            name = self.dice.choice(["one", "two"])
            self._do(ToolParked(**of, started_at=self.world.now, name=name, sleep=sleep, event=event))

    def record(self) -> None:
        if of := self._running(looks=False):
            shows = self.dice.random() < 0.3
            kept = self._do(OutputShown(**of, output="half") if shows else StepRecorded(**of, name="one", value=1))
            assert kept, "what a running tool did was not kept"

    def start_a_task(self) -> None:
        if of := self._running(looks=False):
            interval = self.dice.choice([timedelta(seconds=1), timedelta(seconds=900), timedelta(hours=3)])
            polls = self.dice.random() < 0.9
            self._do(TaskStarted(**of, started_at=self.world.now, task_id="remote", interval=interval, polls=polls))

    def look(self) -> None:
        if of := self._running(looks=True):
            interval = self.dice.choice([timedelta(seconds=1), timedelta(hours=3)])
            question = self._question() if self.dice.random() < 0.4 else None
            self._do(TaskLooked(**of, started_at=self.world.now, interval=interval, question=question))

    def cancel_a_task(self) -> None:
        for waiting in self.world.head.cancellations[:1]:
            if (waiting.step_id, waiting.attempt) not in self.world.revoked:
                done = self.dice.random() < 0.5
                self._do(TaskCancelled(step_id=waiting.step_id, attempt=waiting.attempt, done=done))

    # --- people and trusted code -----------------------------------------------------------------------------------

    def decide(self) -> None:
        """Decide on something that is pending; only a decision that comes too late is refused."""
        if not self.world.pending:
            return
        interrupt = self.dice.choice([i for i in self.world.turn.interrupts if i.raised_at is not None])
        yes = self.dice.random() < 0.7
        asks = interrupt.kind == "question"
        taken = self._do(
            ResolveInterrupt(
                interrupt_id=interrupt.interrupt_id,
                actor=BOB,
                approved=None if asks and yes else yes,
                answer="yes" if asks and yes else None,
                arguments={"n": 9} if not asks and yes and self.dice.random() < 0.3 else None,
                message=self.dice.choice([None, "please"]),
            )
        )
        late = interrupt.deadline is not None and self.world.now >= interrupt.deadline
        assert taken != late

    def _open_call(self) -> Call | None:
        calls = self.world.head.turn.open_calls if self.world.head.turn else ()
        return self.dice.choice(calls) if calls else None

    def bring(self) -> None:
        if call := self._open_call():
            name = self.dice.choice(["one", "two"])
            awaited = call.wait is not None and call.wait.kind == "event" and call.wait.name == name
            taken = self._do(EventArrived(call_id=call.call_id, name=name, actor=BOB, value=1))
            assert taken or not awaited, "the event that a tool waits for was refused"

    def bring_a_result(self) -> None:
        if call := self._open_call():
            taken = self._do(ResultBrought(call_id=call.call_id, tool_name=call.tool_name, actor=BOB, output="brought"))
            assert taken == (call.wait is not None and call.wait.kind == "result")

    def change(self) -> None:
        """Skip, move or cancel whatever may wait."""
        call = self._open_call()
        ids = ([call.call_id] if call else []) + self.world.pending
        if not ids:
            return
        wait_id = self.dice.choice(ids)
        minutes = self.dice.choice([None, -5, 1, 300])
        until = None if minutes is None else self.world.now + timedelta(minutes=minutes)
        commands: list[Command] = [
            SkipWait(wait_id=wait_id, actor=BOB, details={"reason": "a build"}),
            ChangeWait(wait_id=wait_id, until=until, actor=BOB),
            ChangeWait(wait_id=wait_id, until=until, actor=BOB),
            CancelWait(wait_id=wait_id, actor=BOB),
        ]
        self._do(self.dice.choice(commands))

    def pause(self) -> None:
        if self.world.head.exists:
            self._do(PauseSession(actor=ALICE))

    def resume(self) -> None:
        if self.world.head.exists:
            self._do(ResumeSession(actor=ALICE))

    def stop(self) -> None:
        self._do(StopTurn(actor=ALICE))

    # --- time and the queue ----------------------------------------------------------------------------------------

    def time(self) -> None:
        self.world.wait(self.dice.choice([timedelta(minutes=1), timedelta(hours=3), timedelta(days=2)]))

    def fire(self) -> None:
        """Fire a timer that is set: one that is due does something, an early or stale one nothing."""
        timers = expected_timers(self.world.head)
        if timers:
            timer = self.dice.choice(timers)
            stale = self.dice.random() < 0.2
            due = timer.due_at <= self.world.now + self.world.tick
            assert self._do(TimerFired(timer_id=timer.timer_id, fence=timer.fence - stale)) == (due and not stale)

    def fire_an_old_one(self) -> None:
        if self.timers:
            timer = self.dice.choice(self.timers)
            assert not self._do(TimerFired(timer_id=timer.timer_id, fence=timer.fence)), "an old timer did something"

    def lose(self) -> None:
        attempts = self.world.expected_attempts()
        if attempts:
            attempt = self.dice.choice(attempts)
            self.world.revoked.add(attempt)
            claimed = attempt in self.world.claimed
            final = self.dice.random() < 0.2
            self._do(
                AttemptLost(step_id=attempt[0], attempt=attempt[1], claimed=claimed, reason="it died", final=final)
            )

    def repeat(self) -> None:
        """Deliver something again that was said before."""
        said = [command for command in self.world.done[-40:] if isinstance(command, OUTCOMES)]
        if said:
            before = self.world.head
            again = self.dice.choice(said)
            early = isinstance(again, TimerFired) and (again.timer_id, again.fence) in {
                (timer.timer_id, timer.fence) for timer in expected_timers(before)
            }
            if not early:
                self._do(again)
                assert self.world.head == before, f"{type(again).__name__} counted twice"

    def go_on(self) -> None:
        self.world.taker = self.dice.choice([None, Taker(owner="hot"), Taker(owner="hot", any_tool=True)])
