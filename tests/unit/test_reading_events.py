"""Events after a cursor: durable ones in order, progress of what runs, and waiting for more."""

from __future__ import annotations

import asyncio
import base64
from datetime import timedelta
from typing import Any

import pytest

from perdure import ToolContext, function_tool
from perdure.core.cursor import Cursor
from perdure.core.limits import LEASE_DURATION, LEASE_GRACE
from perdure.errors import InvalidRequestError
from perdure.models.base import TextDelta
from perdure.ports import LiveEvent
from perdure.service import LOCAL_CALLER
from perdure.steps.call_tool import call_tool
from perdure.steps.recover import sweep_session
from perdure.steps.run_model import run_model
from perdure.testing.clock import NOON
from perdure.testing.fixtures import SESSION, Stage, open_stage
from tests.unit.orders import a_desk
from tests.unit.steps.builders import HangingModel, an_agent, asking_for


def progress(page: list[dict[str, Any]]) -> str:
    """Return the text of the deltas on a page."""
    return "".join(event["payload"]["text"] for event in page if event["type"] == "text_delta")


async def page_of(stage: Stage, **more: Any) -> dict[str, Any]:
    return await stage.service.events(LOCAL_CALLER, "s-1", **more)


async def test_events_are_read_in_pages_without_gap_or_repetition() -> None:
    async with open_stage(a_desk()) as stage:
        await stage.send("go")
        await stage.run_all()
        await stage.approve("call-2-1")
        await stage.run_all()
        whole = (await page_of(stage))["events"]
        assert [e["sequence"] for e in whole] == list(range(1, len(whole) + 1))
        for limit in (1, 2, 3, 7, 500):
            got, cursor = [], None
            while page := (await page_of(stage, after=cursor, limit=limit)):
                if not page["events"]:
                    break
                assert len(page["events"]) <= limit
                got += page["events"]
                cursor = page["cursor"]

            assert got == whole


async def test_a_command_is_admitted_generated_runs_its_tool_and_completes_before_the_next_begins() -> None:
    """Spec EVT-03."""
    async with open_stage(a_desk()) as stage:
        await stage.send("go")
        await stage.run_all()
        await stage.send("and then?")
        await stage.approve("call-2-1")
        await stage.run_all()

        told = [e["type"] for e in (await page_of(stage))["events"] if e.get("turn_id") in (None, "turn-1")]

    in_order = [
        *("turn_started", "model_started", "model_finished"),
        *("tool_call_deferred", "tool_call_deferred", "interrupt_raised", "tool_call_started", "tool_call_finished"),
        *(
            "message_queued",
            "interrupt_resolved",
            "tool_call_started",
            "tool_call_finished",
            "model_started",
            "model_finished",
        ),
        "turn_completed",
    ]
    assert [kind for kind in told if kind != "usage_recorded"] == in_order


async def test_every_events_cursor_stands_right_behind_it() -> None:
    async with open_stage(a_desk()) as stage:
        await stage.send("go")
        await stage.run_all()
        whole = (await page_of(stage))["events"]

        for place, event in enumerate(whole):
            assert (await page_of(stage, after=event["cursor"]))["events"] == whole[place + 1 :]


async def test_a_receipts_cursor_stands_right_before_the_first_event_of_its_message() -> None:
    async with open_stage(an_agent()) as stage:
        first = await stage.send("one")
        queued = await stage.send("two")
        await stage.run_all()

        assert (await page_of(stage, after=first["cursor"]))["events"][0]["type"] == "turn_started"
        event = (await page_of(stage, after=queued["cursor"]))["events"][0]
        assert (event["type"], event["payload"]["message_id"]) == ("message_queued", queued["message_id"])


async def test_the_snapshots_cursor_goes_on_where_the_snapshot_ends() -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("one")
        cursor = (await stage.snapshot())["cursor"]
        assert (await page_of(stage, after=cursor))["events"] == []

        await stage.run_all()

        assert (await page_of(stage, after=cursor))["events"][0]["type"] == "model_started"


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "nonsense",
        "=",
        "é",
        "\x00",
        "A" * 10_000,
        Cursor(version=1).encode("s-2"),
        Cursor(version=1).encode("s-1")[:-1],
        Cursor(version=1).encode("s-1") + "A",
        base64.urlsafe_b64encode(b"1.0..00000000").decode(),
        base64.urlsafe_b64encode(b"-1.0..00000000").decode(),
    ],
)
async def test_a_broken_cursor_or_one_of_another_session_is_refused(cursor: str) -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")

        with pytest.raises(InvalidRequestError) as caught:
            await page_of(stage, after=cursor)

        assert caught.value.code == "invalid_cursor"


@pytest.mark.parametrize(
    "cursor",
    [
        Cursor(version=3, index=999_999),
        Cursor(version=0, index=7),
        Cursor(version=1, progress=(("model-1-0", 1, 999), ("nobody", 9, 9))),
    ],
    ids=str,
)
async def test_a_cursor_beyond_everything_gives_what_is_there_and_no_error(cursor: Cursor) -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")
        await stage.run_all()

        page = await page_of(stage, after=cursor.encode("s-1"))

        assert set(page) == {"events", "cursor"}
        assert [e["sequence"] for e in page["events"]] == sorted(e["sequence"] for e in page["events"])


async def test_whoever_follows_a_running_step_gets_its_progress_from_the_start_and_each_piece_once() -> None:
    model = HangingModel(TextDelta("Once "), TextDelta("upon "), TextDelta("a time"))
    async with open_stage(an_agent(model=model)) as stage:
        await stage.send("hi")
        step = asyncio.create_task(run_model(stage.deps, stage.taken()))
        await stage.clock.settle()

        whole = await page_of(stage)
        first = await page_of(stage, limit=3)
        rest = await page_of(stage, after=first["cursor"])

        assert progress(whole["events"]) == "Once upon a time"
        assert [e["type"] for e in whole["events"][:2]] == ["turn_started", "model_started"]
        assert progress(first["events"] + rest["events"]) == "Once upon a time"
        assert progress(rest["events"]) == "upon a time"
        assert all("sequence" not in e for e in whole["events"][1:])
        assert (await page_of(stage, after=whole["cursor"]))["events"] == []
        for place, event in enumerate(whole["events"]):
            again = await page_of(stage, after=event["cursor"])
            assert again["events"] == whole["events"][place + 1 :]
        step.cancel()
        await asyncio.wait({step})


async def test_once_a_step_has_committed_a_replay_leaves_its_progress_out() -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")
        await stage.run_all()

        page = (await page_of(stage))["events"]

        assert progress(page) == ""
        assert [e["type"] for e in page].count("model_started") == 1
        assert all("sequence" in event for event in page)


async def test_durable_events_beside_a_running_step_do_not_make_its_progress_come_twice() -> None:
    model = HangingModel(TextDelta("Once "), TextDelta("upon"))
    async with open_stage(an_agent(model=model)) as stage:
        await stage.send("hi")
        step = asyncio.create_task(run_model(stage.deps, stage.taken()))
        await stage.clock.settle()
        seen = await page_of(stage)
        await stage.send("and another thing")

        page = await page_of(stage, after=seen["cursor"])

        assert [e["type"] for e in page["events"]] == ["message_queued"]
        assert (await page_of(stage, after=page["events"][0]["cursor"]))["events"] == []
        one_by_one = await page_of(stage, after=seen["cursor"], limit=1)
        assert (await page_of(stage, after=one_by_one["cursor"]))["events"] == []
        step.cancel()
        await asyncio.wait({step})


async def test_the_progress_of_an_attempt_that_was_given_up_is_gone_and_the_next_ones_counted_anew() -> None:
    model = HangingModel(TextDelta("Once "), TextDelta("upon"))
    async with open_stage(an_agent(model=model)) as stage:
        await stage.send("hi")
        step = asyncio.create_task(run_model(stage.deps, stage.taken()))
        await stage.clock.settle()
        seen = await page_of(stage)
        step.cancel()
        await asyncio.wait({step})
        await stage.clock.advance((LEASE_DURATION + LEASE_GRACE).total_seconds())
        await sweep_session(stage.deps, SESSION)
        again = asyncio.create_task(run_model(stage.deps, stage.taken()))
        await stage.clock.settle()

        page = await page_of(stage, after=seen["cursor"])

        assert [(e["type"], e["attempt"]) for e in page["events"]] == [
            ("attempt_reset", 1),
            ("model_started", 2),
            ("text_delta", 2),
            ("text_delta", 2),
        ]
        again.cancel()
        await asyncio.wait({again})


async def test_two_tools_progress_is_followed_side_by_side() -> None:
    gate = asyncio.Event()

    def reporting(name: str) -> Any:
        @function_tool(effect="read", name=name)
        async def tool(context: ToolContext) -> str:
            assert context.report_progress is not None
            for number in range(3):
                await context.report_progress(f"{name} {number}")
            await gate.wait()
            return "ok"

        return tool

    async with open_stage(an_agent(reporting("a"), reporting("b"), model=asking_for("a", "b"))) as stage:
        await stage.send("go")
        await stage.run_next()
        steps = [asyncio.create_task(call_tool(stage.deps, stage.taken())) for _ in range(2)]
        await stage.clock.settle()

        texts, cursor = [], None
        while (page := await page_of(stage, after=cursor, limit=2))["events"]:
            texts += [e["payload"]["text"] for e in page["events"] if e["type"] == "tool_progress"]
            cursor = page["cursor"]

        assert texts == ["a 0", "a 1", "a 2", "b 0", "b 1", "b 2"]
        gate.set()
        await stage.clock.settle()
        assert all(step.done() for step in steps)


async def waiting(stage: Stage, **more: Any) -> asyncio.Task[dict[str, Any]]:
    viewer = asyncio.create_task(page_of(stage, wait_seconds=20, **more))
    await stage.clock.settle()
    assert not viewer.done()
    return viewer


async def test_a_viewer_that_waits_is_woken_by_a_commit() -> None:
    async with open_stage(an_agent()) as stage:
        receipt = await stage.send("hi")
        await stage.run_all()
        cursor = (await page_of(stage, after=receipt["cursor"]))["cursor"]
        viewer = await waiting(stage, after=cursor)

        await stage.send("more")
        await stage.clock.settle()

        assert [e["type"] for e in (await viewer)["events"]] == ["turn_started"]
        assert stage.clock.now() == NOON


async def test_a_viewer_that_waits_is_woken_by_progress() -> None:
    model = HangingModel(TextDelta("Once"))
    async with open_stage(an_agent(model=model)) as stage:
        await stage.send("hi")
        cursor = (await page_of(stage))["cursor"]
        viewer = await waiting(stage, after=cursor)

        step = asyncio.create_task(run_model(stage.deps, stage.taken()))
        await stage.clock.settle()

        assert (await viewer)["events"][0]["type"] == "model_started"
        step.cancel()
        await asyncio.wait({step})


async def test_a_viewer_may_wait_for_a_session_that_is_not_there_yet() -> None:
    async with open_stage(an_agent()) as stage:
        viewer = await waiting(stage)

        await stage.send("hi")
        await stage.clock.settle()

        assert [e["type"] for e in (await viewer)["events"]] == ["turn_started"]


@pytest.mark.parametrize("asked", [3.0, 20.0, 1000.0])
async def test_a_viewer_that_nothing_wakes_gets_an_empty_page_in_the_end(asked: float) -> None:
    async with open_stage(an_agent()) as stage:
        receipt = await stage.send("hi")
        await stage.run_all()
        cursor = (await page_of(stage, after=receipt["cursor"]))["cursor"]

        page = await stage.clock.run(page_of(stage, after=cursor, wait_seconds=asked))

        assert page == {"events": [], "cursor": cursor}
        assert stage.clock.now() - NOON == timedelta(seconds=min(asked, 20))


async def test_a_commit_that_is_seen_before_its_word_comes_does_not_hold_up_the_event_loop() -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")
        step = stage.taken()
        changed = stage.live.changed
        committed, go_on = asyncio.Event(), asyncio.Event()

        async def late(*args: Any) -> None:
            committed.set()
            await go_on.wait()
            await changed(*args)

        stage.live.changed = late  # type: ignore[method-assign, assignment]
        running = asyncio.create_task(run_model(stage.deps, step))
        await committed.wait()
        cursor = (await page_of(stage))["cursor"]  # behind the commit, while the step's progress is still there

        viewer = await waiting(stage, after=cursor)
        go_on.set()
        await stage.clock.settle()
        assert running.done()
        await stage.send("more")
        await stage.clock.settle()

        assert [e["type"] for e in (await viewer)["events"]] == ["turn_started"]


async def test_progress_of_a_step_that_nobody_expects_makes_no_busy_loop() -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")
        await stage.run_all()
        cursor = (await page_of(stage))["cursor"]
        late = LiveEvent(type="text_delta", at=NOON, payload={"text": "late"})
        await stage.live.publish(SESSION, "turn-1", "model-9-0", 1, [late])
        looks = 0
        read = stage.store.read

        async def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal looks
            looks += 1
            return await read(*args, **kwargs)

        object.__setattr__(stage.ports.store, "read", counted)
        page = await stage.clock.run(page_of(stage, after=cursor, wait_seconds=1))

        assert page["events"] == []
        assert looks < 100
