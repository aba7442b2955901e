"""The one `Session` object: the same methods in the process of the runtime and over HTTP.

It holds no state of its own besides ids; two objects of the same id are the same session.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from perdure.core.ids import event_message_id
from perdure.core.outputs import OUTPUT_CHARACTERS
from perdure.patient_reads import patiently
from perdure.run import SessionRuns
from perdure.session_approvals import ApprovalApi, BoundApprovals, SessionApprovals
from perdure.session_controls import BoundControls, ControlApi, SessionControls, with_key
from perdure.session_schedules import BoundSchedules, ScheduleApi, SessionSchedules
from perdure.session_waits import BoundWaits, SessionWaits, WaitApi

JsonObject = dict[str, Any]

POLL_SECONDS = 20.0
"""How long one request waits for events, in seconds: the longest that the events route allows (surface §4.1)."""

TURN_ENDS = frozenset({"turn_completed", "turn_failed", "turn_cancelled", "turn_steered"})


class SessionApi(ControlApi, WaitApi, ScheduleApi, ApprovalApi, Protocol):
    """The operations of one caller, in this process or over HTTP. They return the bodies of surface §4."""

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
    ) -> JsonObject: ...

    async def snapshot(self, session_id: str) -> JsonObject: ...

    async def messages(self, session_id: str, *, before: str | None = None, limit: int = 50) -> JsonObject: ...

    async def turn(self, session_id: str, turn_id: str) -> JsonObject: ...

    async def events(
        self, session_id: str, *, after: str | None = None, limit: int = 500, wait_seconds: float = 0
    ) -> JsonObject: ...

    async def inbox(self, session_id: str) -> JsonObject: ...

    async def tool_output(
        self, session_id: str, tool_call_id: str, *, offset: int = 0, limit: int = OUTPUT_CHARACTERS
    ) -> JsonObject: ...


class BoundService(BoundControls, BoundWaits, BoundSchedules, BoundApprovals):
    """The service of this process, bound to one caller: a `SessionApi`."""

    async def send_input(self, session_id: str, **arguments: Any) -> JsonObject:
        return await self._service.send_input(self._caller, session_id, **arguments)

    async def snapshot(self, session_id: str) -> JsonObject:
        return await self._service.snapshot(self._caller, session_id)

    async def messages(self, session_id: str, **arguments: Any) -> JsonObject:
        return await self._service.messages(self._caller, session_id, **arguments)

    async def turn(self, session_id: str, turn_id: str) -> JsonObject:
        return await self._service.turn(self._caller, session_id, turn_id)

    async def events(self, session_id: str, **arguments: Any) -> JsonObject:
        return await self._service.events(self._caller, session_id, **arguments)

    async def inbox(self, session_id: str) -> JsonObject:
        return await self._service.inbox(self._caller, session_id)

    async def tool_output(self, session_id: str, tool_call_id: str, **arguments: Any) -> JsonObject:
        return await self._service.tool_output(self._caller, session_id, tool_call_id, **arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Proof that a message was accepted and is durable.

    Attributes:
        turn_id: The turn that it started; None while it waits.
        delivered_as: How it was delivered: as asked, or `queue` when there was nothing to join, steer or stop; `answer`
            when it answered the open question `interrupt_id`.
        duplicate: Whether this message had been accepted before.
        cursor: Stands right before the first event that the message causes.
    """

    message_id: str
    delivered_as: str
    duplicate: bool
    cursor: str
    turn_id: str | None = None
    interrupt_id: str | None = None


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


class Session(SessionRuns, SessionControls, SessionWaits, SessionSchedules, SessionApprovals):
    """One session. It comes into being with its first message, or with `start`.

    Every command raises a `RequestError` for what the caller did wrong, and `StoreUnavailableError` when no answer
    came: then nobody knows whether it was carried out, and `UnsettledError` says what ran. Commands are never repeated
    by themselves; repeating one with the `idempotency_key` that the error carries is safe.
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
        super().__init__(api, session_id, new_key)
        self.agent = agent
        self._api = api
        self._waits = api
        self._schedules = api
        self._approvals = api
        self._sleep = sleep

    async def start(self, settings: JsonObject | None = None, *, idempotency_key: str | None = None) -> JsonObject:
        """Begin the session without a message: it is there, with its agent and settings, and waits for the first one.

        Returns `{"result": "recorded"}`; of a session that is there `already_recorded`, and nothing has changed.
        """
        key = self._key(idempotency_key)
        agent = self.agent
        return await with_key(
            key, self._api.start(self.session_id, agent=agent, settings=settings, idempotency_key=key)
        )

    async def send(
        self,
        text: str,
        *,
        idempotency_key: str | None = None,
        message_id: str | None = None,
        agent: str | None = None,
        delivery: str | None = None,
        metadata: JsonObject | None = None,
        files: Sequence[JsonObject] = (),
        settings: JsonObject | None = None,
        run_settings: JsonObject | None = None,
        source: str = "person",
    ) -> Receipt:
        """Send a message; it starts a turn, waits for its own, or does to the running one what its delivery says.

        Args:
            idempotency_key: At most 256 characters; the same key and content again is accepted once. A new one is
                made when absent.
            message_id: Your id for the message; ours when absent.
            agent: None: the session's, or the first agent for a new session.
            delivery: `queue`, `inject`, `steer`, `interrupt`, `interrupt_next`, `supersede` or `passive`; None: as the
                agent's inbox says (docs/concepts/control.md).
            metadata: JSON of at most 16 KiB that comes back with the message.
            files: At most 20 references: `{"reference": …, "media_type"?: …, "name"?: …}`.
            settings: Makes these the session's settings, in the same commit.
            run_settings: Settings on top of the session's, for this message's own turn alone.
            source: Who wrote it. Trusted code in this process may say `webhook`, `schedule`, `agent` or `application`.
        """
        key = self._key(idempotency_key)
        reply = await with_key(
            key,
            self._api.send_input(
                self.session_id,
                text=text,
                message_id=message_id,
                agent=self.agent if agent is None else agent,
                delivery=delivery,
                metadata=metadata,
                files=files,
                settings=settings,
                run_settings=run_settings,
                source=source,
                idempotency_key=key,
            ),
        )
        return Receipt(**_fields(reply, Receipt))

    async def append(
        self,
        text: str,
        *,
        event_id: str,
        source: str = "application",
        agent: str | None = None,
        delivery: str | None = None,
        metadata: JsonObject | None = None,
        files: Sequence[JsonObject] = (),
    ) -> Receipt:
        """Send a message for a job or an event, once however often it is tried; for trusted code in this process.

        When it returns, whoever looks at the session sees the message.

        Args:
            event_id: Of what triggered it; the message's id is made of it, so that a second try is a `duplicate`.
            source: `webhook`, `schedule`, `agent` or `application`.
        """
        return await self.send(
            text,
            message_id=event_message_id(source, event_id),
            agent=agent,
            delivery=delivery,
            metadata=metadata,
            files=files,
            source=source,
        )

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

    async def turn(self, turn_id: str) -> JsonObject:
        """Return one turn by itself, whose cost does not grow with the session's history.

        `{turn_id, status, started_at, ended_at?, message_ids, answer?, error?, reason?, tool_calls, usage, cursor}`:
        `status` is `running` or how it ended (`state.last_turn`), `answer` the agent's message that it ended with,
        and `cursor` stands right before its first event.

        Raises:
            NotFoundError: `turn_not_found`.
        """
        return await self._api.turn(self.session_id, turn_id)

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

    async def tool_output(self, tool_call_id: str, offset: int = 0, limit: int = OUTPUT_CHARACTERS) -> JsonObject:
        """Return `{output, total_characters, sha256, next_offset?}`: a piece of what a finished call's tool put out.

        Args:
            offset: In characters from its start.
            limit: 1 to 500,000 characters, clamped.
        """
        return await self._api.tool_output(self.session_id, tool_call_id, offset=offset, limit=limit)

    async def _read_events(self, after: str | None) -> JsonObject:
        return await patiently(
            lambda: self._api.events(self.session_id, after=after, wait_seconds=POLL_SECONDS), self._sleep
        )


class TurnEnding:
    """Tells when the turn that a reader of events waits for is over.

    Behind a receipt's cursor comes what its message did to the turn that ran, if anything, and then `turn_started` or
    `message_queued`, which name the message. A waiting message's turn is the one that starts with it or that it joins;
    taken back, it has none.
    """

    def __init__(self) -> None:
        self._begun = False
        self._message_id: str | None = None
        self._turn_id: str | None = None

    def reached_by(self, event: SessionEvent) -> bool:
        """Take the next event; return whether the turn is over with it."""
        if not self._begun:
            if _makes_way(event):
                return False
            self._begun = True
            if event.type == "message_queued":
                self._message_id = event.payload.get("message_id")
        if self._message_id is not None:
            return self._found_by(event, self._message_id)
        return event.type in TURN_ENDS

    def _found_by(self, event: SessionEvent, message_id: str) -> bool:
        """Look for the turn of a message that waits; it waits again when that turn ends without answering it."""
        named = {event.payload.get("message_id"), *event.payload.get("message_ids", ())}
        if event.type in ("turn_started", "inbox.joined") and message_id in named:
            self._turn_id = event.turn_id
        elif event.type in TURN_ENDS and self._turn_id is not None and event.turn_id == self._turn_id:
            if message_id not in event.payload.get("rehomed", ()):
                return True
            self._turn_id = None
        return event.type == "message_removed" and message_id in named


def _makes_way(event: SessionEvent) -> bool:
    """Whether an event tells of a turn or a hold that gives way to the message whose commit it is of."""
    return (
        event.type in ("turn_steered", "hold.released")
        or event.payload.get("reason") in ("interrupted", "superseded")
        or event.payload.get("cancellation_reason") in ("steered", "turn_cancelled")
    )


def _fields(reply: JsonObject, kind: type[Any]) -> JsonObject:
    """Return what a value of ours knows of a reply; a newer server may tell more."""
    return {name: reply[name] for name in kind.__dataclass_fields__ if name in reply}
