"""Messages that wait for their turn, turns that are tried again, and streams on which nothing happens."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure.api.sse import KEEP_ALIVE
from perdure.core.head import Head
from perdure.embedded.runtime import EmbeddedRuntime
from perdure.feed import Feed
from perdure.service import LOCAL_CALLER
from perdure.streams.ui_chunks import HELD, UIChunks
from perdure.streams.ui_requests import Begun
from perdure.streams.ui_stream import DONE
from perdure.streams.ui_stream import chunks_of as follow
from tests.unit.api.builders import Api, Desk
from tests.unit.api.test_stream_access import waiting
from tests.unit.api.ui_clients import (
    a_message,
    chatted,
    chunks_of,
    parsed,
    posted,
    refused,
    resumed,
    shown,
    told,
    types,
    until,
)
from tests.unit.embedded.clocks import NOON, VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def timed(tmp_path: Path, desk: Desk, clock: VirtualClock) -> AsyncIterator[Api]:
    """The API of a runtime on a clock that a test moves."""
    async with EmbeddedRuntime(tmp_path / "sessions.db", desk.agents(), clock=clock, grace_seconds=0) as runtime:
        yield Api(runtime.service)
        desk.gate.set()


async def test_f084_a_quiet_turn_is_broken_by_comments_every_fifteen_seconds(
    timed: Api, desk: Desk, clock: VirtualClock
) -> None:
    response = await posted(timed, a_message("think"))
    stream = response.stream
    assert stream is not None
    await until(stream, "start-step")

    for _ in range(20):  # five minutes
        following = asyncio.ensure_future(anext(stream))
        await waiting(clock, 15)
        await clock.advance(15)
        assert await following == KEEP_ALIVE

    desk.gate.set()
    assert (await until(stream, "finish"))[-1]["finishReason"] == "stop"


async def test_f114_a_stream_whose_token_ends_says_so_and_ends(timed: Api, clock: VirtualClock) -> None:
    timed.caller = replace(LOCAL_CALLER, until=NOON + timedelta(seconds=10))
    stream = (await posted(timed, a_message("think"))).stream
    assert stream is not None
    await until(stream, "start-step")

    following = asyncio.ensure_future(anext(stream))
    await waiting(clock, 10)
    await clock.advance(10)
    chunks, _ = parsed(await following)

    assert [chunk["type"] for chunk in chunks] == ["finish-step", "finish", "error"]
    assert "has ended" in chunks[-1]["errorText"]
    assert [piece async for piece in stream] == [DONE]


async def test_a_session_that_is_purged_ends_its_streams() -> None:
    begun = Begun(session_id="s-1", cursor="", mapping=UIChunks("turn-1"))
    heads = iter([Head(agent="support"), Head()])

    class Service:
        async def feed(self, *_: Any, **__: Any) -> Feed:
            return Feed(items=(), cursor="", head=next(heads))

    pieces = [chunks async for chunks in follow(Service(), LOCAL_CALLER, begun, closing=None)]  # type: ignore[arg-type]

    assert [chunk["type"] for chunk in pieces[-1]] == ["start", "finish", "error"]
    assert "was purged" in pieces[-1][-1]["errorText"]


async def test_a_message_that_waits_is_followed_from_when_its_turn_begins(api: Api, desk: Desk) -> None:
    running = await posted(api, a_message("think"))
    assert running.stream is not None
    await until(running.stream, "start-step")
    queued = await posted(api, a_message("and me?", "ui-2"))
    assert queued.stream is not None
    assert types_of(await anext(queued.stream)) == []
    desk.gate.set()

    chunks = await chunks_of(queued)

    assert shown(chunks)["id"] == "turn-2-assistant"
    assert shown(chunks)["parts"][-1]["text"] == "You said: and me?"


def types_of(frame: bytes) -> list[str]:
    return [line for line in frame.decode().splitlines() if line.startswith("data:")]


async def test_a_message_that_joins_the_running_turn_is_shown_within_its_message(api: Api, desk: Desk) -> None:
    running = await posted(api, a_message("refund order 7"))
    asked = await chunks_of(running)
    joined = await posted(api, a_message("quickly", "ui-2"), delivery="inject", keep_open=True)
    assert joined.stream is not None
    call_id = next(chunk["approvalId"] for chunk in asked if chunk["type"] == "tool-approval-request")
    await api.post(f"/v1/sessions/s-1/interrupts/{call_id}", {"approved": True})

    message = shown(await chunks_of(joined))

    assert message["id"] == "turn-1-assistant"
    steering = {"type": "steering-message", "id": "ui-2", "parts": [{"type": "text", "text": "quickly"}]}
    places = [part["type"] for part in message["parts"]]
    assert message["parts"][places.index("steering-message")] == steering
    assert places == ["step-start", "text", "dynamic-tool", "steering-message", "step-start", "text"]


async def test_a_message_that_is_taken_back_is_waited_for_no_longer(api: Api, desk: Desk) -> None:
    running = await posted(api, a_message("think"))
    assert running.stream is not None
    await until(running.stream, "start-step")
    queued = await posted(api, a_message("never mind", "ui-2"))

    await api.command("DELETE", "/v1/sessions/s-1/inbox/ui-2")
    chunks = await chunks_of(queued)

    assert told(chunks, "message_removed")[0]["message_id"] == "ui-2"
    assert chunks[-1] == {"type": "finish", "finishReason": "other"}


# --- turns that failed --------------------------------------------------------------------------


async def test_a_failed_turn_ends_with_its_error_and_is_tried_again_once(api: Api, desk: Desk) -> None:
    failed = await chatted(api, "fail")
    desk.mended = True

    first = await posted(api, trigger="regenerate-message", messageId="turn-1-assistant")
    again = await posted(api, trigger="regenerate-message")
    chunks = await chunks_of(first)

    assert types(failed)[-2:] == ["finish", "error"]
    assert failed[-2:] == [
        {"type": "finish", "finishReason": "error"},
        {"type": "error", "errorText": "the model says no"},
    ]
    assert shown(chunks)["id"] == "turn-2-assistant"
    assert shown(chunks)["parts"][-1]["text"] == "You said: fail"
    assert shown(await chunks_of(again)) == shown(chunks)
    _, snapshot = await api.get("/v1/sessions/s-1")
    assert snapshot["state"]["turn_count"] == 2


async def test_a_turn_that_did_not_fail_is_not_tried_again(api: Api) -> None:
    await chatted(api, "hello")

    response = await posted(api, trigger="regenerate-message")

    assert refused(response) == (400, "invalid_request")
    assert b"only the latest turn can be tried again, and only if it failed" in response.body


async def test_an_older_turn_than_the_failed_one_is_not_tried_again(api: Api) -> None:
    await chatted(api, "hello")
    await chatted(api, "fail", "ui-2")

    assert refused(await posted(api, trigger="regenerate-message", messageId="turn-1-assistant"))[0] == 400


async def test_a_message_behind_a_turn_that_failed_is_told_why_it_waits(api: Api, desk: Desk) -> None:
    await chatted(api, "fail")

    waits = await chatted(api, "hello", "ui-2")
    desk.mended = True
    retried = await chunks_of(await posted(api, trigger="regenerate-message"))

    assert waits[-1] == {"type": "error", "errorText": HELD}
    assert told(waits, "message_queued") == [{"message_id": "ui-2"}]
    assert shown(retried)["parts"][-1]["text"] == "You said: fail"
    answered = await chatted(api, "hello", "ui-2")  # the same message once more: it has its turn now
    assert shown(answered)["parts"][-1]["text"] == "You said: hello"


async def test_a_message_that_interrupts_goes_on_behind_a_turn_that_failed(api: Api) -> None:
    await chatted(api, "fail")

    chunks = await chatted(api, "hello", "ui-2", delivery="interrupt")

    assert shown(chunks)["id"] == "turn-2-assistant"
    assert (await resumed(api)).status == 204
