"""`docs/concepts/schedules.md` is right: its examples run as it says, and its limits are those of the code."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure.agents.built_ins import MAX_SCHEDULE_ID, MAX_SCHEDULED_CHARACTERS
from perdure.core import limits
from perdure.core.calendar import MAX_INTERVAL, MIN_INTERVAL, SEARCH_YEARS
from perdure.models import Reply, ScriptedModel, call, tool_results
from perdure.scheduling import MAX_TRIES
from perdure.steps.firing import MAX_FIRING_TIMERS
from perdure.steps.waking import LONGEST_HOOK
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.pages import examples_of
from tests.unit.steps.builders import an_agent
from tests.unit.steps.scheduled import asking, due, heard

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "concepts" / "schedules.md").read_text(encoding="utf-8")


@pytest.fixture
def names() -> dict[str, Any]:
    return examples_of(PAGE)


async def next_times(stage: Stage) -> dict[str, str]:
    return {each["schedule_id"]: each["next_at"] for each in await stage.session().schedules()}


async def test_what_begins_the_session_comes_and_one_of_them_can_be_moved(names: dict[str, Any]) -> None:
    agent = dataclasses.replace(names["assistant"], model=asking())
    async with open_stage(agent) as stage:
        await names["begin"](stage.session())
        usual = (await next_times(stage))["orders"]
        assert usual.endswith("T08:00:00.000Z")  # nine in Berlin, in winter

        await names["later_this_once"](stage.session())
        assert (await next_times(stage))["orders"] == usual.replace("T08:00", "T10:00")
        await due(stage)

        assert await heard(stage) == ["heard: Look through the new orders."]
        then = datetime.fromisoformat((await next_times(stage))["orders"])
        assert (then.hour, then.minute) == (8, 0)
        (message, *_) = (await stage.snapshot())["messages"]
        assert message["source"] == "schedule"
        assert message["message_id"].startswith("schedule:orders:")
        assert message["metadata"]["schedule"].keys() == {"schedule_id", "number", "scheduled_for"}


async def test_the_agent_leaves_out_puts_off_and_ends_what_is_due(names: dict[str, Any]) -> None:
    agent = an_agent(model=asking(), on_schedule=names["on_schedule"])
    async with open_stage(agent) as stage:
        await names["begin"](stage.session())
        await stage.session().cancel_schedule((set(await next_times(stage)) - {"orders"}).pop())

        await due(stage)
        assert await heard(stage) == []
        names["new_orders"].append("7")
        names["shop"]["reachable"] = False
        await due(stage)
        names["shop"]["reachable"] = True
        await due(stage)
        assert await heard(stage) == ["heard: Look through orders 7."]
        names["shop"]["open"] = False
        await due(stage)

        assert await next_times(stage) == {}
        kinds = [kind for kind in await stage.event_types() if kind.startswith("schedule.")]
        assert kinds == ["schedule.set"] * 2 + [
            "schedule.cancelled",
            "schedule.skipped",
            "schedule.fired",
            "schedule.failed",
        ]


async def test_the_tool_of_the_page_sets_two_reminders_once(names: dict[str, Any]) -> None:
    def script(request: Any) -> str | Reply:
        return "done" if tool_results(request) else Reply(calls=(call("order_parcel", order_id="7"),))

    async with open_stage(an_agent(names["order_parcel"], model=ScriptedModel(script))) as stage:
        await stage.send("a parcel, please")
        await stage.run_all()

        assert (await next_times(stage)).keys() == {"order-7", "call-2-0"}


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    table = PAGE.partition("## Limits")[2].partition("## Deploys")[0]
    rows = dict(line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| "))

    assert rows["schedules of a session"] == str(limits.MAX_SCHEDULES)
    assert rows["`schedule_id`"].startswith(f"1 to {MAX_SCHEDULE_ID} characters")
    assert rows["distance of `at`, of a moved occurrence, and of a cron's next slot"] == f"up to {SEARCH_YEARS} years"
    assert rows["tries of an occurrence"].startswith(f"1 to {MAX_TRIES:,}")
    assert rows["text that a model schedules"] == f"{MAX_SCHEDULED_CHARACTERS:,} characters"
    assert rows["timers that fire at a time"] == str(MAX_FIRING_TIMERS)
    assert timedelta(days=SEARCH_YEARS * 366) == limits.MAX_AHEAD
    assert MAX_INTERVAL == limits.MAX_WAIT == timedelta(days=365)
    assert timedelta(minutes=1) == MIN_INTERVAL == limits.LATE_AFTER
    assert limits.SCHEDULE_RETRY_LIMIT.total_seconds() == 60
    assert f"It has {LONGEST_HOOK:.0f} seconds" in PAGE
