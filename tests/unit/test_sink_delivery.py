"""One delivery to a sink: nothing that a sink does holds it up for longer than its time."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import AgentDefinition, EventSink, Notice
from perdure.embedded.runtime import EmbeddedRuntime
from perdure.models.scripted import ScriptedModel
from perdure.ports import SessionKey
from perdure.sink_delivery import MAX_THREADS, DeliveryFailedError, Place, deliver_next
from perdure.testing.processes import finished

JsonObject = dict[str, Any]

NOW = datetime(2026, 12, 1, tzinfo=UTC)
SHORT = timedelta(seconds=0.05)


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """An event for which threads wait until the test is over."""
    event = threading.Event()
    yield event
    event.set()


@contextlib.asynccontextmanager
async def a_session(folder: Path) -> AsyncIterator[Callable[[EventSink], Awaitable[object]]]:
    """Have a turn; gives what delivers it to a sink."""
    agent = AgentDefinition(name="echo", model=ScriptedModel(lambda _: "hello"))
    async with EmbeddedRuntime(folder / "s.db", [agent]) as runtime:
        await runtime.session("s-1").send("hi")
        await finished(runtime.session("s-1"))
        store = runtime.service._deps.ports.store
        yield lambda sink: deliver_next(sink, store, SessionKey("local", "s-1"), Place(), NOW)


async def delivered(folder: Path, sink: EventSink) -> DeliveryFailedError:
    """Have a turn, deliver it, and return how that failed."""
    async with a_session(folder) as deliver:
        began = time.monotonic()
        with pytest.raises(DeliveryFailedError) as failed:
            await deliver(sink)
        assert time.monotonic() - began < 5
    return failed.value


async def test_a_redaction_that_hangs_is_let_go_in_time(tmp_path: Path, never: threading.Event) -> None:
    given: list[Notice] = []

    def redact(event: JsonObject) -> JsonObject:
        never.wait()
        return event

    failed = await delivered(tmp_path, EventSink("audit", given.append, redact=redact, timeout=SHORT))

    assert isinstance(failed.__cause__, TimeoutError)
    assert failed.place == Place(failing_since=NOW)
    assert given == []


async def test_a_plain_function_that_hangs_gets_no_thread_without_end_and_others_get_theirs(
    tmp_path: Path, never: threading.Event
) -> None:
    began: list[Notice] = []

    def hang(notice: Notice) -> None:
        began.append(notice)
        never.wait()

    hanging, given = EventSink("audit", hang, timeout=timedelta(milliseconds=5)), list[Notice]()
    async with a_session(tmp_path) as deliver:
        for _ in range(MAX_THREADS + 5):
            with pytest.raises(DeliveryFailedError):
                await deliver(hanging)
        await deliver(EventSink("audit", given.append))
        assert len(began) == MAX_THREADS
        assert len(given) == 1

        never.set()
        async with asyncio.timeout(5):
            while len(began) == MAX_THREADS:
                with contextlib.suppress(DeliveryFailedError):
                    await deliver(hanging)


async def test_a_delivery_that_does_not_end_when_it_is_cancelled_is_left_alone(tmp_path: Path) -> None:
    over = asyncio.Event()

    async def stubborn(_: Notice) -> None:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue

    failed = await delivered(tmp_path, EventSink("audit", stubborn, timeout=SHORT))
    over.set()

    assert isinstance(failed.__cause__, TimeoutError)


@pytest.mark.parametrize("error", [SystemExit, asyncio.CancelledError, KeyError])
async def test_whatever_a_redaction_raises_is_a_failure_and_no_end(tmp_path: Path, error: type[BaseException]) -> None:
    def redact(_: JsonObject) -> JsonObject:
        raise error

    failed = await delivered(tmp_path, EventSink("audit", lambda _: None, redact=redact))

    assert failed.place.failing_since == NOW
