"""AI SDK streams over a real socket: a server that closes breaks them off, and its limits know them as streams."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from perdure.embedded.limits import Limits
from perdure.embedded.runtime import EmbeddedRuntime
from perdure.embedded.server import create_app
from tests.unit.api.builders import Desk, a_runtime, a_server
from tests.unit.api.ui_clients import a_message, parsed

BODY = {"id": "s-1", "messages": [a_message("think")]}


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
async def runtime(tmp_path: Path, desk: Desk) -> AsyncIterator[EmbeddedRuntime]:
    async with a_runtime(tmp_path, desk) as opened:
        yield opened


async def take_all(pieces: AsyncIterator[bytes], came: bytearray) -> None:
    async for piece in pieces:
        came += piece


async def test_a_server_that_closes_breaks_streams_off_so_that_no_client_takes_the_half_for_the_whole(
    runtime: EmbeddedRuntime, desk: Desk, capfd: pytest.CaptureFixture[str]
) -> None:
    came = bytearray()
    async with httpx.AsyncClient() as client:
        async with a_server(runtime.service) as url:
            stream = await client.send(client.build_request("POST", f"{url}/v1/chat", json=BODY), stream=True)
            pieces = stream.aiter_raw()
            while b"start-step" not in came:
                came += await anext(pieces)
        with pytest.raises(httpx.RemoteProtocolError):
            await take_all(pieces, came)

    assert b"[DONE]" not in came
    assert capfd.readouterr().err == ""  # it is no fault
    async with a_server(runtime.service) as url, httpx.AsyncClient() as client:
        asyncio.get_running_loop().call_later(0.05, desk.gate.set)
        whole = await client.get(f"{url}/v1/chat/s-1/stream")

    chunks, ended = parsed(whole.content)
    assert ended
    assert chunks[-1] == {"type": "finish", "finishReason": "stop"}
    assert whole.headers["x-vercel-ai-ui-message-stream"] == "v1"


async def test_a_client_that_leaves_is_no_fault_and_stops_nothing(
    runtime: EmbeddedRuntime, desk: Desk, capfd: pytest.CaptureFixture[str]
) -> None:
    async with a_server(runtime.service) as url, httpx.AsyncClient() as client:
        async with client.stream("POST", f"{url}/v1/chat", json=BODY) as stream:
            await anext(stream.aiter_raw())
        desk.gate.set()
        whole = await client.post(f"{url}/v1/chat", json=BODY)

    assert parsed(whole.content)[0][-1] == {"type": "finish", "finishReason": "stop"}
    assert capfd.readouterr().err == ""


async def test_chat_streams_count_as_streams_and_not_as_commands_or_reads(runtime: EmbeddedRuntime) -> None:
    limits = Limits(client={"command": 0, "read": 0, "wait": 1}, session={"command": 0, "read": 0, "wait": 1})
    transport = httpx.ASGITransport(create_app(runtime.service, limits=limits))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8787") as client:
        answered = await client.post("/v1/chat", json={"id": "s-1", "messages": [a_message("hello")]})
        nothing = await client.get("/v1/chat/s-1/stream")

    assert (answered.status_code, nothing.status_code) == (200, 204)
