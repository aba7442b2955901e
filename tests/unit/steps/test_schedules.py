"""Schedules at work: set by models, tools and callers, fired by their timers (SCHD-01 to SCHD-07, WAIT-06)."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from perdure.agents.schedules import Occurrence, ScheduleEndedError, ScheduleRetryError
from perdure.agents.tools import ToolContext, function_tool
from perdure.core import texts
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results, user_texts
from perdure.service import LOCAL_CALLER
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.steps.builders import OTHER, an_agent

HOURLY = {"every": {"hours": 1}, "time_zone": "UTC"}
TOOLS = ["set_schedule", "list_schedules", "cancel_schedule"]


def asking(*calls: Any) -> ScriptedModel:
    """A model that makes these calls when it is told to go, and else repeats what it hears."""

    def reply(request: Any) -> str | Reply:
        said = user_texts(request)[-1]
        return Reply(calls=calls) if said == "go" and not tool_results(request) else f"heard: {said}"

    return ScriptedModel(reply)


async def heard(stage: Stage) -> list[str]:
    return [text for role, text in await stage.transcript() if role == "assistant" and text.startswith("heard")]


async def due(stage: Stage) -> None:
    """Jump to the next timer, fire it and run what it makes ready."""
    at = min(timer.due_at for _, timer in stage.timers.pending)
    await stage.clock.advance((at - stage.clock.now()).total_seconds())
    await stage.fire_timers()
    await stage.run_all()


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


# --- the service ---------------------------------------------------------------------------------------------------


async def test_setting_with_a_key_twice_gives_the_first_reply_and_makes_one() -> None:
    async with open_stage(an_agent(model=asking())) as stage:
        replies = [
            await stage.service.set_schedule(LOCAL_CALLER, "s-1", text="x", when=HOURLY, idempotency_key="k")
            for _ in range(2)
        ]

        assert replies[0] == replies[1]
        assert len((await stage.service.schedules(LOCAL_CALLER, "s-1"))["schedules"]) == 1


async def test_what_a_schedule_says_can_be_changed_and_its_next_time_moved() -> None:
    async with open_stage(an_agent(model=asking())) as stage:
        service = stage.service
        await service.set_schedule(LOCAL_CALLER, "s-1", text="old", when=HOURLY, schedule_id="r")

        await service.change_schedule(LOCAL_CALLER, "s-1", "r", text="new")
        (shown,) = (await service.schedules(LOCAL_CALLER, "s-1"))["schedules"]
        assert (shown["text"], shown["when"], shown["recurring"]) == ("new", HOURLY, True)
        assert len(stage.timers.pending) == 1
        await due(stage)

        assert await heard(stage) == ["heard: new"]
        with pytest.raises(InvalidRequestError, match="nothing to change"):
            await service.change_schedule(LOCAL_CALLER, "s-1", "r")
        with pytest.raises(NotFoundError, match="'q'"):
            await service.change_schedule(LOCAL_CALLER, "s-1", "q", text="x")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"text": " "}, "text is blank"),
        ({"schedule_id": "x" * 65}, "1 to 64"),
        ({"schedule_id": "a:b"}, "colon"),
        ({"schedule_id": "call-1-0"}, "looks like an id"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": 1001}, "max_attempts"),
        ({"metadata": {"x": "y" * 20_000}}, "metadata"),
        ({"delivery": "soon"}, "delivery"),
        ({"agent": "nobody"}, "nobody"),
        ({"when": {}}, "exactly one"),
    ],
)
async def test_what_is_wrong_is_refused_and_named(changes: dict[str, Any], complaint: str) -> None:
    async with open_stage(an_agent(model=asking())) as stage:
        with pytest.raises(InvalidRequestError, match=complaint):
            await stage.service.set_schedule(LOCAL_CALLER, "s-1", **{"text": "x", "when": HOURLY} | changes)

        assert not (await stage.head()).exists


async def test_somebody_elses_schedules_are_not_there() -> None:
    async with open_stage(an_agent(model=asking())) as stage:
        await stage.service.set_schedule(LOCAL_CALLER, "s-1", text="x", when=HOURLY, schedule_id="r")

        with pytest.raises(NotFoundError):
            await stage.service.schedules(OTHER, "s-1")
        with pytest.raises(NotFoundError):
            await stage.service.cancel_schedule(OTHER, "s-1", "r")
        with pytest.raises(NotFoundError):
            await stage.service.set_schedule(OTHER, "s-1", text="y", when=HOURLY)


async def test_another_content_under_an_id_is_a_conflict() -> None:
    async with open_stage(an_agent(model=asking())) as stage:
        await stage.service.set_schedule(LOCAL_CALLER, "s-1", text="x", when=HOURLY, schedule_id="r")

        with pytest.raises(RequestConflictError) as caught:
            await stage.service.set_schedule(LOCAL_CALLER, "s-1", text="y", when=HOURLY, schedule_id="r")

        assert caught.value.code == "schedule_exists"


async def test_a_year_of_hours_is_as_many_messages() -> None:
    # a recurring schedule costs one timer at a time
    async with open_stage(an_agent(model=asking())) as stage:
        await stage.service.set_schedule(
            LOCAL_CALLER, "s-1", text="tick", when={"every": {"days": 30}, "time_zone": "UTC"}
        )
        started = stage.clock.now()
        for _ in range(12):
            assert len(stage.timers.pending) == 1
            await due(stage)

        assert (await heard(stage)).count("heard: tick") == 12
        assert stage.clock.now() - started == timedelta(days=360)


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


async def test_an_occurrence_may_be_moved_as_far_as_one_may_be_set() -> None:
    async with open_stage(an_agent(model=asking())) as stage:
        await stage.service.set_schedule(LOCAL_CALLER, "s-1", text="x", when=HOURLY, schedule_id="r")
        now = stage.clock.now()

        await stage.session().change_wait("schedule:r", now + timedelta(days=8 * 366))
        with pytest.raises(InvalidRequestError, match="2928 days"):
            await stage.session().change_wait("schedule:r", now + timedelta(days=8 * 366 + 1))
