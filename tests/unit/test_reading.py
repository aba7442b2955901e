"""How a session is shown: the snapshot's shape, pages of messages, and events after a cursor."""

from __future__ import annotations

import asyncio
import base64
from datetime import timedelta
from typing import Any

import pytest

from perdure import ToolContext, function_tool
from perdure.core.cursor import Cursor
from perdure.core.limits import LEASE_DURATION, LEASE_GRACE
from perdure.core.usage import CallUsage
from perdure.errors import InvalidRequestError
from perdure.models.base import TextDelta
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results, user_texts
from perdure.ports import LiveEvent
from perdure.service import LOCAL_CALLER
from perdure.steps.call_tool import call_tool
from perdure.steps.recover import sweep_session
from perdure.steps.run_model import run_model
from perdure.testing.clock import NOON
from perdure.testing.fixtures import SESSION, Stage, open_stage
from tests.unit.steps.builders import HangingModel, an_agent, asking_for, failing

AT_NOON = "2026-11-30T12:00:00.000Z"
UNKNOWN = {"provenance": "unavailable"}


@function_tool(effect="read")
async def look_up(order: str) -> str:
    """Look an order up."""
    return f"order {order} is on its way"


@function_tool(effect="non_idempotent_write")
async def refund(order: str) -> str:
    """Pay back."""
    return f"paid {order}"


def a_desk() -> Any:
    def reply(request: Any) -> Any:
        if tool_results(request):
            return "Done."
        calls = (call("look_up", order="7"), call("refund", order="7"))
        return Reply(text="Let me see.", calls=calls, usage=CallUsage(input_tokens=9, output_tokens=4))

    return an_agent(look_up, refund, model=ScriptedModel(reply))


def progress(page: list[dict[str, Any]]) -> str:
    """Return the text of the deltas on a page."""
    return "".join(event["payload"]["text"] for event in page if event["type"] == "text_delta")


async def page_of(stage: Stage, **more: Any) -> dict[str, Any]:
    return await stage.service.events(LOCAL_CALLER, "s-1", **more)


# --- the snapshot ---------------------------------------------------------------------------------------------------


async def test_the_snapshot_of_a_session_that_waits_for_an_approval_is_that_of_the_surface() -> None:
    async with open_stage(a_desk()) as stage:
        await stage.send("Refund order 7", message_id="m-1", metadata={"page": "orders"})
        await stage.run_all()

        shown = await stage.snapshot()

        hashed = shown["tool_calls"][1]["arguments_hash"]
        assert shown == {
            "session_id": "s-1",
            "agent": "support",
            "state": {
                "status": "running_tools",
                "turn_count": 1,
                "interaction_mode": "chat",
                "version": 3,
                "turn_id": "turn-1",
                "waiting_for": [{"kind": "approval", "id": "call-2-1", "since": AT_NOON}],
            },
            "messages": [
                {
                    "message_id": "m-1",
                    "sequence": 1,
                    "turn_id": "turn-1",
                    "role": "user",
                    "parts": [{"type": "text", "text": "Refund order 7"}],
                    "created_at": AT_NOON,
                    "metadata": {"page": "orders"},
                },
                {
                    "message_id": "message-2-0",
                    "sequence": 2,
                    "turn_id": "turn-1",
                    "role": "assistant",
                    "parts": [
                        {"type": "text", "text": "Let me see."},
                        {
                            "type": "tool_call",
                            "tool_call_id": "call-2-0",
                            "tool_name": "look_up",
                            "arguments": {"order": "7"},
                        },
                        {
                            "type": "tool_call",
                            "tool_call_id": "call-2-1",
                            "tool_name": "refund",
                            "arguments": {"order": "7"},
                        },
                    ],
                    "created_at": AT_NOON,
                },
                {
                    "message_id": "message-3-0",
                    "sequence": 3,
                    "turn_id": "turn-1",
                    "role": "tool",
                    "parts": [
                        {
                            "type": "tool_result",
                            "tool_call_id": "call-2-0",
                            "tool_name": "look_up",
                            "status": "succeeded",
                            "output": "order 7 is on its way",
                        }
                    ],
                    "created_at": AT_NOON,
                },
            ],
            "tool_calls": [
                {
                    "tool_call_id": "call-2-0",
                    "tool_name": "look_up",
                    "arguments": {"order": "7"},
                    "arguments_hash": hashed,
                    "effect": "read",
                    "requires_approval": False,
                    "attempt": 1,
                    "status": "succeeded",
                    "output": "order 7 is on its way",
                },
                {
                    "tool_call_id": "call-2-1",
                    "tool_name": "refund",
                    "arguments": {"order": "7"},
                    "arguments_hash": hashed,
                    "effect": "non_idempotent_write",
                    "requires_approval": True,
                    "status": "awaiting_approval",
                    "attempt": 1,
                },
            ],
            "pending_interrupts": [
                {
                    "interrupt_id": "call-2-1",
                    "kind": "approval",
                    "tool_call_id": "call-2-1",
                    "arguments_hash": hashed,
                    "tool_name": "refund",
                    "arguments": {"order": "7"},
                }
            ],
            "inbox": [],
            "plan": None,
            "usage": {
                "input_tokens": {"value": 9, "provenance": "computed"},
                "output_tokens": {"value": 4, "provenance": "computed"},
                "cached_input_tokens": UNKNOWN,
                "reasoning_tokens": UNKNOWN,
                "model_calls": 1,
            },
            "settings": {},
            "cursor": Cursor(version=4).encode("s-1"),
        }


async def test_the_snapshot_of_a_session_that_was_never_written() -> None:
    async with open_stage(a_desk()) as stage:
        shown = await stage.snapshot()

        assert (shown["state"], shown["agent"], shown["messages"], shown["tool_calls"]) == (None, None, [], [])
        assert set(shown) == {
            *("session_id", "agent", "state", "messages", "tool_calls", "pending_interrupts"),
            *("inbox", "plan", "usage", "settings", "cursor"),
        }
        assert await page_of(stage, after=shown["cursor"]) == {"events": [], "cursor": shown["cursor"]}


async def test_queued_messages_are_in_the_inbox_and_not_in_the_transcript() -> None:
    async with open_stage(a_desk()) as stage:
        await stage.send("first", message_id="m-1")
        await stage.clock.advance(5)
        await stage.send("second", message_id="m-2")
        await stage.send("third", message_id="m-3")

        shown = await stage.snapshot()

        assert [m["message_id"] for m in shown["messages"]] == ["m-1"]
        assert [(e["message_id"], e["text"]) for e in shown["inbox"]] == [("m-2", "second"), ("m-3", "third")]
        assert shown["inbox"][0] == {
            "message_id": "m-2",
            "delivery": "queue",
            "state": "queued",
            "text": "second",
            "created_at": "2026-11-30T12:00:05.000Z",
        }
        assert await stage.service.inbox(LOCAL_CALLER, "s-1") == {"entries": shown["inbox"]}


async def test_a_turn_that_is_being_stopped_and_one_that_was() -> None:
    async with open_stage(an_agent(model=HangingModel(TextDelta("Once")))) as stage:
        await stage.send("hi")
        step = asyncio.create_task(run_model(stage.deps, stage.taken()))
        await stage.clock.settle()
        await stage.stop()
        stopping = (await stage.snapshot())["state"]
        await stage.clock.advance(1.1)

        assert step.done()
        assert (stopping["status"], stopping["stopping"]) == ("running_model", True)
        shown = await stage.snapshot()
        assert shown["state"] == {
            "status": "waiting_for_user_message",
            "turn_count": 1,
            "interaction_mode": "chat",
            "version": 3,
        }
        assert [m.get("status") for m in shown["messages"]] == [None, "interrupted"]


async def test_a_failed_turn_says_why_until_the_next_one_begins() -> None:
    answers: Any = iter([failing("auth", retryable=False), "fine"])

    def reply(_: Any) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with open_stage(an_agent(model=ScriptedModel(reply))) as stage:
        await stage.send("hi")
        await stage.run_all()
        state = (await stage.snapshot())["state"]
        assert state["status"] == "waiting_for_user_message"
        assert state["last_turn_error"] == {"code": "auth", "message": "the provider failed: auth"}

        await stage.send("again")
        assert "last_turn_error" not in (await stage.snapshot())["state"]


@pytest.mark.parametrize("finish", ["length", "content_filter", "refusal"])
async def test_an_answer_that_is_none_keeps_its_text_with_a_status(finish: Any) -> None:
    model = ScriptedModel(lambda _: Reply(text="half", finish=finish))
    async with open_stage(an_agent(model=model)) as stage:
        await stage.send("hi")
        await stage.run_all()

        shown = await stage.snapshot()
        status = {"length": "truncated", "content_filter": "filtered", "refusal": "refused"}[finish]
        assert (shown["messages"][1]["status"], shown["state"]["last_turn_error"]["code"]) == (status, status)


async def test_the_calls_of_the_latest_turn_stay_in_the_snapshot_until_the_next_begins() -> None:
    async with open_stage(an_agent(look_up, model=asking_for("look_up"))) as stage:
        await stage.send("hi")
        await stage.run_all()
        (shown,) = (await stage.snapshot())["tool_calls"]
        assert shown["status"] == "failed"
        assert shown["error"].startswith("invalid look_up arguments")
        assert shown["arguments"] == {}

        await stage.send("again")
        assert (await stage.snapshot())["tool_calls"] == []


async def test_the_snapshot_shows_every_call_of_a_long_turn_though_its_messages_are_more_than_fifty() -> None:
    def reply(request: Any) -> Any:
        return "Done." if len(tool_results(request)) >= 70 else Reply(calls=(call("look_up", order="1"),))

    async with open_stage(an_agent(look_up, model=ScriptedModel(reply))) as stage:
        await stage.send("go")
        await stage.run_all()

        shown = await stage.snapshot()

        assert len(shown["messages"]) == 50
        assert len(shown["tool_calls"]) == 70


# --- pages of messages ----------------------------------------------------------------------------------------------


async def a_long_session(stage: Stage, turns: int) -> None:
    for number in range(turns):
        await stage.send(f"m{number}")
        await stage.run_all()


async def test_all_of_300_messages_are_reached_by_next_before_each_once() -> None:
    model = ScriptedModel(lambda request: f"re {user_texts(request)[-1]}")
    async with open_stage(an_agent(model=model)) as stage:
        await a_long_session(stage, 150)
        for limit in (7, 50, 200):
            pages: list[Any] = []
            before = None
            while True:
                page = await stage.service.messages(LOCAL_CALLER, "s-1", before=before, limit=limit)
                pages.insert(0, page["messages"])
                before = page.get("next_before")
                if before is None:
                    break

            assert [m["sequence"] for page in pages for m in page] == list(range(1, 301))
            assert all(len(page) == limit for page in pages[1:])
            assert [m["parts"][0]["text"] for page in pages for m in page][:2] == ["m0", "re m0"]


async def test_messages_before_any_sequence_are_found() -> None:
    async with open_stage(an_agent()) as stage:
        await a_long_session(stage, 60)
        await stage.send("queued behind")
        for sequence in (1, 2, 3, 59, 60, 61, 120, 121, 122, 5000, 999_999_999_999):
            page = await stage.service.messages(LOCAL_CALLER, "s-1", before=str(sequence), limit=3)

            last = min(sequence - 1, 121)
            assert [m["sequence"] for m in page["messages"]] == list(range(max(last - 2, 1), last + 1))
        assert (await stage.service.messages(LOCAL_CALLER, "s-1", before="0"))["messages"] == []


@pytest.mark.parametrize("before", ["", "x", "-1", "1.x", ".5", "1.2.3", "\u0661", "9" * 13, "1e3", " 1", "1\n"])
async def test_a_broken_place_is_refused(before: str) -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")

        with pytest.raises(InvalidRequestError):
            await stage.service.messages(LOCAL_CALLER, "s-1", before=before)


@pytest.mark.parametrize(("limit", "got"), [(-5, 1), (0, 1), (1, 1), (2, 2), (10_000, 200)])
async def test_the_size_of_a_page_is_clamped(limit: int, got: int) -> None:
    async with open_stage(an_agent()) as stage:
        await a_long_session(stage, 101)

        page = await stage.service.messages(LOCAL_CALLER, "s-1", limit=limit)

        assert len(page["messages"]) == got
        assert page["messages"][-1]["sequence"] == 202


async def test_a_queued_messages_text_comes_from_where_it_was_accepted() -> None:
    async with open_stage(an_agent(model=ScriptedModel(lambda r: user_texts(r)[-1]))) as stage:
        await stage.send("first")
        for number in range(120):
            await stage.send(f"queued {number}", message_id=f"q-{number}")
        await stage.run_all()

        newest = (await stage.snapshot())["messages"][-2:]

        assert [m["parts"][0]["text"] for m in newest] == ["queued 119", "queued 119"]


# --- events ---------------------------------------------------------------------------------------------------------


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
        Cursor(version=999_999_999_999),
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


# --- waiting for events ---------------------------------------------------------------------------------------------


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
