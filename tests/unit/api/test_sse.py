"""Events as a stream: nothing lost, nothing twice, never silent, and it ends only from outside."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from perdure.api import sse
from perdure.errors import StoreUnavailableError
from perdure.service import LOCAL_CALLER
from tests.unit.api.builders import Api, code, read

EVENTS = "/v1/sessions/s-1/events"


async def opened(api: Api, path: str = EVENTS, **headers: str) -> AsyncIterator[bytes]:
    names = {"accept": "text/event-stream"} | {name.replace("_", "-"): value for name, value in headers.items()}
    response = await api.send("GET", path, headers=names, can_stream=True)
    assert response.status == 200
    assert response.headers["content-type"] == "text/event-stream"
    assert response.stream is not None
    return response.stream


def parsed(frames: bytes) -> list[dict[str, str]]:
    """Read frames as a browser does: only LF ends a line here, and comments are nothing."""
    blocks = [block.split("\n") for block in frames.decode().split("\n\n")]
    found = [
        dict(line.split(": ", 1) for line in block if ": " in line and not line.startswith(":")) for block in blocks
    ]
    return [event for event in found if "data" in event]


async def taken_until(stream: AsyncIterator[bytes], event_type: str) -> list[dict[str, str]]:
    """Take events until one of a type has come."""
    events: list[dict[str, str]] = []
    while not any(event["event"] == event_type for event in events):
        events += parsed(await anext(stream))
    return events


async def test_a_frame_has_the_cursor_as_id_the_type_and_the_event(api: Api) -> None:
    await api.post("/v1/sessions/s-1/inputs", {"text": "hi"})
    await api.until("s-1", "turn_completed")
    _, page = await api.get(EVENTS)

    frames = await taken_until(await opened(api), "turn_completed")

    assert [json.loads(frame["data"]) for frame in frames] == page["events"]
    assert [(frame["id"], frame["event"]) for frame in frames] == [(e["cursor"], e["type"]) for e in page["events"]]


async def test_a_stream_opens_at_once_even_without_events(api: Api) -> None:
    stream = await opened(api)

    assert await anext(stream) == b"retry: 1000\n: open\n\n"


async def test_a_stream_goes_on_with_what_happens_later(api: Api) -> None:
    stream = await opened(api)
    await anext(stream)

    await api.post("/v1/sessions/s-1/inputs", {"text": "hi"})

    events = await taken_until(stream, "turn_completed")
    assert events[0]["event"] == "turn_started"


async def test_a_stream_outlives_turns(api: Api) -> None:
    stream = await opened(api)
    for _ in range(2):
        await api.post("/v1/sessions/s-1/inputs", {"text": "hi"})
        await taken_until(stream, "turn_completed")

    await api.post("/v1/sessions/s-1/inputs", {"text": "hi"})

    assert (await taken_until(stream, "turn_completed"))[-1]["event"] == "turn_completed"


async def test_a_stream_cut_anywhere_goes_on_without_loss_or_repetition(api: Api) -> None:
    interrupt_id = await api.refund_that_waits("s-1")
    await api.post(f"/v1/sessions/s-1/interrupts/{interrupt_id}", {"approved": True})
    await api.until("s-1", "turn_completed")
    whole = await taken_until(await opened(api), "turn_completed")

    for cut in range(1, len(whole)):
        rest = await taken_until(await opened(api, last_event_id=whole[cut - 1]["id"]), "turn_completed")
        assert whole[:cut] + rest == whole


async def test_the_last_event_id_wins_over_the_query(api: Api) -> None:
    await api.post("/v1/sessions/s-1/inputs", {"text": "hi"})
    await api.until("s-1", "turn_completed")
    whole = await taken_until(await opened(api), "turn_completed")

    by_query = await taken_until(await opened(api, f"{EVENTS}?after={whole[0]['id']}"), "turn_completed")
    by_header = await taken_until(
        await opened(api, f"{EVENTS}?after={whole[0]['id']}", last_event_id=whole[2]["id"]), "turn_completed"
    )

    assert by_query == whole[1:]
    assert by_header == whole[3:]


@pytest.mark.parametrize("place", ["?after=xyz", "?after="])
async def test_a_broken_cursor_is_an_error_and_no_stream(api: Api, place: str) -> None:
    response = await api.send("GET", EVENTS + place, headers={"accept": "text/event-stream"}, can_stream=True)

    assert code(read(response)) == (400, "invalid_cursor")


async def test_a_broken_last_event_id_is_an_error_and_no_stream(api: Api) -> None:
    headers = {"accept": "text/event-stream", "last-event-id": "xyz"}

    response = await api.send("GET", EVENTS, headers=headers, can_stream=True)

    assert code(read(response)) == (400, "invalid_cursor")


def test_a_frame_survives_readers_that_break_lines_at_every_separator() -> None:
    event = {"type": "text_delta", "cursor": "c", "payload": {"text": "a\u2028b\x85c\x0bd\r\ne\x1cf\x00"}}

    lines = sse.frame(event).decode().splitlines()

    assert lines == ["id: c", "event: text_delta", lines[2], ""]
    assert json.loads(lines[2].removeprefix("data: ")) == event


class Silent:
    """A session in which nothing happens; remembers how it was asked."""

    def __init__(self, *pages: list[dict[str, Any]]) -> None:
        self.asked: list[dict[str, Any]] = []
        self._pages = list(pages)

    async def events(self, caller: Any, session_id: str, **asked: Any) -> dict[str, Any]:
        self.asked.append(asked)
        if not self._pages:
            raise StoreUnavailableError("gone")
        return {"events": self._pages.pop(0), "cursor": "c-1"}


async def test_silence_is_broken_by_comments_that_move_no_place() -> None:
    """Field case F084: at most 25 seconds, and nothing that counts."""
    session: Any = Silent([], [])

    pieces = [
        piece async for piece in sse.stream(session, LOCAL_CALLER, "s-1", {"events": [], "cursor": "c-1"}, closing=None)
    ]

    assert pieces == [sse.OPEN, b": keep-alive\n\n", b": keep-alive\n\n"]
    assert {asked["wait_seconds"] for asked in session.asked} == {15.0}
    assert {asked["after"] for asked in session.asked} == {"c-1"}


async def test_a_page_is_read_only_when_the_last_one_was_taken() -> None:
    event = {"type": "text_delta", "cursor": "c-1", "payload": {}}
    session: Any = Silent([event], [event])
    stream = sse.stream(session, LOCAL_CALLER, "s-1", {"events": [event], "cursor": "c-1"}, closing=None)

    await anext(stream)
    await anext(stream)

    assert session.asked == []
    await anext(stream)
    assert len(session.asked) == 1


async def test_a_stream_ends_when_the_host_closes(api: Api) -> None:
    closing = asyncio.Event()
    response = await api.send("GET", EVENTS, headers={"accept": "text/event-stream"}, can_stream=True, closing=closing)
    assert response.stream is not None
    await anext(response.stream)

    closing.set()

    async with asyncio.timeout(5):
        assert [piece async for piece in response.stream] == []


async def test_a_stream_may_begin_with_a_snapshot_and_goes_on_behind_it(api: Api) -> None:
    await api.refund_that_waits("s-1")
    _, snapshot = await api.get("/v1/sessions/s-1")

    stream = await opened(api, f"{EVENTS}?snapshot=true")
    await anext(stream)
    (first,) = parsed(await anext(stream))
    await api.post("/v1/sessions/s-1/stop", {})
    rest = await taken_until(stream, "turn_cancelled")

    assert (first["id"], first["event"]) == (snapshot["cursor"], "snapshot")
    assert json.loads(first["data"]) == {"type": "snapshot", "cursor": snapshot["cursor"], "snapshot": snapshot}
    _, page = await api.get(f"{EVENTS}?after={snapshot['cursor']}")
    assert [json.loads(frame["data"]) for frame in rest] == page["events"]


async def test_a_stream_that_comes_back_with_a_cursor_has_no_snapshot(api: Api) -> None:
    await api.post("/v1/sessions/s-1/inputs", {"text": "hi"})
    await api.until("s-1", "turn_completed")
    whole = await taken_until(await opened(api), "turn_completed")
    address = f"{EVENTS}?snapshot=true"

    again = await taken_until(await opened(api, address, last_event_id=whole[0]["id"]), "turn_completed")
    by_query = await taken_until(await opened(api, f"{address}&after={whole[0]['id']}"), "turn_completed")
    plain = await taken_until(await opened(api, f"{EVENTS}?snapshot=false"), "turn_completed")

    assert again == by_query == whole[1:]
    assert plain == whole


async def test_a_stream_of_a_session_that_was_never_written_begins_with_its_empty_snapshot(api: Api) -> None:
    stream = await opened(api, f"{EVENTS}?snapshot=true")
    await anext(stream)
    (first,) = parsed(await anext(stream))
    await api.post("/v1/sessions/s-1/inputs", {"text": "hi"})

    assert json.loads(first["data"])["snapshot"]["state"] is None
    assert (await taken_until(stream, "turn_completed"))[0]["event"] == "turn_started"


@pytest.mark.parametrize("query", ["?snapshot=true", "?snapshot=yes", "?snapshot="])
async def test_a_snapshot_goes_with_a_stream_and_is_true_or_false(api: Api, query: str) -> None:
    assert code(await api.get(EVENTS + query)) == (400, "invalid_request")
