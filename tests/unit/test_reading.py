"""How a session is shown: the snapshot's shape, and pages of messages."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.core.cursor import Cursor
from perdure.errors import InvalidRequestError
from perdure.models.base import TextDelta
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results, user_texts
from perdure.service import LOCAL_CALLER
from perdure.steps.run_model import run_model
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.orders import a_desk, look_up
from tests.unit.steps.builders import HangingModel, an_agent, asking_for, failing

AT_NOON = "2026-11-30T12:00:00.000Z"
UNKNOWN = {"provenance": "unavailable"}


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
                    "source": "person",
                    "actor": {"issuer": "local", "subject": "local"},
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
        assert await stage.service.events(LOCAL_CALLER, "s-1", after=shown["cursor"]) == {
            "events": [],
            "cursor": shown["cursor"],
        }


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
            "source": "person",
            "actor": {"issuer": "local", "subject": "local"},
        }
        assert await stage.service.inbox(LOCAL_CALLER, "s-1") == {"entries": shown["inbox"]}


async def test_a_model_step_is_queued_then_running_then_waiting_for_its_next_call() -> None:
    """Spec SESS-16."""
    phases: list[str] = []

    async def look() -> None:
        phases.append((await stage.snapshot())["state"]["operation"]["phase"])

    async def reply(_: Any) -> str:
        await look()
        if len(phases) == 2:
            raise failing("rate_limited", status=429, retry_after_seconds=40)
        return "at last"

    async with open_stage(an_agent(model=ScriptedModel(reply))) as stage:
        await stage.send("hi")
        await look()
        await stage.run_next()
        await look()
        await stage.run_all()

    assert phases == ["queued", "running", "waiting", "running"]


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
            "last_turn": {"turn_id": "turn-1", "outcome": "cancelled", "reason": "stopped"},
        }
        assert [m.get("status") for m in shown["messages"]] == [None, "interrupted"]


async def test_a_failed_turn_says_why_until_the_next_one_begins() -> None:
    answers: Any = iter([failing("invalid", retryable=False), "fine"])

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
        assert state["last_turn_error"] == {"code": "provider", "message": "the provider failed: invalid"}

        assert state["held"] is True
        await stage.send("again")
        await stage.stop()
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
