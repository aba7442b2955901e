"""The development server: its page, its guard, its streams, and how it ends."""

import asyncio
import json
import logging
import signal
import socket
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.api.reading import MAX_BODY_BYTES
from perdure.embedded.pages import read_pages
from perdure.embedded.runtime import EmbeddedRuntime
from perdure.embedded.server import create_app, serve
from perdure.errors import ConfigurationError
from tests.unit.api.builders import JSON, Desk, a_runtime, a_server

STREAM = {"accept": "text/event-stream"}


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
async def runtime(tmp_path: Path, desk: Desk) -> AsyncIterator[EmbeddedRuntime]:
    async with a_runtime(tmp_path, desk) as runtime:
        yield runtime


@pytest.fixture
async def http(runtime: EmbeddedRuntime) -> AsyncIterator[httpx.AsyncClient]:
    async with a_server(runtime.service) as url, httpx.AsyncClient(base_url=url, timeout=20) as client:
        yield client


@pytest.fixture
async def app(runtime: EmbeddedRuntime) -> AsyncIterator[httpx.AsyncClient]:
    """The same app without a socket, for what does not need one."""
    transport = httpx.ASGITransport(create_app(runtime.service))
    async with httpx.AsyncClient(base_url="http://127.0.0.1:8787", transport=transport) as client:
        yield client


async def send(http: httpx.AsyncClient, text: str, session_id: str = "s-1", **headers: str) -> httpx.Response:
    return await http.post(f"/v1/sessions/{session_id}/inputs", json={"text": text}, headers=headers)


async def raw(http: httpx.AsyncClient, request: bytes) -> bytes:
    """Send bytes as they are, and return all that comes back until the server closes."""
    reader, writer = await asyncio.open_connection(http.base_url.host, http.base_url.port)
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()


# --- the guard ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST"])
async def test_the_servers_own_names_are_welcome(app: httpx.AsyncClient, name: str) -> None:
    host = f"{name}:{app.base_url.port}"

    response = await app.get("/healthz", headers={"host": host, "origin": f"http://{host}"})

    assert response.status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example.com:{port}", "localhost", "localhost:1", "127.0.0.1.evil.example.com:{port}", "", "0.0.0.0:{port}"],
)
async def test_another_host_is_refused_and_changes_nothing(
    app: httpx.AsyncClient, runtime: EmbeddedRuntime, host: str
) -> None:
    response = await send(app, "hi", host=host.format(port=app.base_url.port))

    assert response.status_code == 403
    assert response.json()["error"]["code"] == "forbidden_origin"
    assert await runtime.sessions() == {"sessions": []}


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example.com",
        "null",
        "https://{own}",
        "http://localhost:{port}",
        "http://{own}.evil.example.com",
        "",
    ],
)
@pytest.mark.parametrize("path", ["/", "/healthz", "/v1/sessions"])
async def test_another_origin_is_refused(app: httpx.AsyncClient, origin: str, path: str) -> None:
    own = f"127.0.0.1:{app.base_url.port}"

    response = await app.get(path, headers={"origin": origin.format(own=own, port=app.base_url.port)})

    assert response.status_code == 403
    assert response.json()["error"]["code"] == "forbidden_origin"


async def test_two_hosts_or_none_are_refused(http: httpx.AsyncClient) -> None:
    own = f"127.0.0.1:{http.base_url.port}".encode()

    two = await raw(http, b"GET /healthz HTTP/1.1\r\nHost: %s\r\nHost: evil\r\nConnection: close\r\n\r\n" % own)
    none = await raw(http, b"GET /healthz HTTP/1.0\r\n\r\n")

    assert two.split()[1] in (b"400", b"403")
    assert none.split()[1] in (b"400", b"403")


@pytest.mark.parametrize("target", [b"/v1/sessions/a%0d%0ab", b"http://evil/v1/sessions", b"*"])
async def test_whatever_is_asked_for_is_answered_in_json(http: httpx.AsyncClient, target: bytes) -> None:
    own = f"127.0.0.1:{http.base_url.port}".encode()

    answer = await raw(http, b"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (target, own))

    assert answer.split()[1] in (b"400", b"404")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["retryable"] is False


async def test_a_server_for_every_address_answers_under_the_one_that_was_called(runtime: EmbeddedRuntime) -> None:
    async with a_server(runtime.service, "0.0.0.0") as url:
        port = url.rsplit(":", 1)[1]
        async with httpx.AsyncClient() as client:
            called = await client.get(f"http://127.0.0.2:{port}/healthz")
            named = await client.get(f"http://127.0.0.2:{port}/healthz", headers={"host": f"evil.example.com:{port}"})

    assert (called.status_code, named.status_code) == (200, 403)


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_what_a_web_form_can_send_never_approves(
    app: httpx.AsyncClient, runtime: EmbeddedRuntime, desk: Desk, content_type: str
) -> None:
    await send(app, "refund order 7")
    session = runtime.session("s-1")
    async for event in session.events():
        if event.type == "interrupt_raised":
            break

    response = await app.post(
        f"/v1/sessions/s-1/interrupts/{event.payload['interrupt_id']}",
        content=b'{"approved": true}',
        headers={"content-type": content_type},
    )

    assert response.status_code == 415
    assert len((await session.snapshot())["pending_interrupts"]) == 1
    assert desk.refunds == []


# --- the page -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(read_pages()))
async def test_the_page_comes_with_its_type_and_may_load_nothing_from_elsewhere(
    app: httpx.AsyncClient, path: str
) -> None:
    response = await app.get(path)

    assert response.status_code == 200
    kinds = {"": "text/html", "html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
    assert response.headers["content-type"].split(";")[0] == kinds[path.rpartition(".")[2] if "." in path else ""]
    assert response.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.content


@pytest.mark.parametrize(
    "path",
    [
        "/console/",
        "/console/nothing.js",
        "/console/../server.py",
        "/console/%2e%2e/server.py",
        "/console//app.js",
        "/client/",
        "/client/package.json",
    ],
)
async def test_nothing_but_the_pages_files_is_served(http: httpx.AsyncClient, path: str) -> None:
    answer = await raw(
        http, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{http.base_url.port}\r\nConnection: close\r\n\r\n".encode()
    )

    assert answer.split()[1] == b"404"
    assert b'"not_found"' in answer


# --- bodies and streams -------------------------------------------------------------------------


@pytest.mark.parametrize("size", [MAX_BODY_BYTES + 1, 8 * MAX_BODY_BYTES])
async def test_whoever_sends_too_much_hears_it(http: httpx.AsyncClient, size: int) -> None:
    response = await http.post("/v1/sessions/s-1/inputs", content=b"x" * size, headers=JSON)

    assert (response.status_code, response.json()["error"]["code"]) == (413, "too_large")


async def test_a_body_in_chunks_is_limited_as_well(http: httpx.AsyncClient) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"x" * 65_536

    response = await http.post("/v1/sessions/s-1/inputs", content=chunks(), headers=JSON)

    assert (response.status_code, response.json()["error"]["code"]) == (413, "too_large")


async def test_a_body_without_end_is_given_up(runtime: EmbeddedRuntime) -> None:
    pieces, sent = [], []

    async def receive() -> dict[str, Any]:
        pieces.append(1)
        assert len(pieces) < 100
        return {"type": "http.request", "body": b"x" * MAX_BODY_BYTES, "more_body": True}

    async def collect(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/sessions/s-1/inputs",
        "query_string": b"",
        "headers": [(b"host", b"localhost:1"), (b"content-type", b"application/json")],
        "server": ("127.0.0.1", 1),
    }
    await create_app(runtime.service)(scope, receive, collect)

    assert sent[0]["status"] == 413


async def test_a_client_that_leaves_in_the_middle_of_its_body_changes_nothing(
    http: httpx.AsyncClient, runtime: EmbeddedRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    _, writer = await asyncio.open_connection(http.base_url.host, http.base_url.port)
    head = f"POST /v1/sessions/s-1/inputs HTTP/1.1\r\nHost: 127.0.0.1:{http.base_url.port}\r\n"
    writer.write(head.encode() + b'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"text": "hi"}')
    await writer.drain()
    writer.close()
    await writer.wait_closed()

    assert (await http.get("/healthz")).status_code == 200
    assert await runtime.sessions() == {"sessions": []}
    assert caplog.records == []


async def test_events_stream_as_they_happen_and_leaving_stops_nothing(
    http: httpx.AsyncClient, desk: Desk, runtime: EmbeddedRuntime
) -> None:
    """Spec STOP-15, field case F033."""
    receipt = (await send(http, "think")).json()

    async with http.stream("GET", "/v1/sessions/s-1/events", headers=STREAM) as response:
        assert response.headers["content-type"] == "text/event-stream"
        seen = await read_until(response, "turn_started")
    desk.gate.set()
    back = {**STREAM, "last-event-id": seen[-1]["cursor"]}
    async with http.stream("GET", "/v1/sessions/s-1/events", headers=back) as response:
        rest = await read_until(response, "turn_completed")

    page = (await http.get(f"/v1/sessions/s-1/events?after={receipt['cursor']}")).json()
    durable = [event for event in seen + rest if "sequence" in event]
    assert durable == page["events"]


async def read_until(response: httpx.Response, event_type: str) -> list[dict[str, Any]]:
    """Read whole frames until an event of a type has come."""
    pending, events = b"", []
    async for piece in response.aiter_raw():
        pending += piece
        *frames, pending = pending.split(b"\n\n")
        for frame in frames:
            data = [line[6:] for line in frame.split(b"\n") if line.startswith(b"data: ")]
            events += [json.loads(line) for line in data]
        if any(event["type"] == event_type for event in events):
            return events
    raise AssertionError(f"the stream ended without {event_type}")


# --- start and end ------------------------------------------------------------------------------


async def test_closing_ends_open_streams_and_polls_at_once(runtime: EmbeddedRuntime) -> None:
    async with httpx.AsyncClient(timeout=20) as client:
        async with a_server(runtime.service) as url:
            stream = await client.send(
                client.build_request("GET", f"{url}/v1/sessions/s-1/events", headers=STREAM), stream=True
            )
            pieces = stream.aiter_raw()
            await anext(pieces)
            polling = asyncio.create_task(client.get(f"{url}/v1/sessions/s-1/events?wait_seconds=20"))
            health = await client.get(f"{url}/healthz")
            closing_began = asyncio.get_running_loop().time()

        took = asyncio.get_running_loop().time() - closing_began
        assert health.status_code == 200
        assert [piece async for piece in pieces] == []
        assert (await polling).json()["events"] == []
        assert took < 5


async def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(ConfigurationError) as caught:
            await serve(create_app(None), "127.0.0.1", port)  # type: ignore[arg-type]

    assert str(port) in caught.value.message


@pytest.mark.parametrize(("host", "port"), [("no.such.host.invalid", 0), ("127.0.0.1", 99999), ("127.0.0.1", -1)])
async def test_an_address_that_is_none_is_named(host: str, port: int) -> None:
    with pytest.raises(ConfigurationError) as caught:
        await serve(create_app(None), host, port)  # type: ignore[arg-type]

    assert host in caught.value.message


PROGRAM = """
    import asyncio, perdure, sys
    from perdure.embedded.server import create_app, serve
    from tests.unit.api.builders import Desk

    async def main():
        async with perdure.open(sys.argv[1], agents=Desk().agents()) as runtime:
            await serve(create_app(runtime.service), "127.0.0.1", 0)
        print("drained", flush=True)

    asyncio.run(main())
"""


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains_and_the_program_goes_on_behind_serving(tmp_path: Path, number: signal.Signals) -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path / "s.db"), stdout=asyncio.subprocess.PIPE
    )
    assert program.stdout is not None
    ready = (await program.stdout.readline()).decode().split()
    assert ready[0] == "ready"
    async with (
        httpx.AsyncClient(base_url=ready[1]) as client,
        client.stream("GET", "/v1/sessions/s-1/events", headers=STREAM) as stream,
    ):
        await anext(stream.aiter_raw())

        program.send_signal(number)

        async with asyncio.timeout(15):
            assert (await program.stdout.read()).decode() == "drained\n"
            assert await program.wait() == 0


@pytest.mark.usefixtures("http")
async def test_a_client_that_broke_off_in_a_long_answer_is_no_word_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("asyncio")

    log.warning("socket.send() raised exception.")  # what a transport says for each piece that comes too late
    log.warning("something else")

    assert [record.getMessage() for record in caplog.records] == ["something else"]
