"""The development server's WebSocket: a frame that could not be carried out, because of us and not of its sender."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from perdure.embedded.runtime import EmbeddedRuntime
from perdure.embedded.sockets import TRY_AGAIN_LATER
from perdure.errors import StoreUnavailableError
from tests.unit.embedded.test_sockets import asked, at_rest, connected, desk, runtime, told, url

__all__ = ["desk", "runtime", "url"]

MESSAGE = {"role": "user", "parts": [{"type": "text", "text": "hello"}]}
FRAMES: list[dict[str, Any]] = [
    {"type": "attach", "session_id": "s-1"},
    {"type": "send", "requestId": "r-1", "id": "s-1", "messages": [MESSAGE]},
    {"type": "resume", "requestId": "r-1", "id": "s-1"},
]
every_frame = pytest.mark.parametrize("frame", FRAMES, ids=[str(frame["type"]) for frame in FRAMES])
every_read = pytest.mark.parametrize("frame", FRAMES[::2], ids=["attach", "resume"])  # a command tries for seconds


def fail(runtime: EmbeddedRuntime, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Have every read of a session fail."""

    async def read(*_: Any, **__: Any) -> Any:
        raise error

    for name in ("peek", "load"):
        monkeypatch.setattr(runtime.service._ports.store, name, read)


@every_read
async def test_a_store_that_gives_no_answer_is_told_as_on_aws_and_the_same_frame_is_taken_later(
    runtime: EmbeddedRuntime, url: str, monkeypatch: pytest.MonkeyPatch, frame: dict[str, Any]
) -> None:
    await at_rest(runtime, "hello")
    async with connected(url) as socket:
        with monkeypatch.context() as patched:
            fail(runtime, patched, StoreUnavailableError("the file is busy"))
            answer = await asked(socket, frame)

        named = {name: frame[name] for name in ("session_id", "requestId") if name in frame}
        assert answer == answer | named | {"type": "error", "code": "store_unavailable"}
        assert (await asked(socket, frame))["type"] in ("attached", "no-active")


@every_frame
async def test_what_nobody_expected_is_told_to_the_operator_and_its_viewer_is_asked_to_come_back(
    runtime: EmbeddedRuntime,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    frame: dict[str, Any],
) -> None:
    await at_rest(runtime, "hello")
    async with connected(url) as socket:
        fail(runtime, monkeypatch, RuntimeError("a mistake of ours"))
        await socket.send(json.dumps(frame))
        with caplog.at_level(logging.ERROR, "perdure.operator"), pytest.raises(ConnectionClosed) as closed:
            await told(socket)

    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == TRY_AGAIN_LATER
    assert [record.message for record in caplog.records] == ["a frame could not be carried out"]
