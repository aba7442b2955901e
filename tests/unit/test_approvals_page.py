"""`docs/concepts/approvals.md` is right: its examples run, and what it lists is there."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from perdure.core import limits
from perdure.models import ModelRequest, Reply, ScriptedModel, call, tool_results, user_texts
from perdure.service import LOCAL_CALLER, Service
from perdure.session import BoundService, Session
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.pages import examples_of

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "concepts" / "approvals.md").read_text(encoding="utf-8")
SECRET = "a secret that nobody else knows"


@pytest.fixture
def names() -> dict[str, Any]:
    return examples_of(PAGE)


def a_shop(names: dict[str, Any]) -> Any:
    """The shop of the page; its model refunds the order and the amount that the user names."""

    def script(request: ModelRequest) -> str | Reply:
        if tool_results(request):
            return "done"
        order_id, amount = user_texts(request)[-1].split()
        return Reply(calls=(call("refund_order", order_id=order_id, amount=float(amount)),))

    return dataclasses.replace(names["shop"], model=ScriptedModel(script))


async def asked(stage: Stage, text: str) -> list[str]:
    await stage.send(text)
    await stage.run_all()
    return [each["interrupt_id"] for each in (await stage.snapshot())["pending_interrupts"]]


async def test_what_was_approved_ahead_runs_and_nothing_else_does(names: dict[str, Any]) -> None:
    async with open_stage(a_shop(names)) as stage:
        (first,) = await asked(stage, "7 10")
        await names["approve_with_others"](stage.session(), first)
        await stage.run_all()

        assert [await asked(stage, f"7 {amount}") for amount in range(5)] == [[]] * 5
        assert len(await asked(stage, "7 6")) == 1


async def test_a_run_ends_with_a_part_and_the_next_begins_with_the_decision(names: dict[str, Any]) -> None:
    async with open_stage(a_shop(names)) as stage:
        session = Session(BoundService(Service(stage.deps, approval_secret=SECRET), LOCAL_CALLER), "s-1")
        await asked(stage, "7 25")

        (part,) = await names["ends_a_run"](session)
        await names["begins_the_next"](session, json.loads(json.dumps(part)), True, None)
        await stage.run_all()

        (shown,) = [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]
        assert part.keys() == shown.keys() - {"deadline"}
        assert (await stage.results())["refund_order"] == ("succeeded", "refunded 25.0 of order 7")


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    assert f"up to {limits.MAX_GRANT.days} days" in PAGE
    assert f"up to {limits.MAX_GRANTS} of them" in PAGE
