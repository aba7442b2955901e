"""The one `Session` object: the same methods in the process of the runtime and over HTTP.

It holds no state of its own besides ids; two objects of the same id are the same session.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from perdure.errors import StoreUnavailableError

if TYPE_CHECKING:
    from perdure.service import Caller, Service

JsonObject = dict[str, Any]

POLL_SECONDS = 20.0
"""How long one request waits for events, in seconds: the longest that the events route allows (surface §4.1)."""

READ_RETRY_DELAYS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Waits in seconds before a failed read of events is tried again; about 16 s in all, a server's restart."""

TURN_ENDS = frozenset({"turn_completed", "turn_failed", "turn_cancelled"})


class SessionApi(Protocol):
    """The operations of one caller, in this process or over HTTP. They return the bodies of surface §4."""

    async def send_input(
        self,
        session_id: str,
        *,
        text: str,
        message_id: str | None = None,
        agent: str | None = None,
        metadata: JsonObject | None = None,
        files: Sequence[JsonObject] = (),
        idempotency_key: str | None = None,
    ) -> JsonObject: ...

    async def resolve_interrupt(
        self,
        session_id: str,
        interrupt_id: str,
        *,
        approved: bool | None = None,
        answer: str | None = None,
        message: str | None = None,
        arguments_hash: str | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject: ...

    async def stop(
        self,
        session_id: str,
        *,
        turn_id: str | None = None,
        frontier: str | None = None,
        disposition: str = "keep",
        idempotency_key: str | None = None,
    ) -> JsonObject: ...

    async def snapshot(self, session_id: str) -> JsonObject: ...

    async def messages(self, session_id: str, *, before: str | None = None, limit: int = 50) -> JsonObject: ...

    async def events(
        self, session_id: str, *, after: str | None = None, limit: int = 500, wait_seconds: float = 0
    ) -> JsonObject: ...

    async def inbox(self, session_id: str) -> JsonObject: ...


class BoundService:
    """The service of this process, bound to one caller: a `SessionApi`."""

    def __init__(self, service: Service, caller: Caller) -> None:
        self._service = service
        self._caller = caller

    async def send_input(self, session_id: str, **arguments: Any) -> JsonObject:
        return await self._service.send_input(self._caller, session_id, **arguments)

    async def resolve_interrupt(self, session_id: str, interrupt_id: str, **arguments: Any) -> JsonObject:
        return await self._service.resolve_interrupt(self._caller, session_id, interrupt_id, **arguments)

    async def stop(self, session_id: str, **arguments: Any) -> JsonObject:
        return await self._service.stop(self._caller, session_id, **arguments)

    async def snapshot(self, session_id: str) -> JsonObject:
        return await self._service.snapshot(self._caller, session_id)

    async def messages(self, session_id: str, **arguments: Any) -> JsonObject:
        return await self._service.messages(self._caller, session_id, **arguments)

    async def events(self, session_id: str, **arguments: Any) -> JsonObject:
        return await self._service.events(self._caller, session_id, **arguments)

    async def inbox(self, session_id: str) -> JsonObject:
        return await self._service.inbox(self._caller, session_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Proof that a message was accepted and is durable.

    Attributes:
        turn_id: The turn that it started; None while it waits behind a running one.
        delivered_as: How it was delivered: `queue`.
        duplicate: Whether this message had been accepted before.
        cursor: Stands right before the first event that the message causes.
    """

    message_id: str
    delivered_as: str
    duplicate: bool
    cursor: str
    turn_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEvent:
    """One event of a session (types and payloads: surface §4.2).

    Attributes:
        sequence: 1, 2, 3 … per session for durable events; None for live progress.
        cursor: Stands right behind this event; `events(after=…)` goes on from there.
        at: When it happened, as RFC 3339 text.
    """

    type: str
    cursor: str
    at: str
    payload: JsonObject
    sequence: int | None = None
    turn_id: str | None = None
    step_execution_id: str | None = None
    attempt: int | None = None


class Session:
    """One session. It comes into being with its first message.

    Every command raises a `RequestError` for what the caller did wrong, and `StoreUnavailableError` when no answer
    came: then nobody knows whether it was carried out. Commands are never repeated by themselves; repeating one with
    the `idempotency_key` that the error carries is safe.
    """

    def __init__(
        self,
        api: SessionApi,
        session_id: str,
        *,
        agent: str | None = None,
        new_key: Callable[[], str] = lambda: secrets.token_hex(16),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.session_id = session_id
        self.agent = agent
        self._api = api
        self._new_key = new_key
        self._sleep = sleep

    async def send(
        self,
        text: str,
        *,
        idempotency_key: str | None = None,
        message_id: str | None = None,
        agent: str | None = None,
        metadata: JsonObject | None = None,
        files: Sequence[JsonObject] = (),
    ) -> Receipt:
        """Send a message; it starts a turn, or waits for its own behind the running one.

        Args:
            idempotency_key: At most 256 characters; the same key and content again is accepted once. A new one is
                made when absent.
            message_id: Your id for the message; ours when absent.
            agent: None: the session's, or the first agent for a new session.
            metadata: JSON of at most 16 KiB that comes back with the message.
            files: At most 20 references: `{"reference": …, "media_type"?: …, "name"?: …}`.
        """
        key = self._key(idempotency_key)
        reply = await _with_key(
            key,
            self._api.send_input(
                self.session_id,
                text=text,
                message_id=message_id,
                agent=self.agent if agent is None else agent,
                metadata=metadata,
                files=files,
                idempotency_key=key,
            ),
        )
        return Receipt(**_fields(reply, Receipt))

    async def events(self, after: str | None = None, *, follow: bool = False) -> AsyncIterator[SessionEvent]:
        """Yield the events after a cursor as they happen.

        Ends with the turn: behind a receipt's cursor that is the turn of that message, even if it waits behind
        another turn first; elsewhere it is the first turn that ends. Reads that fail are tried again.

        Args:
            after: A cursor; None: the oldest event that is kept.
            follow: Never end.
        """
        ending = TurnEnding()
        cursor = after
        while True:
            page = await self._read_events(cursor)
            for item in page["events"]:
                event = SessionEvent(**_fields(item, SessionEvent))
                yield event
                if ending.reached_by(event) and not follow:
                    return
            cursor = page["cursor"]

    async def resolve(
        self,
        interrupt_id: str,
        *,
        approved: bool,
        message: str | None = None,
        arguments_hash: str | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Approve or reject a tool call. Returns `{"result": "resolved"}`.

        Args:
            message: A word to the model, with either decision.
            arguments_hash: Of the arguments that were shown; a decision on others is refused.
        """
        key = self._key(idempotency_key)
        return await _with_key(
            key,
            self._api.resolve_interrupt(
                self.session_id,
                interrupt_id,
                approved=approved,
                message=message,
                arguments_hash=arguments_hash,
                idempotency_key=key,
            ),
        )

    async def answer(self, interrupt_id: str, text: str, *, idempotency_key: str | None = None) -> JsonObject:
        """Answer a question. Returns `{"result": "resolved"}`."""
        key = self._key(idempotency_key)
        return await _with_key(
            key, self._api.resolve_interrupt(self.session_id, interrupt_id, answer=text, idempotency_key=key)
        )

    async def stop(
        self,
        turn_id: str | None = None,
        frontier: str | None = None,
        disposition: str = "keep",
        *,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Stop a turn. Returns `{"result": …}` (surface §4). Leaving or closing a stream never stops anything.

        Args:
            turn_id: None: the running one, whichever it is.
            frontier: Not supported yet; anything but None is an `InvalidRequestError`.
            disposition: `keep`: what was shown stays in the transcript.
        """
        key = self._key(idempotency_key)
        return await _with_key(
            key,
            self._api.stop(
                self.session_id, turn_id=turn_id, frontier=frontier, disposition=disposition, idempotency_key=key
            ),
        )

    async def snapshot(self) -> JsonObject:
        """Return the session as it is now (surface §4); `state` is None for one that was never written."""
        return await self._api.snapshot(self.session_id)

    async def messages(self, before: str | int | None = None, limit: int = 50) -> JsonObject:
        """Return `{messages, next_before?}`, oldest first: the newest `limit`, or those before a place.

        Args:
            before: A message's sequence, or a `next_before`.
            limit: 1 to 200, clamped.
        """
        place = None if before is None else str(before)
        return await self._api.messages(self.session_id, before=place, limit=limit)

    async def event_page(self, after: str | None = None, limit: int = 500) -> JsonObject:
        """Return `{events, cursor}` without waiting: a page of events as the wire has them; an empty one is the end.

        Args:
            after: A cursor; None: the oldest event that is kept.
            limit: 1 to 500, clamped.
        """
        return await self._api.events(self.session_id, after=after, limit=limit)

    async def inbox(self) -> JsonObject:
        """Return `{entries}`: the messages that wait for their turn, in order."""
        return await self._api.inbox(self.session_id)

    async def _read_events(self, after: str | None) -> JsonObject:
        for delay in READ_RETRY_DELAYS:
            try:
                return await self._api.events(self.session_id, after=after, wait_seconds=POLL_SECONDS)
            except StoreUnavailableError:
                await self._sleep(delay)
        return await self._api.events(self.session_id, after=after, wait_seconds=POLL_SECONDS)

    def _key(self, given: str | None) -> str:
        return self._new_key() if given is None else given


class TurnEnding:
    """Tells when the turn that a reader of events waits for is over.

    The first event behind a receipt's cursor is `turn_started` or `message_queued`, and both name the message; a
    queued message's turn is found when it starts.
    """

    def __init__(self) -> None:
        self._begun = False
        self._message_id: str | None = None
        self._turn_id: str | None = None

    def reached_by(self, event: SessionEvent) -> bool:
        """Take the next event; return whether the turn is over with it."""
        if not self._begun and event.type == "message_queued":
            self._message_id = event.payload.get("message_id")
        self._begun = True
        if event.type == "turn_started" and self._message_id is not None:
            if event.payload.get("message_id") == self._message_id:
                self._turn_id, self._message_id = event.turn_id, None
            return False
        if event.type not in TURN_ENDS or self._message_id is not None:
            return False
        return self._turn_id is None or event.turn_id == self._turn_id


async def _with_key(key: str, command: Awaitable[JsonObject]) -> JsonObject:
    """Carry out a command; when its answer is lost, the error tells with which key it may be repeated."""
    try:
        return await command
    except StoreUnavailableError as error:
        error.idempotency_key = key
        raise


def _fields(reply: JsonObject, kind: type[Any]) -> JsonObject:
    """Return what a value of ours knows of a reply; a newer server may tell more."""
    return {name: reply[name] for name in kind.__dataclass_fields__ if name in reply}
