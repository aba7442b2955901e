"""`decide` as a whole: pure, total, and the same for the same arguments."""

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from perdure.core import commands, control_commands, schedule_commands, wait_commands
from perdure.core.command import StepCommand, UserCommand
from perdure.core.commands import (
    AttemptLost,
    Command,
    ModelFinished,
    ResolveInterrupt,
    SendInput,
    StopTurn,
    TimerFired,
    ToolFinished,
    ToolsFinished,
    ToolStarted,
)
from perdure.core.decide import _transition_of, decide
from perdure.core.decision import Decision
from perdure.core.head import Head
from perdure.errors import NotFoundError
from tests.unit.core.builders import ALICE, NOON, a_claim, a_session, a_single_write, asked_for

AN_OUTCOME = ToolFinished(
    turn_id="turn-1", call_id="call-2-0", attempt=1, started_at=NOON, outcome="succeeded", output="ok"
)

STEPS: tuple[Command, ...] = (
    ModelFinished(turn_id="turn-1", step_id="model-1-0", attempt=1, started_at=NOON, ending="answer"),
    ToolStarted(call_id="call-2-0", attempt=1, owner="w"),
    AN_OUTCOME,
    ToolsFinished(outcomes=(AN_OUTCOME,)),
    AttemptLost(step_id="model-1-0", attempt=1, claimed=True, reason="died"),
    TimerFired(timer_id="call-2-0", fence=2),
)


@pytest.mark.parametrize("command", STEPS, ids=lambda c: type(c).__name__)
def test_a_step_of_a_purged_life_changes_nothing(command: Command) -> None:
    # races.md X11
    purged = Head(version=40, turn_count=7)

    assert decide(purged, command, now=NOON, commit_id="c") == Decision.unchanged(purged)


@pytest.mark.parametrize(
    "command",
    [ResolveInterrupt(interrupt_id="call-2-0", actor=ALICE, approved=True), StopTurn(actor=ALICE)],
    ids=lambda c: type(c).__name__,
)
def test_a_person_is_told_that_a_session_was_never_written(command: Command) -> None:
    with pytest.raises(NotFoundError) as caught:
        decide(Head(), command, now=NOON, commit_id="c")

    assert caught.value.code == "session_not_found"


@pytest.mark.parametrize("command", STEPS, ids=lambda c: type(c).__name__)
def test_a_step_of_a_turn_that_is_over_changes_nothing(command: Command) -> None:
    # STOP-06, SESS-13
    play = a_session()
    play.model_answers()
    play.send("more")

    assert decide(play.head, command, now=NOON, commit_id="c") == Decision.unchanged(
        play.head, {"go": False} if isinstance(command, ToolStarted) else None
    )


def test_the_same_arguments_give_the_same_decision_and_change_no_argument() -> None:
    play, (call,) = asked_for(a_single_write(gated=True, approval_deadline=timedelta(hours=1)))
    command = ResolveInterrupt(interrupt_id=call, actor=ALICE, approved=False, message="no")
    before = repr(play.head)

    first = decide(play.head, command, now=play.now, commit_id="c")
    second = decide(play.head, command, now=play.now, commit_id="c")

    assert first == second
    assert repr(play.head) == before


def test_every_commit_is_the_next_version_and_carries_its_commands_id_and_time() -> None:
    # SESS-13, races.md X2
    decision = decide(Head(version=6), SendInput(text="hi", actor=ALICE, default_agent="a"), now=NOON, commit_id="c-7")

    assert decision.entry is not None
    assert decision.head.version == decision.entry.version == 7
    assert (decision.entry.commit_id, decision.entry.at, decision.entry.kind) == ("c-7", NOON, "send_input")


def test_the_agents_name_alone_makes_a_session_exist() -> None:
    assert not Head(version=40).exists
    assert a_session().head.exists


def test_a_refused_command_leaves_no_receipt() -> None:
    play = a_session()

    with pytest.raises(NotFoundError):
        play.approve("call-9-0", receipts=(a_claim("k"),))

    assert play.head.version == 1


def is_command(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and issubclass(value, (UserCommand, StepCommand))  # type: ignore[arg-type]


MODULES = (commands, control_commands, schedule_commands, wait_commands)
COMMANDS: list[Any] = [value for module in MODULES for value in vars(module).values() if is_command(value)]


def test_every_command_is_looked_at() -> None:
    assert len(COMMANDS) >= 40
    assert {type(command) for command in STEPS} <= set(COMMANDS)
    assert {cls.__module__ for cls in COMMANDS} == {
        f"perdure.core.{name}" for name in ("commands", "control_commands", "schedule_commands", "wait_commands")
    }


@pytest.mark.parametrize("command", COMMANDS, ids=lambda cls: cls.__name__)
def test_every_command_has_a_transition(command: type[Command]) -> None:
    kind, transition = _transition_of(command)

    assert transition.__name__ == f"on_{kind}"
    assert transition.__annotations__["command"] == command.__name__
