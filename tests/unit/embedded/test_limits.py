"""How many requests the development server has open at a time, and what the next one is told."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from perdure.embedded.limits import Limits, OpenRequests
from perdure.embedded.server import create_app
from tests.unit.api.builders import a_runtime

FEW = Limits(session={"command": 2, "read": 2, "wait": 2}, client={"command": 4, "read": 4, "wait": 4})

INPUTS = "/v1/sessions/{}/inputs"
EVENTS = "/v1/sessions/{}/events"


class Held:
    """An app whose answers come when they are let go; `seen` are the paths that reached it."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.go = asyncio.Event()
        self._came = asyncio.Event()

    async def until(self, number: int) -> None:
        """Return when so many requests have come."""
        while len(self.seen) < number:
            self._came.clear()
            await asyncio.wait_for(self._came.wait(), 10)

    async def __call__(self, scope, receive, send) -> None:
        self.seen.append(scope["path"])
        self._came.set()
        await self.go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.fixture
async def http(held: Held) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(OpenRequests(held, limits=FEW))
    async with httpx.AsyncClient(base_url="http://here", transport=transport) as client:
        yield client


@asynccontextmanager
async def open_requests(held: Held, *requests: Callable[[], Awaitable[httpx.Response]]) -> AsyncIterator[None]:
    """Keep these requests open while the block runs; then they all end well."""
    before = len(held.seen)
    tasks = [asyncio.ensure_future(request()) for request in requests]
    await held.until(before + len(requests))
    yield
    held.go.set()
    assert [response.status_code for response in await asyncio.gather(*tasks)] == [200] * len(requests)


async def test_one_command_too_many_of_a_session_is_told_when_to_come_again(held, http) -> None:
    async with open_requests(held, *[lambda: http.post(INPUTS.format("s-1"))] * 2):
        refused = await http.post(INPUTS.format("s-1"), json={"text": "hi"})

    assert refused.status_code == 429
    error = refused.json()["error"]
    assert (error["code"], error["retryable"]) == ("too_many_requests", True)
    assert error["message"].startswith("2 commands of this session are open")
    assert refused.headers["retry-after"] == "1"
    assert refused.headers["content-type"] == "application/json"
    assert len(held.seen) == 2  # it never came to the app


async def test_other_sessions_go_on_while_one_is_full(held, http) -> None:
    full = open_requests(held, *[lambda: http.post(INPUTS.format("s-1"))] * 2)
    other = open_requests(held, lambda: http.post(INPUTS.format("s-2")))

    async with full, other:
        assert len(held.seen) == 3


async def test_an_id_written_another_way_is_the_same_session(held, http) -> None:
    async with open_requests(held, *[lambda: http.post(INPUTS.format("s-1"))] * 2):
        refused = await http.post(INPUTS.format("%73-1"))

    assert refused.status_code == 429


async def test_viewers_that_wait_take_no_room_from_reads_and_commands(held, http) -> None:
    stream = {"accept": "text/event-stream"}
    async with open_requests(
        held,
        lambda: http.get(EVENTS.format("s-1"), headers=stream),
        lambda: http.get(EVENTS.format("s-1"), params={"wait_seconds": 20}),
        lambda: http.get(EVENTS.format("s-1")),
        lambda: http.post(INPUTS.format("s-1")),
    ):
        one_more_viewer = await http.get(EVENTS.format("s-1"), headers=stream)

    assert one_more_viewer.status_code == 429
    assert "2 event streams and long polls of this session" in one_more_viewer.json()["error"]["message"]


async def test_a_client_is_bounded_over_all_its_sessions(held, http) -> None:
    async with open_requests(held, *[lambda n=n: http.post(INPUTS.format(f"s-{n}")) for n in range(4)]):
        refused = await http.post(INPUTS.format("s-9"))

    assert refused.status_code == 429
    assert "4 commands of this client" in refused.json()["error"]["message"]


async def test_one_clients_flood_is_not_held_against_another(held) -> None:
    app = OpenRequests(held, limits=FEW)
    flooding = httpx.ASGITransport(app, client=("10.0.0.1", 1))
    other = httpx.ASGITransport(app, client=("10.0.0.2", 1))
    async with (
        httpx.AsyncClient(base_url="http://here", transport=flooding) as many,
        httpx.AsyncClient(base_url="http://here", transport=other) as one,
        open_requests(held, *[lambda n=n: many.post(INPUTS.format(f"s-{n}")) for n in range(4)]),
    ):
        assert (await many.post(INPUTS.format("s-9"))).status_code == 429
        async with open_requests(held, lambda: one.post(INPUTS.format("s-9"))):
            pass


async def test_a_request_that_ended_makes_room_even_if_it_failed(held, http) -> None:
    async def fail(*_: object) -> None:
        raise ConnectionResetError("the client left")

    app = OpenRequests(fail, limits=FEW)
    transport = httpx.ASGITransport(app, raise_app_exceptions=True)
    async with httpx.AsyncClient(base_url="http://here", transport=transport) as client:
        for _ in range(5):
            with pytest.raises(ConnectionResetError):
                await client.post(INPUTS.format("s-1"))

    assert not app._open


async def test_health_is_told_whatever_else_is_going_on(held, http) -> None:
    async with open_requests(held, *[lambda n=n: http.get(EVENTS.format(f"s-{n}")) for n in range(4)]):
        assert (await http.get("/")).status_code == 429
        async with open_requests(held, lambda: http.get("/healthz")):
            pass


async def test_nothing_has_changed_after_a_refusal(tmp_path: Path) -> None:
    none = Limits(session={"command": 0, "read": 1, "wait": 1})
    async with a_runtime(tmp_path) as runtime:
        transport = httpx.ASGITransport(create_app(runtime.service, limits=none))
        async with httpx.AsyncClient(base_url="http://127.0.0.1:8787", transport=transport) as client:
            refused = await client.post(INPUTS.format("s-1"), json={"text": "hi"})
            snapshot = (await client.get("/v1/sessions/s-1")).json()

    assert refused.status_code == 429
    assert snapshot["state"] is None
