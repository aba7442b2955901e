"""Large sessions through every reading route: no reply is ever too large for its host (spec STORE-09, F092)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from perdure import function_tool
from perdure.api.event_shapes import EventPage
from perdure.api.lambda_host import api_handler
from perdure.api.shapes import Inbox, MessagePage, Snapshot
from perdure.core.bounds import MAX_SHOWN_BYTES
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results
from perdure.ports import LiveEvent
from perdure.service import LOCAL_CALLER
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.api.test_lambda_host import an_event, with_claims
from tests.unit.steps.builders import an_agent

MIB = 1024 * 1024
LAMBDA_LIMIT = 6 * 1000 * 1000
"""Largest answer of a function, in bytes (AWS Lambda Developer Guide, "Lambda quotas": 6 MB)."""

QUOTES = '"' * MIB
"""A text that grows by being put into JSON, and again when that JSON is put into JSON."""


@function_tool(effect="read")
async def dump(note: str) -> str:
    """Dump."""
    return QUOTES


@function_tool(effect="non_idempotent_write")
async def post(note: str) -> str:
    """Post."""
    return "posted"


def script(request: Any) -> Reply:
    calls = (call("dump", note=QUOTES), call("dump", note="b"), call("post", note=QUOTES))
    return Reply("done") if tool_results(request) else Reply("look", calls=calls)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """A session whose turn has made large calls with large outputs and waits for a person; much is queued behind it."""
    agent = an_agent(dump, post, model=ScriptedModel(script), tool_output_limit=None)
    async with open_stage(agent) as opened:
        for _ in range(7):
            await opened.send(QUOTES[: MIB // 2])
        await opened.run_all()
        yield opened


async def replies_of(stage: Stage, path: str, query: str = "") -> dict[str, Any]:
    """Return a reply that API Gateway would get, having measured it."""
    loop = asyncio.get_running_loop()
    handler = api_handler(
        lambda: stage.service, run=lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(60)
    )
    event = with_claims(an_event(path=path, query=query), {"iss": "local", "sub": "local", "tenant": "local"})
    response = await asyncio.to_thread(handler, event, None)
    assert response["statusCode"] == 200, response["body"][:300]
    assert len(json.dumps(response, ensure_ascii=False).encode()) < LAMBDA_LIMIT
    reply: dict[str, Any] = json.loads(response["body"])
    return reply


async def test_a_snapshot_shows_long_texts_as_their_heads_and_says_so(stage: Stage) -> None:
    snapshot = await replies_of(stage, "/v1/sessions/s-1")

    Snapshot.model_validate(snapshot)
    first, _, gated = snapshot["tool_calls"]
    (waiting,) = snapshot["pending_interrupts"]
    for shown in (first, gated, waiting, *snapshot["inbox"]):
        assert shown["truncated"] is True
        assert shown["bytes"] >= MIB // 2
    assert waiting["arguments_text"].startswith('{"note":"')
    assert waiting["arguments_hash"] == gated["arguments_hash"]
    assert len(snapshot["inbox"]) == 6


async def test_a_text_is_shown_whole_up_to_a_quarter_mebibyte() -> None:
    answers = iter(["é" * (MAX_SHOWN_BYTES // 2), "é" * (MAX_SHOWN_BYTES // 2) + "!"])
    async with open_stage(an_agent(model=ScriptedModel(lambda _: next(answers)))) as stage:
        for _ in range(2):
            await stage.send("go")
            await stage.run_all()

        shown = [m["parts"][0] for m in (await replies_of(stage, "/v1/sessions/s-1"))["messages"]]
        whole = [m["parts"][0] for m in (await replies_of(stage, "/v1/sessions/s-1/messages"))["messages"]]

    assert "truncated" not in shown[1]
    assert shown[3] == {**whole[1], "truncated": True, "bytes": MAX_SHOWN_BYTES + 1}
    assert whole[3] == {"type": "text", "text": whole[1]["text"] + "!"}


async def test_pages_of_messages_end_early_and_go_on_until_all_were_shown(stage: Stage) -> None:
    sequences: list[int] = []
    before = ""
    while True:
        page = await replies_of(stage, "/v1/sessions/s-1/messages", f"limit=200{before}")
        MessagePage.model_validate(page)
        sequences = [message["sequence"] for message in page["messages"]] + sequences
        if "next_before" not in page:
            break
        before = f"&before={page['next_before']}"

    assert sequences == list(range(1, (await stage.head()).message_sequence + 1))


async def test_a_model_whose_agent_wants_so_is_given_the_whole_of_what_a_reader_sees_the_head_of(stage: Stage) -> None:
    (waiting,) = (await stage.snapshot())["pending_interrupts"]
    await stage.approve(waiting["interrupt_id"], arguments_hash=waiting["arguments_hash"])
    await stage.run_next()
    await stage.run_next()

    model = stage.deps.agents.default.model
    assert isinstance(model, ScriptedModel)
    outputs = [item.output for item in tool_results(model.requests[-1])]
    assert [len(output) for output in outputs] == [MIB, MIB, len("posted")]


async def test_pages_of_events_end_early_and_go_on_until_all_were_shown() -> None:
    def ask(request: Any) -> Reply:
        return Reply("done") if tool_results(request) else Reply(calls=(call("post", note="a"),) * 8)

    async with open_stage(an_agent(post, model=ScriptedModel(ask))) as stage:
        await stage.send("go")
        await stage.run_all()
        for interrupt in (await stage.snapshot())["pending_interrupts"]:
            await stage.approve(interrupt["interrupt_id"], approved=False, message=QUOTES[: MIB // 2])
        await stage.run_all()
        sequences: list[int] = []
        pages = 0
        after = ""
        while True:
            page = await replies_of(stage, "/v1/sessions/s-1/events", after)
            EventPage.model_validate(page)
            if not page["events"]:
                break
            pages += 1
            sequences += [event["sequence"] for event in page["events"]]
            after = f"after={page['cursor']}"

        assert sequences == list(range(1, (await stage.head()).event_sequence + 1))
        assert pages > 1


async def test_live_progress_that_is_large_comes_in_pages_too() -> None:
    async with open_stage(an_agent(dump)) as stage:
        await stage.send("go")
        message = stage.taken()
        for number in range(6):
            delta = LiveEvent(type="text_delta", payload={"text": f"{number}" + "x" * MIB}, at=stage.clock.now())
            await stage.live.publish(message.key, "turn-1", message.step_id, 1, [delta])
        seen: list[str] = []
        after = ""
        while True:
            page = await replies_of(stage, "/v1/sessions/s-1/events", after)
            if not page["events"]:
                break
            seen += [e["payload"]["text"][0] for e in page["events"] if e["type"] == "text_delta"]
            after = f"after={page['cursor']}"

        assert seen == list("012345")


async def test_the_inbox_of_a_session_that_waits_long_fits(stage: Stage) -> None:
    inbox = await replies_of(stage, "/v1/sessions/s-1/inbox")

    Inbox.model_validate(inbox)
    assert len(inbox["entries"]) == 6
    assert await stage.service.inbox(LOCAL_CALLER, "s-1") == inbox
