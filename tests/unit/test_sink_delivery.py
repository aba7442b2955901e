"""One delivery to a sink: nothing that a sink does holds it up for longer than its time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import AgentDefinition, EventSink, Notice
from perdure.embedded.runtime import EmbeddedRuntime
from perdure.models.scripted import ScriptedModel
from perdure.ports import SessionKey
from perdure.sink_delivery import DeliveryFailedError, Place, deliver_next
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


async def delivered(folder: Path, sink: EventSink) -> DeliveryFailedError:
    """Have a turn, deliver it, and return how that failed."""
    agent = AgentDefinition(name="echo", model=ScriptedModel(lambda _: "hello"))
    async with EmbeddedRuntime(folder / "s.db", [agent]) as runtime:
        await runtime.session("s-1").send("hi")
        await finished(runtime.session("s-1"))
        store = runtime.service._deps.ports.store
        began = time.monotonic()
        with pytest.raises(DeliveryFailedError) as failed:
            await deliver_next(sink, store, SessionKey("local", "s-1"), Place(), NOW)
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
