"""Schedules at work: set by models, tools and callers, fired by their timers (SCHD-01 to SCHD-07, WAIT-06)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.agents.schedules import Occurrence, ScheduleEndedError, ScheduleRetryError
from perdure.agents.tools import ToolContext, function_tool
from perdure.core import texts
from perdure.errors import NotFoundError, RequestConflictError
from perdure.models.scripted import call
from perdure.service import LOCAL_CALLER
from perdure.testing.fixtures import open_stage
from tests.unit.steps.builders import an_agent
from tests.unit.steps.scheduled import HOURLY, asking, due, heard

TOOLS = ["set_schedule", "list_schedules", "cancel_schedule"]


async def test_a_model_schedules_lists_and_cancels() -> None:
    # SCHD-06
    calls = (
        call("set_schedule", text="water the plants", every="0 9 * * *", time_zone="UTC", schedule_id="plants"),
        call("set_schedule", text="once", after={"hours": 2}),
    )
    async with open_stage(an_agent(model=asking(*calls), built_in_tools=TOOLS)) as stage:
        await stage.send("go")
        await stage.run_all()

        shown = (await stage.service.schedules(LOCAL_CALLER, "s-1"))["schedules"]
        assert [(each["schedule_id"], each["text"]) for each in shown] == [
            ("call-2-1", "once"),
            ("plants", "water the plants"),
        ]
        status, output = (await stage.results())["set_schedule"]
        assert (status, json.loads(output)["status"]) == ("succeeded", "set")

        await due(stage)
        assert await heard(stage) == ["heard: go", "heard: once"]


async def test_a_model_sees_its_schedules_and_what_it_can_not_cancel() -> None:
    calls = (call("list_schedules"), call("cancel_schedule", schedule_id="none"))
    async with open_stage(an_agent(model=asking(*calls), built_in_tools=TOOLS)) as stage:
        await stage.service.set_schedule(LOCAL_CALLER, "s-1", text="tick", when=HOURLY, schedule_id="tick")
        await stage.send("go")
        await stage.run_all()

        results = await stage.results()
        (listed,) = json.loads(results["list_schedules"][1])["schedules"]
        assert (listed["schedule_id"], listed["text"], listed["when"]) == ("tick", "tick", HOURLY)
        assert results["cancel_schedule"] == ("failed", "this session has no schedule 'none'")


async def test_a_session_that_may_only_read_has_no_schedules_set_or_cancelled_and_may_see_them() -> None:
    calls = (
        call("set_schedule", text="x", after={"hours": 1}),
        call("cancel_schedule", schedule_id="tick"),
        call("list_schedules"),
    )
    async with open_stage(an_agent(model=asking(*calls), built_in_tools=TOOLS)) as stage:
        await stage.service.set_schedule(LOCAL_CALLER, "s-1", text="tick", when=HOURLY, schedule_id="tick")
        await stage.service.update_settings(LOCAL_CALLER, "s-1", {"approval_mode": "read_only"})
        await stage.send("go")
        await stage.run_all()

        results = await stage.results()
        blocked = ("rejected", texts.BLOCKED_BY_MODE.format(mode="read_only"))
        assert (results["set_schedule"], results["cancel_schedule"]) == (blocked, blocked)
        assert results["list_schedules"][0] == "succeeded"
        (shown,) = (await stage.service.schedules(LOCAL_CALLER, "s-1"))["schedules"]
        assert shown["schedule_id"] == "tick"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"text": "x"}, "exactly one of at, after and every"),
        ({"text": " ", "after": {"hours": 1}}, "text: must not be blank"),
        ({"text": "x", "every": "0 9 * * *"}, "time_zone"),
        ({"text": "x", "every": "0 9 30 2 *", "time_zone": "UTC"}, "names no day"),
        ({"text": "x", "at": "yesterday"}, "yesterday"),
    ],
)
async def test_a_wrong_time_is_told_to_the_model(arguments: dict[str, Any], complaint: str) -> None:
    model = asking(call("set_schedule", **arguments))
    async with open_stage(an_agent(model=model, built_in_tools=TOOLS)) as stage:
        await stage.send("go")
        await stage.run_all()

        status, output = (await stage.results())["set_schedule"]
        assert status == "failed"
        assert complaint in output
        assert (await stage.service.schedules(LOCAL_CALLER, "s-1"))["schedules"] == []


async def test_a_reminder_is_named_after_its_call_and_a_retried_tool_sets_it_once() -> None:
    # SCHD-07, WAIT-06
    runs: list[str] = []

    @function_tool(effect="idempotent_write", requires_approval=False)
    async def remind(context: ToolContext) -> str:
        assert context.session is not None
        made = await context.session.schedule("time is up", when={"after": {"seconds": 1}})
        runs.append(made["schedule_id"])
        if len(runs) < 3:
            raise RuntimeError("down")
        return "set"

    async with open_stage(an_agent(remind, model=asking(call("remind")))) as stage:
        await stage.send("go")
        await stage.run_next()
        await stage.run_next()
        await due(stage)  # it has occurred, and the tool has not ended

        assert set(runs) == {"call-2-0"}
        assert len(runs) == 3
        await stage.skip_timers()
        await stage.run_all()
        assert (await heard(stage)).count("heard: time is up") == 1


async def test_a_tool_that_is_refused_is_told_so_and_is_not_tried_again() -> None:
    # WAIT-06
    @function_tool(effect="idempotent_write", requires_approval=False)
    async def remind(context: ToolContext) -> str:
        assert context.session is not None
        await context.session.schedule("one", when={"after": {"hours": 1}}, schedule_id="mine")
        await context.session.schedule("another", when={"after": {"hours": 1}}, schedule_id="mine")
        return "never"

    async with open_stage(an_agent(remind, model=asking(call("remind")))) as stage:
        await stage.send("go")
        await stage.run_all()

        status, output = (await stage.results())["remind"]
        assert status == "failed"
        assert "idempotency" in output or "another content" in output


async def test_a_tool_sends_a_message_once_however_often_it_runs() -> None:
    # TOOL-12
    runs = 0

    @function_tool(effect="idempotent_write", requires_approval=False)
    async def pass_on(context: ToolContext) -> str:
        nonlocal runs
        runs += 1
        assert context.session is not None
        await context.session.append("from a tool")
        if runs == 1:
            raise RuntimeError("down")
        return "sent"

    async with open_stage(an_agent(pass_on, model=asking(call("pass_on")))) as stage:
        await stage.send("go")
        await stage.run_all()

        assert runs == 2
        assert await heard(stage) == ["heard: go", "heard: from a tool"]
        (accepted,) = (i for entry in await stage.entries() for i in entry.inputs if i.source == "agent")
        assert accepted.message_id == "call-2-0:message"


async def test_a_tool_that_cancels_and_is_tried_again_is_told_the_same() -> None:
    runs = 0

    @function_tool(effect="idempotent_write", requires_approval=False)
    async def give_up(context: ToolContext) -> str:
        nonlocal runs
        runs += 1
        assert context.session is not None
        await context.session.cancel_schedule("r")
        if runs == 1:
            raise RuntimeError("down")
        return "cancelled"

    async with open_stage(an_agent(give_up, model=asking(call("give_up")))) as stage:
        await stage.service.set_schedule(LOCAL_CALLER, "s-1", text="x", when=HOURLY, schedule_id="r")
        await stage.send("go")
        await stage.run_all()

        assert runs == 2
        assert (await stage.results())["give_up"] == ("succeeded", "cancelled")


# --- the agent's word ----------------------------------------------------------------------------------------------


async def test_the_agent_may_change_leave_out_put_off_and_end_what_is_due() -> None:
    # SCHD-03
    seen: list[Occurrence] = []
    says: list[Any] = ["in French", None, ScheduleRetryError("busy"), "again", ScheduleEndedError("closed")]

    async def on_schedule(occurrence: Occurrence) -> str | None:
        seen.append(occurrence)
        said = says[len(seen) - 1]
        if isinstance(said, Exception):
            raise said
        return said

    async with open_stage(an_agent(model=asking(), on_schedule=on_schedule)) as stage:
        await stage.service.set_schedule(
            LOCAL_CALLER, "s-1", text="report", when=HOURLY, schedule_id="r", metadata={"to": "me"}
        )
        for _ in says:
            await due(stage)

        assert await heard(stage) == ["heard: in French", "heard: again"]
        assert [each.attempt for each in seen] == [1, 1, 1, 2, 1]
        assert seen[3].number == seen[2].number
        assert (seen[0].text, seen[0].metadata, seen[0].schedule_id) == ("report", {"to": "me"}, "r")
        assert stage.timers.pending == []
        assert (await stage.event_types())[-1] == "schedule.failed"


async def test_a_fault_of_the_agents_word_is_tried_again_and_says_no_secret() -> None:
    calls = 0

    def on_schedule(_: Occurrence) -> str:
        nonlocal calls
        calls += 1
        raise ValueError("password=1234")

    async with open_stage(an_agent(model=asking(), on_schedule=on_schedule)) as stage:
        await stage.service.set_schedule(
            LOCAL_CALLER, "s-1", text="report", when={"after": {"hours": 1}}, max_attempts=2
        )
        await due(stage)
        await due(stage)

        assert calls == 2
        (failed,) = (event for event in await stage.events() if event["type"] == "schedule.failed")
        assert failed["payload"]["reason"] == "on_schedule failed with ValueError"


async def test_an_on_schedule_that_hangs_is_tried_again_and_one_that_blocks_keeps_nobody_waiting() -> None:
    # SCHD-05
    import asyncio

    asked = 0

    async def on_schedule(occurrence: Occurrence) -> str:
        nonlocal asked
        asked += 1
        if asked == 1:
            await asyncio.Event().wait()
        return occurrence.text

    async with open_stage(an_agent(model=asking(), on_schedule=on_schedule)) as stage:
        await stage.service.set_schedule(LOCAL_CALLER, "s-1", text="tick", when={"after": {"hours": 1}})
        (at,) = {timer.due_at for _, timer in stage.timers.pending}
        await stage.clock.advance((at - stage.clock.now()).total_seconds())
        await stage.clock.run(stage.fire_timers())

        (failed,) = (await stage.head()).schedules
        assert failed.attempt == 2
        await due(stage)
        assert await heard(stage) == ["heard: tick"]


async def test_an_occurrence_that_was_sent_is_skipped_no_more_and_one_that_never_was_is_unknown() -> None:
    async with open_stage(an_agent(model=asking())) as stage:
        await stage.session().schedule("t", after={"hours": 1}, schedule_id="x")
        await stage.session().skip_wait("schedule:x")
        await stage.run_all()

        with pytest.raises(RequestConflictError) as second:
            await stage.session().skip_wait("schedule:x")
        assert second.value.code == "not_pending"
        with pytest.raises(NotFoundError):
            await stage.session().skip_wait("schedule:y")
