"""`perdure.connect`: sessions over HTTP, with the same `Session` object and the same errors as in one process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from perdure.core.listing import SessionSearch
from perdure.core.outputs import OUTPUT_CHARACTERS
from perdure.errors import (
    ConfigurationError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    PerdureError,
    RequestConflictError,
    RequestError,
    StaleSessionError,
    StoreUnavailableError,
    TooLargeError,
    TooManyRequestsError,
    UnauthorizedError,
    UnsettledError,
    UnsupportedMediaTypeError,
)
from perdure.http_requests import headers, json_bytes_of, path_of, trusted
from perdure.http_schedules import HttpSchedules
from perdure.session import Session

if TYPE_CHECKING:
    import httpx

JsonObject = dict[str, Any]

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 35.0
"""Longest wait for an answer, in seconds: longer than a gateway's own 30, which also covers a 20 s poll."""

_ERRORS: dict[int, type[RequestError]] = {
    400: InvalidRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: RequestConflictError,
    413: TooLargeError,
    415: UnsupportedMediaTypeError,
    429: TooManyRequestsError,
}


class Client:
    """A connection to a Perdure server. Use it as an async context manager, or `await client.aclose()`."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._api = HttpApi(http)
        self._http = http

    def session(self, session_id: str, *, agent: str | None = None) -> Session:
        """Return a session by its id; it comes into being with its first message.

        Args:
            session_id: `[A-Za-z0-9._:-]{1,128}`.
            agent: Which agent a new session gets; None: the server's first one.
        """
        return Session(self._api, session_id, agent=agent)

    async def sessions(
        self, *, cursor: str | None = None, limit: int = 50, **search: Unpack[SessionSearch]
    ) -> JsonObject:
        """Return `{sessions, next_cursor?}`, newest activity first; `limit` is 1 to 200, clamped.

        Args:
            search: As of `EmbeddedRuntime.sessions`: `query`, `waiting_for`, `status`, `agent`.
        """
        return await self._api.list_sessions(cursor=cursor, limit=limit, **search)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def connect(url: str, token: str | None = None, *, transport: httpx.AsyncBaseTransport | None = None) -> Client:
    """Return a client for a server: `async with perdure.connect("https://…", token=…) as client`.

    Nothing is sent until the first call.

    Args:
        url: `http://` or `https://`, with the stage's path if there is one.
        token: Bearer token of a deployment; the development server needs none.
        transport: How requests are sent; httpx's own by default.

    Raises:
        ConfigurationError: The URL is none, or httpx is not installed.
    """
    try:
        import httpx
    except ImportError:
        raise ConfigurationError(
            "perdure.connect needs httpx, which is not installed: pip install 'perdure[http]'"
        ) from None
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"{url!r} is no address of a server: it starts with http:// or https://")
    headers = {"accept": "application/json"}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    try:
        http = httpx.AsyncClient(
            base_url=url.rstrip("/"),
            headers=headers,
            timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            transport=transport,
        )
    except (httpx.InvalidURL, UnicodeError) as error:
        raise ConfigurationError(f"{url!r} or its token can't be used: {error}") from None
    return Client(http)


class HttpApi(HttpSchedules):
    """The operations over HTTP: a `SessionApi`. One call is one request, never repeated (spec API-08)."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def send_input(
        self,
        session_id: str,
        *,
        text: str,
        message_id: str | None = None,
        agent: str | None = None,
        delivery: str | None = None,
        metadata: JsonObject | None = None,
        files: Sequence[JsonObject] = (),
        settings: JsonObject | None = None,
        run_settings: JsonObject | None = None,
        source: str = "person",
        idempotency_key: str | None = None,
    ) -> JsonObject:
        if source != "person":
            raise trusted("say who but a person wrote a message")
        body: JsonObject = {"text": text, "message_id": message_id, "agent": agent, "metadata": metadata}
        body |= {"delivery": delivery, "settings": settings, "run_settings": run_settings}
        body["files"] = list(files) or None
        return await self._send("POST", path_of(session_id, "inputs"), body, idempotency_key)

    async def resolve_interrupt(
        self,
        session_id: str,
        interrupt_id: str,
        *,
        approved: bool | None = None,
        answer: str | None = None,
        message: str | None = None,
        arguments_hash: str | None = None,
        arguments: JsonObject | None = None,
        grant: JsonObject | None = None,
        value: Any = None,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        body: JsonObject = {"approved": approved, "answer": answer, "message": message, "value": value}
        body |= {"arguments_hash": arguments_hash, "arguments": arguments, "grant": grant}
        return await self._send("POST", path_of(session_id, "interrupts", interrupt_id), body, idempotency_key)

    async def stop(
        self,
        session_id: str,
        *,
        turn_id: str | None = None,
        message_id: str | None = None,
        step_execution_id: str | None = None,
        frontier: str | None = None,
        disposition: str = "keep",
        idempotency_key: str | None = None,
    ) -> JsonObject:
        body = {"turn_id": turn_id, "message_id": message_id, "step_execution_id": step_execution_id}
        body |= {"frontier": frontier, "disposition": disposition}
        return await self._send("POST", path_of(session_id, "stop"), body, idempotency_key)

    async def retry(self, session_id: str, *, retry_id: str, idempotency_key: str | None = None) -> JsonObject:
        return await self._send("POST", path_of(session_id, "retry"), {"retry_id": retry_id}, idempotency_key)

    async def start(
        self,
        session_id: str,
        *,
        agent: str | None = None,
        settings: JsonObject | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        return await self._send("PUT", path_of(session_id), {"agent": agent, "settings": settings}, idempotency_key)

    async def set_title(self, session_id: str, title: str, *, idempotency_key: str | None = None) -> JsonObject:
        return await self._send("PUT", path_of(session_id, "title"), {"title": title}, idempotency_key)

    async def pause(self, session_id: str, *, idempotency_key: str | None = None) -> JsonObject:
        return await self._send("POST", path_of(session_id, "pause"), {}, idempotency_key)

    async def resume(self, session_id: str, *, idempotency_key: str | None = None) -> JsonObject:
        return await self._send("POST", path_of(session_id, "resume"), {}, idempotency_key)

    async def update_settings(
        self, session_id: str, settings: JsonObject, *, idempotency_key: str | None = None
    ) -> JsonObject:
        return await self._request(
            "PUT", path_of(session_id, "settings"), content=json_bytes_of(settings), headers=headers(idempotency_key)
        )

    async def edit(
        self, session_id: str, message_id: str, *, text: str, idempotency_key: str | None = None
    ) -> JsonObject:
        return await self._send("PATCH", path_of(session_id, "inbox", message_id), {"text": text}, idempotency_key)

    async def move(
        self,
        session_id: str,
        message_id: str,
        *,
        before: str | None = None,
        after: str | None = None,
        position: str | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        body = {"before": before, "after": after, "position": position}
        return await self._send("PATCH", path_of(session_id, "inbox", message_id), body, idempotency_key)

    async def remove(self, session_id: str, message_id: str, *, idempotency_key: str | None = None) -> JsonObject:
        return await self._send("DELETE", path_of(session_id, "inbox", message_id), None, idempotency_key)

    async def deliver(
        self, session_id: str, message_id: str, *, delivery: str, idempotency_key: str | None = None
    ) -> JsonObject:
        path = path_of(session_id, "inbox", message_id, "deliver")
        return await self._send("POST", path, {"delivery": delivery}, idempotency_key)

    async def waits(self, session_id: str) -> JsonObject:
        return await self._get(path_of(session_id, "waits"), {})

    async def skip_wait(self, session_id: str, wait_id: str, *, idempotency_key: str | None = None) -> JsonObject:
        return await self._send("POST", path_of(session_id, "waits", wait_id, "skip"), {}, idempotency_key)

    async def change_wait(
        self, session_id: str, wait_id: str, *, until: str | datetime | None, idempotency_key: str | None = None
    ) -> JsonObject:
        said = until.isoformat() if isinstance(until, datetime) else until
        return await self._request(
            "PATCH",
            path_of(session_id, "waits", wait_id),
            content=json_bytes_of({"until": said}),
            headers=headers(idempotency_key),
        )

    async def cancel_wait(self, session_id: str, wait_id: str, *, idempotency_key: str | None = None) -> JsonObject:
        return await self._send("DELETE", path_of(session_id, "waits", wait_id), None, idempotency_key)

    async def send_event(self, *_: Any, **__: Any) -> JsonObject:
        raise trusted("bring a tool an event")

    async def bring_result(self, *_: Any, **__: Any) -> JsonObject:
        raise trusted("bring a call's result")

    async def approval_request(self, *_: Any, **__: Any) -> JsonObject:
        raise trusted("sign an approval")

    async def approval_response(self, *_: Any, **__: Any) -> JsonObject:
        raise trusted("decide by a signed approval")

    async def abandon(self, *_: Any, **__: Any) -> JsonObject:
        raise trusted("abandon a run")

    async def close_session(self, *_: Any, **__: Any) -> JsonObject:
        raise trusted("close a session or open it again")

    async def seed(self, *_: Any, **__: Any) -> JsonObject:
        raise trusted("import a history")

    async def snapshot(self, session_id: str) -> JsonObject:
        return await self._get(path_of(session_id), {})

    async def messages(self, session_id: str, *, before: str | None = None, limit: int = 50) -> JsonObject:
        return await self._get(path_of(session_id, "messages"), {"before": before, "limit": limit})

    async def turn(self, session_id: str, turn_id: str) -> JsonObject:
        return await self._get(path_of(session_id, "turns", turn_id), {})

    async def events(
        self, session_id: str, *, after: str | None = None, limit: int = 500, wait_seconds: float = 0
    ) -> JsonObject:
        query = {"after": after, "limit": limit, "wait_seconds": wait_seconds}
        return await self._get(path_of(session_id, "events"), query)

    async def inbox(self, session_id: str) -> JsonObject:
        return await self._get(path_of(session_id, "inbox"), {})

    async def tool_output(
        self, session_id: str, tool_call_id: str, *, offset: int = 0, limit: int = OUTPUT_CHARACTERS
    ) -> JsonObject:
        query = {"offset": offset, "limit": limit}
        return await self._get(path_of(session_id, "tool-calls", tool_call_id, "output"), query)

    async def list_sessions(
        self, *, cursor: str | None = None, limit: int = 50, **search: Unpack[SessionSearch]
    ) -> JsonObject:
        return await self._get("/v1/sessions", {"cursor": cursor, "limit": limit, **search})

    async def _get(self, path: str, query: JsonObject) -> JsonObject:
        return await self._request("GET", path, params={name: v for name, v in query.items() if v is not None})

    async def _send(self, method: str, path: str, body: JsonObject | None, idempotency_key: str | None) -> JsonObject:
        content = None if body is None else json_bytes_of({name: v for name, v in body.items() if v is not None})
        return await self._request(method, path, content=content, headers=headers(idempotency_key))

    async def _request(self, method: str, path: str, **request: Any) -> JsonObject:
        import httpx

        try:
            response = await self._http.request(method, path, **request)
        except httpx.TransportError as error:
            unknown = "" if method == "GET" else "; whether the request was carried out is not known"
            raise StoreUnavailableError(
                f"{self._http.base_url} gave no answer ({type(error).__name__}){unknown}"
            ) from error
        reply = _json_of(response)
        if response.is_success and isinstance(reply, dict):
            return reply
        raise error_of(response.status_code, reply)


def error_of(status: int, reply: Any) -> PerdureError:
    """Return the error that a response tells of, in the class that it would have had in one process.

    An answer that is not ours, of a proxy or a gateway, is judged by its status alone.
    """
    detail = reply.get("error") if isinstance(reply, dict) else None
    ours = isinstance(detail, dict) and isinstance(detail.get("code"), str)
    code = detail["code"] if isinstance(detail, dict) and ours else None
    message = str(detail.get("message", "")) if isinstance(detail, dict) and ours else f"the server answered {status}"
    if code == "stale_session":
        return StaleSessionError(message)
    if status in _ERRORS:
        return _ERRORS[status](message, code=code)
    if status == 500 and ours:
        return PerdureError(message, code=code)
    run = detail.get("run") if isinstance(detail, dict) and ours else None
    if isinstance(run, dict) and isinstance(run.get("session_id"), str):
        named = {name: run.get(name) for name in ("turn_id", "step_execution_id", "attempt")}
        return UnsettledError(message, session_id=run["session_id"], **named)
    return StoreUnavailableError(
        message if ours else f"{message}, and not in Perdure's words; whether the request was carried out is not known",
        code=code,
    )


def _json_of(response: httpx.Response) -> Any:
    try:
        return json.loads(response.content)
    except (ValueError, RecursionError):
        return None
