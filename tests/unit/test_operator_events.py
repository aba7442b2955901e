"""What operators are told: ids and codes, and nothing of what users, models and tools said (spec EVT-13, case F146)."""

from __future__ import annotations

import ast
import json
import logging
from pathlib import Path
from typing import Any, get_args

import pytest

import perdure
from perdure import ToolExecutionError, function_tool
from perdure.core.limits import LEASE_DURATION, LEASE_GRACE
from perdure.errors import ModelCallError
from perdure.models.base import ModelRequest
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results
from perdure.operator_events import DETAILS_VARIABLE, OperatorEvent, tell
from perdure.steps.recover import record_dead_letter, sweep_session
from perdure.testing.fixtures import SESSION, open_stage
from tests.unit.steps.builders import an_agent, failing

PACKAGE = Path(perdure.__file__).parent
CARD = "4111-TEST"
PASSWORD = "hunter-TEST"
PLANTED = (CARD, PASSWORD, "reasoning-TEST", "provider-body-TEST", "output-TEST")


@function_tool(effect="read")
def pay(password: str) -> str:
    """Fail with all that it was given."""
    raise ValueError(f"{password} was refused for {CARD}")


@function_tool(effect="read")
def refuse(password: str) -> str:
    """Refuse with words for the model."""
    raise ToolExecutionError(f"output-TEST {password}")


class Provider:
    """Fails with what it was asked, then asks for tools, and in the end breaks down."""

    provider = model = "planted"

    def __init__(self) -> None:
        self.calls = 0

    async def stream(self, request: ModelRequest) -> Any:
        self.calls += 1
        if self.calls == 1:
            raise failing("rate_limited", partial_text=f"provider-body-TEST {CARD}")
        if not tool_results(request):
            asked = (call("pay", password=PASSWORD), call("refuse", password=PASSWORD))
            reply = Reply(reasoning=f"reasoning-TEST {CARD}", text=CARD, calls=asked)
            async for item in ScriptedModel(lambda _: reply).stream(request):
                yield item
            return
        if self.calls < 5:
            raise RuntimeError(f"provider-body-TEST {CARD}")
        raise ModelCallError(f"provider-body-TEST {CARD}", kind="invalid", retryable=False)


def approve(arguments: dict[str, Any]) -> str:
    raise KeyError(f"{PASSWORD} {arguments}")


async def a_turn_in_which_all_goes_wrong() -> None:
    rule = function_tool(effect="read", requires_approval=approve, name="ruled")(lambda: "x")  # type: ignore[call-overload]
    async with open_stage(an_agent(pay, refuse, rule, model=Provider())) as stage:
        await stage.send(f"my card is {CARD}")
        await stage.run_all()
        assert "turn_failed" in await stage.event_types()


def everything(records: list[logging.LogRecord]) -> str:
    """Return all that any formatter could write of some records, tracebacks included."""
    formatter = logging.Formatter("%(message)s")
    return "\n".join(formatter.format(r) + json.dumps(r.__dict__, default=repr) for r in records)


async def test_nothing_of_what_was_said_reaches_any_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="perdure"):
        await a_turn_in_which_all_goes_wrong()

    events = {getattr(record, "event", None) for record in caplog.records}
    assert {"throttled", "fault", "turn_failed"} <= events
    written = everything([record for record in caplog.records if record.name.startswith("perdure")])
    assert [planted for planted in PLANTED if planted in written] == []


async def test_the_whole_cause_is_told_to_whoever_asks_for_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DETAILS_VARIABLE, "1")

    await a_turn_in_which_all_goes_wrong()

    assert f"ValueError: {PASSWORD} was refused" in everything(caplog.records)


async def test_a_fault_is_told_with_its_class_its_place_and_the_ids_of_its_step(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await a_turn_in_which_all_goes_wrong()

    told = next(r for r in caplog.records if r.getMessage() == "a tool failed unexpectedly")
    fields = told.__dict__
    assert (fields["event"], fields["session_id"], fields["tool_name"], fields["cause"]) == (
        "fault",
        "s-1",
        "pay",
        "ValueError",
    )
    assert fields["where"].endswith(" pay")
    assert "test_operator_events.py:" in fields["where"]
    assert (told.levelno, told.name) == (logging.ERROR, "perdure.operator")
    failed = next(r for r in caplog.records if r.getMessage() == "a turn failed")
    assert (failed.__dict__["code"], failed.__dict__["turn_id"]) == ("provider", "turn-1")


@pytest.mark.parametrize("text", ["two words", "x" * 201, "a\nb", "4111 1111", ""])
def test_what_does_not_look_like_an_id_is_left_out(text: str, caplog: pytest.LogCaptureFixture) -> None:
    tell("fault", "something failed", session_id="s-1", tool_name=text, code=text)

    (record,) = caplog.records
    assert (record.__dict__["session_id"], hasattr(record, "tool_name"), hasattr(record, "code")) == (
        "s-1",
        False,
        False,
    )


def calls_in(file: Path) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]


def test_nothing_in_the_package_logs_a_cause_by_itself_and_every_word_of_the_vocabulary_is_used() -> None:
    files = [f for f in PACKAGE.rglob("*.py") if f.name != "operator_events.py" and "testing" not in f.parts]
    used: set[str] = set()
    by_themselves = []
    for file in files:
        text = file.read_text(encoding="utf-8")
        used |= {word for word in get_args(OperatorEvent) if f'"{word}"' in text}
        for each in calls_in(file):
            name = each.func.attr if isinstance(each.func, ast.Attribute) else ""
            if (name == "exception" and each.args) or any(word.arg == "exc_info" for word in each.keywords):
                by_themselves.append(f"{file.name}:{each.lineno}")
    assert by_themselves == []
    assert used == set(get_args(OperatorEvent))


async def test_a_dead_worker_and_a_message_that_was_given_up_are_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="perdure")
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")
        message = stage.taken()
        expires = stage.clock.now() + LEASE_DURATION
        assert await stage.leases.claim(SESSION, message.step_id, 1, "somebody", expires)
        await stage.clock.advance((LEASE_DURATION + LEASE_GRACE).total_seconds() + 60)
        await sweep_session(stage.deps, SESSION)
        await record_dead_letter(stage.deps, stage.taken(), "received too often")

    told = [(r.__dict__["event"], r.__dict__.get("step_id"), r.__dict__.get("attempt")) for r in caplog.records]
    assert told == [
        ("recovery", "model-1-0", 1),
        ("turn_failed", None, None),
        ("dead_letter", "model-1-0", 2),
    ]
