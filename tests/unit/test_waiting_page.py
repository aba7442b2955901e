"""`docs/concepts/waiting.md` is right about values: its example runs, and its limits are those of the code."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from perdure.answering import MAX_VALUE_BYTES
from perdure.core import limits
from perdure.models import ScriptedModel
from perdure.testing.fixtures import open_stage
from tests.unit.pages import examples_of

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "concepts" / "waiting.md").read_text(encoding="utf-8")


async def test_the_agent_of_the_page_asks_for_an_address_and_uses_it() -> None:
    names = examples_of(PAGE)
    model = ScriptedModel(lambda _: "shipped")
    async with open_stage(dataclasses.replace(names["shipping"], model=model)) as stage:
        await stage.send("ship it")
        await stage.run_all()

        asked = await names["ask_for_address"](stage.session())
        (pending,) = (await stage.snapshot())["pending_interrupts"]
        assert (pending["interrupt_id"], pending["kind"], pending["question"]) == (asked, "input", "Where to?")
        await names["take_address"](stage.session(), "1 Road")
        await stage.send("and another")
        await stage.run_all()

    assert [request.instructions for request in model.requests] == [
        "You ship orders.",
        "You ship orders. The customer lives at 1 Road.",
    ]


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    assert f"up to {MAX_VALUE_BYTES // 1024} KiB" in PAGE
    assert f"Up to {limits.MAX_REQUESTS} requests" in PAGE
    assert f"a deadline is up to {limits.MAX_WAIT.days} days" in PAGE
