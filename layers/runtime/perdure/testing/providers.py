"""A chat-completions provider on this machine that fails on demand (spec TEST-06).

In tests it is an async context manager, scripted request by request:

    async with FaultProvider([answer("The total").cut(2), answer("The total is 4100.")]) as provider:
        model = OpenAIChatModel("stub", base_url=provider.base_url)

As a program it answers conversations by itself, so that any process can use it through `OPENAI_BASE_URL`; what it says
is described at `perdure.testing.conversation.converse`:

    python -m perdure.testing.providers --port 8099
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from perdure.testing.conversation import converse
from perdure.testing.provider_plans import (
    Hangup,
    HttpError,
    Plan,
    Stream,
    answer,
    events,
    usage_event,
    wants,
)
from perdure.testing.provider_rules import violations

__all__ = ["FaultProvider", "Hangup", "HttpError", "Received", "Stream", "answer", "events", "wants"]

JsonObject = dict[str, Any]
Script = Callable[[JsonObject], Plan]

_PATH = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Received:
    """One request. Header names are in lower case."""

    body: JsonObject
    headers: dict[str, str]


class FaultProvider:
    """Speaks chat completions over SSE on a loopback port.

    Args:
        script: A plan for each request in order, or a function of the request's body. A request more than there are
            plans is answered with HTTP 599.
        strict: Refuse with 400 what the strictest providers refuse (`provider_rules`); refused requests use up no plan.
        port: 0: any free one.
        record: A file that every request's body is appended to, one JSON text a line.

    Attributes:
        requests: Everything that came, in order, refused requests included.
        refusals: Why requests were refused.
        connections: How many connections were opened.
        departures: How many clients left before their answer had ended.
    """

    def __init__(
        self,
        script: Sequence[Plan] | Script = (),
        *,
        strict: bool = True,
        port: int = 0,
        record: Path | None = None,
    ) -> None:
        self.requests: list[Received] = []
        self.refusals: list[str] = []
        self.connections = 0
        self.departures = 0
        self._next: Script = script if callable(script) else _in_order(script)
        self._strict = strict
        self._port = port
        self._record = record
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._paused = asyncio.Event()
        self._released = asyncio.Event()
        self._departed = asyncio.Event()

    @property
    def base_url(self) -> str:
        """What `OPENAI_BASE_URL` has to be."""
        return f"http://127.0.0.1:{self._port}/v1"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def paused(self) -> None:
        """Return when an answer has come to its pause."""
        await self._paused.wait()

    def release(self) -> None:
        """Let all paused answers go on, now and later."""
        self._released.set()

    async def departed(self) -> None:
        """Return when a client has left before its answer had ended."""
        await self._departed.wait()

    # --- connections -------------------------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client is gone
        except asyncio.CancelledError:
            pass  # the server is closing; a task of asyncio's server must not end as cancelled
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False ends the connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        fields = (line.partition(":") for line in head[1:] if line)
        headers = {name.lower(): value.strip() for name, _, value in fields}
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        plan = self._plan(method, path, raw, headers)
        if isinstance(plan, Hangup):
            return False
        if isinstance(plan, HttpError):
            return await _send_error(writer, plan)
        return await self._send_stream(reader, writer, plan)

    def _plan(self, method: str, path: str, raw: bytes, headers: dict[str, str]) -> Plan:
        if (method, path) != ("POST", _PATH):
            return HttpError(status=404, message=f"only POST {_PATH} is here")
        try:
            body = json.loads(raw)
        except ValueError:
            return HttpError(status=400, code="invalid_request_error", message="the body is no JSON")
        self.requests.append(Received(body, headers))
        if self._record:
            with self._record.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(body)}\n")
        refused = violations(body) if self._strict else []
        if not body.get("stream"):
            refused.append("only streams are spoken here")
        if refused:
            self.refusals += refused
            return HttpError(status=400, code="invalid_request_error", message="; ".join(refused))
        plan = self._next(body)
        if (
            isinstance(plan, Stream)
            and plan.usage is not None
            and (body.get("stream_options") or {}).get("include_usage")
        ):
            return replace(plan, events=(*plan.events, usage_event(plan.usage)))
        return plan

    async def _send_stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, plan: Stream) -> bool:
        ends = ("[DONE]",) if plan.done else ()
        try:
            for place, data in enumerate((*plan.events, *ends, None)):
                if place == plan.pause_after:
                    await self._pause(reader)
                if place == 0:
                    _send_head(writer, 200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
                if data is None:
                    break
                if plan.delay_seconds:
                    await asyncio.sleep(plan.delay_seconds)
                event = f"data: {data}\n\n".encode()
                writer.write(b"%x\r\n%b\r\n" % (len(event), event))
                await writer.drain()
        except ConnectionError:
            self.departures += 1
            self._departed.set()
            raise
        if plan.abrupt:
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _pause(self, reader: asyncio.StreamReader) -> None:
        """Wait for `release`, or until the client hangs up: it has nothing to say before its answer has ended."""
        self._paused.set()
        leaving = asyncio.create_task(reader.read(1))
        released = asyncio.create_task(self._released.wait())
        waits: set[asyncio.Task[Any]] = {leaving, released}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            left = leaving.done()
        finally:
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        if left:
            raise ConnectionResetError("the client left during the pause")


def _in_order(plans: Sequence[Plan]) -> Script:
    left: Iterator[Plan] = iter(plans)
    return lambda _body: next(left, HttpError(status=599, message="the script has no plan for this request"))


def _send_head(writer: asyncio.StreamWriter, status: int, headers: dict[str, str]) -> None:
    known = {member.value for member in HTTPStatus}
    phrase = HTTPStatus(status).phrase if status in known else "Error"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write("".join(f"{line}\r\n" for line in lines).encode("latin-1") + b"\r\n")


async def _send_error(writer: asyncio.StreamWriter, plan: HttpError) -> bool:
    error = {"error": {"message": plan.message, "type": plan.code, "code": plan.code}}
    body = json.dumps(error).encode() if plan.body is None else plan.body
    fixed = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    _send_head(writer, plan.status, fixed | dict(plan.headers))
    writer.write(body)
    await writer.drain()
    return True


# --- the program ---------------------------------------------------------------------------------------------------


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m perdure.testing.providers",
        description="A chat-completions provider on this machine that needs no key and answers by fixed rules.",
    )
    parser.add_argument("--port", type=int, default=0, help="loopback port; 0 takes a free one")
    parser.add_argument("--delay-ms", type=int, default=0, help="wait before each event of an answer")
    parser.add_argument("--cut-every", type=int, default=0, metavar="N", help="cut every Nth answer in the middle")
    parser.add_argument("--record", type=Path, help="file to append each request's body to, one JSON text a line")
    parser.add_argument("--lenient", action="store_true", help="take what strict providers refuse")
    return parser.parse_args(argv)


def _program_script(delay_seconds: float, cut_every: int) -> Script:
    answered = 0

    def script(body: JsonObject) -> Plan:
        nonlocal answered
        answered += 1
        stream = replace(converse(body), delay_seconds=delay_seconds)
        return stream.cut(len(stream.events) // 2) if cut_every and answered % cut_every == 0 else stream

    return script


async def serve(argv: Sequence[str] | None = None) -> None:
    """Run the program until it is cancelled. Prints `ready <base URL>` when it listens."""
    options = _arguments(argv)
    script = _program_script(options.delay_ms / 1000, options.cut_every)
    provider = FaultProvider(script, strict=not options.lenient, port=options.port, record=options.record)
    async with provider:
        print(f"ready {provider.base_url}", flush=True)  # noqa: T201 - other processes wait for this line
        await asyncio.Event().wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())
