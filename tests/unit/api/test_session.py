"""The `Session` object: the same in the process of the runtime and over HTTP, errors included."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.embedded.runtime import EmbeddedRuntime
from perdure.errors import (
    InvalidRequestError,
    NotFoundError,
    PerdureError,
    RequestConflictError,
    StoreUnavailableError,
)
from perdure.patient_reads import READ_RETRY_DELAYS
from perdure.session import Receipt, Session, SessionEvent
from tests.unit.api.builders import Desk, Unreachable


async def collected(events: AsyncIterator[SessionEvent]) -> list[SessionEvent]:
    return [event async for event in events]


async def test_a_message_is_sent_and_its_turn_watched_to_the_end(runtime: Any) -> None:
    session: Session = runtime.session("s-1", agent="other")

    receipt = await session.send("hello", metadata={"from": "test"})
    events = await collected(session.events(after=receipt.cursor))

    assert receipt == Receipt(
        message_id=receipt.message_id, delivered_as="queue", duplicate=False, cursor=receipt.cursor, turn_id="turn-1"
    )
    assert events[0].type == "turn_started"
    assert events[-1].type == "turn_completed"
    assert events[-1].turn_id == "turn-1"
    snapshot = await session.snapshot()
    assert (snapshot["agent"], snapshot["state"]["status"]) == ("other", "waiting_for_user_message")
    assert [m["role"] for m in (await session.messages(limit=10))["messages"]] == ["user", "assistant"]
    assert [row["session_id"] for row in (await runtime.sessions())["sessions"]] == ["s-1"]


async def test_files_go_with_a_message(runtime: Any) -> None:
    cat = {"reference": "uploads/cat.png", "media_type": "image/png"}
    session: Session = runtime.session("s-1")

    await session.send("look", files=[cat])

    assert (await session.snapshot())["messages"][0]["parts"][1] == {"type": "file", **cat}


async def test_a_refund_is_approved_while_its_events_are_read(runtime: Any, desk: Desk) -> None:
    session: Session = runtime.session("s-1")
    receipt = await session.send("refund order 7")

    async for event in session.events(after=receipt.cursor):
        if event.type == "interrupt_raised":
            shown = (await session.snapshot())["pending_interrupts"][0]
            resolution = await session.resolve(
                event.payload["interrupt_id"], approved=True, arguments_hash=shown["arguments_hash"]
            )

    assert event.type == "turn_completed"
    assert resolution == {"result": "resolved"}
    assert desk.refunds == ["7"]


async def test_events_behind_a_queued_messages_receipt_end_with_its_own_turn(runtime: Any, desk: Desk) -> None:
    session: Session = runtime.session("s-1")
    await session.send("think")
    queued = await session.send("second")
    await session.send("third")
    reading = asyncio.create_task(collected(session.events(after=queued.cursor)))

    assert (await session.inbox())["entries"][0]["message_id"] == queued.message_id
    desk.gate.set()

    events = await reading
    ends = [(event.type, event.turn_id) for event in events if event.type == "turn_completed"]
    assert ends == [("turn_completed", "turn-1"), ("turn_completed", "turn-2")]
    assert events[-1].turn_id == "turn-2"


async def test_events_without_a_cursor_end_with_the_first_turn_and_go_on_behind_it(runtime: Any) -> None:
    session: Session = runtime.session("s-1")
    for _ in range(2):
        receipt = await session.send("hi")
        await collected(session.events(after=receipt.cursor))

    first = await collected(session.events())
    second = await collected(session.events(after=first[-1].cursor))

    assert {event.turn_id for event in first} == {"turn-1"}
    assert {event.turn_id for event in second} == {"turn-2"}
    sequences = [event.sequence for event in first + second]
    assert sequences == list(range(1, len(sequences) + 1))


async def test_following_goes_on_after_a_turn(runtime: Any) -> None:
    session: Session = runtime.session("s-1")
    events = session.events(follow=True)

    ends = []
    for text in ("one", "two"):
        await session.send(text)
        async for event in events:
            if event.type == "turn_completed":
                ends.append(event.turn_id)
                break

    assert ends == ["turn-1", "turn-2"]


async def test_a_stopped_turn_ends_the_events(runtime: Any) -> None:
    session: Session = runtime.session("s-1")
    receipt = await session.send("think")

    assert await session.stop("turn-1") == {"result": "recorded"}

    events = await collected(session.events(after=receipt.cursor))
    assert events[-1].type == "turn_cancelled"
    assert await session.stop() == {"result": "idle"}


async def test_leaving_the_events_stops_nothing(runtime: Any, desk: Desk) -> None:
    """Spec STOP-15, field case F033."""
    session: Session = runtime.session("s-1")
    receipt = await session.send("think")
    reading = asyncio.create_task(collected(session.events(after=receipt.cursor)))
    await asyncio.sleep(0)

    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    desk.gate.set()

    events = await collected(session.events(after=receipt.cursor))
    assert events[-1].type == "turn_completed"


@pytest.mark.parametrize(
    ("kind", "code", "act"),
    [
        (InvalidRequestError, "invalid_request", lambda s: s.send("  ")),
        (InvalidRequestError, "invalid_text", lambda s: s.send("\ud800")),
        (InvalidRequestError, "invalid_request", lambda s: s.send("hi", agent="nobody")),
        (InvalidRequestError, "invalid_request", lambda s: s.send("hi", agent="")),
        (InvalidRequestError, "invalid_request", lambda s: s.send("hi", idempotency_key="")),
        (InvalidRequestError, "invalid_request", lambda s: s.send("hi", idempotency_key="k" * 257)),
        (RequestConflictError, "agent_mismatch", lambda s: s.send("hi", agent="other")),
        (RequestConflictError, "idempotency_mismatch", lambda s: s.send("other", idempotency_key="first")),
        (NotFoundError, "interrupt_not_found", lambda s: s.resolve("call-9-9", approved=True)),
        (NotFoundError, "interrupt_not_found", lambda s: s.resolve("a/b?c#d", approved=True)),
        (NotFoundError, "interrupt_not_found", lambda s: s.answer("call-9-9", "yes")),
        (InvalidRequestError, "invalid_cursor", lambda s: collected(s.events(after="broken"))),
        (InvalidRequestError, "invalid_request", lambda s: s.messages(before="nowhere")),
        (InvalidRequestError, "invalid_request", lambda s: s.stop(disposition="shred")),
        (InvalidRequestError, "invalid_cursor", lambda s: s.stop(frontier="broken")),
    ],
)
async def test_a_refusal_is_the_same_error_here_and_over_http(
    runtime: Any, kind: type[PerdureError], code: str, act: Any
) -> None:
    session: Session = runtime.session("s-1", agent=None)
    receipt = await session.send("hello", idempotency_key="first")
    await collected(session.events(after=receipt.cursor))
    before = await session.snapshot()

    with pytest.raises(kind) as caught:
        await act(session)

    assert type(caught.value) is kind
    assert caught.value.code == code
    assert await session.snapshot() == before


@pytest.mark.parametrize("key", ["order-1-2", "ключ", "a b", "k" * 256, "ж" * 256, "{}", 'q"uo,te'])
async def test_a_key_makes_a_repeat_harmless_whatever_it_looks_like(runtime: Any, key: str) -> None:
    session: Session = runtime.session("s-1")

    first = await session.send("hi", idempotency_key=key)
    second = await session.send("hi", idempotency_key=key)

    assert (first.duplicate, second.duplicate) == (False, True)
    assert second.message_id == first.message_id


@pytest.mark.parametrize("session_id", ["", "a/b", "a b", "\x00", "x" * 129])
async def test_a_malformed_session_id_is_refused(runtime: Any, session_id: str) -> None:
    with pytest.raises(InvalidRequestError):
        await runtime.session(session_id).snapshot()


@pytest.mark.parametrize("session_id", [".", "..", "a:b.c_d-e"])
async def test_every_well_formed_session_id_is_its_own_session(runtime: Any, session_id: str) -> None:
    await runtime.session(session_id).send("hi")

    assert [row["session_id"] for row in (await runtime.sessions())["sessions"]] == [session_id]


async def test_a_command_without_an_answer_is_not_repeated_and_tells_its_key() -> None:
    """Spec API-08."""
    sent = []

    class Lost(Unreachable):
        async def send_input(self, session_id: str, **arguments: Any) -> Any:
            sent.append(arguments["idempotency_key"])
            raise StoreUnavailableError("no answer")

    session = Session(Lost(), "s-1")

    with pytest.raises(StoreUnavailableError) as caught:
        await session.send("hi")

    assert sent == [caught.value.idempotency_key]
    assert sent[0]


async def test_reading_events_survives_a_server_that_comes_back() -> None:
    waits: list[float] = []
    end = {"type": "turn_completed", "cursor": "c-2", "at": "", "payload": {}, "turn_id": "turn-1", "new": 1}

    class Restarting(Unreachable):
        async def events(self, session_id: str, **asked: Any) -> dict[str, Any]:
            if len(waits) < 3:
                raise StoreUnavailableError("no answer")
            return {"events": [end], "cursor": "c-2"}

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    events = await collected(Session(Restarting(), "s-1", sleep=sleep).events())

    assert [event.type for event in events] == ["turn_completed"]
    assert waits == list(READ_RETRY_DELAYS[:3])


async def test_reading_events_gives_up_on_a_server_that_stays_away() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    with pytest.raises(StoreUnavailableError):
        await collected(Session(Unreachable(), "s-1", sleep=sleep).events())

    assert waits == list(READ_RETRY_DELAYS)


async def test_the_readme_way_to_open_a_runtime_gives_this_object(tmp_path: Path) -> None:
    async with perdure.open(tmp_path / "s.db", agents=Desk().agents()) as runtime:
        assert isinstance(runtime, EmbeddedRuntime)
        assert isinstance(runtime.session("s-1"), Session)
