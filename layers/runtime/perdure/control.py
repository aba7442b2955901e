"""What people do to a session that runs: stop, retry, pause, settings, and the messages that wait in its inbox."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from perdure.checks import DISPOSITIONS, Caller, check_name, check_text, claims, json_bytes, session_key
from perdure.core.commands import Command, StopTurn
from perdure.core.control import already_delivered
from perdure.core.control_commands import (
    CloseSession,
    DeliverMessage,
    EditMessage,
    MoveMessage,
    PauseSession,
    RemoveMessage,
    ResumeSession,
    RetryTurn,
    StartSession,
    UpdateSettings,
)
from perdure.core.cursor import Cursor
from perdure.core.entries import Input, ReceiptClaim
from perdure.core.history import file_part
from perdure.core.ids import key_hash, version_of
from perdure.core.inbox import find
from perdure.core.limits import MAX_MESSAGE_ID
from perdure.core.title_commands import SetTitle
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError
from perdure.operations import Operations
from perdure.ports import SessionKey
from perdure.steps.commit import Executed

JsonObject = dict[str, Any]

EDIT_TRIES = 8
"""Lost races between two editors of one message before one of them hears of it. Our own choice."""


MAX_TITLE = 200
"""Longest title that a person gives, in characters. Our own choice: a line of a list."""


class ControlOperations(Operations):
    """The operations that change what a session does next. Every method raises `RequestError` for a caller's fault."""

    async def start(
        self,
        caller: Caller,
        session_id: str,
        *,
        agent: str | None = None,
        settings: JsonObject | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Begin a session without a message (spec SESS-01). Returns `{"result": …}`.

        `already_recorded`: it is known, and stays as it is, its settings included.
        """
        key = session_key(caller, session_id)
        self._check_agent(agent)
        if settings is not None:
            json_bytes(settings, "settings")
        receipts = claims(idempotency_key, {"operation": "start", "agent": agent, "settings": settings})
        command = StartSession(
            actor=caller.actor,
            default_agent=self._deps.agents.default.name,
            agent=agent,
            settings=settings,
            receipts=receipts,
        )
        return (await self._execute(caller, key, command)).reply

    async def stop(
        self,
        caller: Caller,
        session_id: str,
        *,
        turn_id: str | None = None,
        message_id: str | None = None,
        step_execution_id: str | None = None,
        frontier: str | None = None,
        disposition: str = "keep",
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Record that the running turn should end. Returns `{"result": …}` (surface §4).

        At most one of `turn_id`, `message_id` (one that the turn began with) and `step_execution_id` says what is
        meant; none: whichever runs. Without
        a running turn it dismisses a failed one that holds the inbox.

        Args:
            frontier: The cursor that the user's screen had come to: text behind it is cut, effects never are.
        """
        key = session_key(caller, session_id)
        if disposition not in DISPOSITIONS:
            raise InvalidRequestError(f"disposition {disposition!r} is unknown: use one of {', '.join(DISPOSITIONS)}")
        named = {"turn_id": turn_id, "message_id": message_id, "step_execution_id": step_execution_id}
        named = {name: value for name, value in named.items() if value is not None}
        if len(named) > 1:
            raise InvalidRequestError(f"send at most one of {', '.join(f'`{name}`' for name in named)}")
        shown = _frontier(frontier, session_id) if frontier is not None else None
        if message_id is not None and (result := await self._taken_back(caller, key, message_id)) is not None:
            return {"result": result}
        content = {"operation": "stop", "turn_id": turn_id, "disposition": disposition} | named
        if message_id is not None and (shared := await self._turn_begun_with(caller, key, message_id)) is not None:
            turn_id, message_id = shared, None
        content |= {"frontier": frontier} if frontier is not None else {}
        command = StopTurn(
            actor=caller.actor,
            turn_id=turn_id,
            message_id=message_id,
            step_id=step_execution_id,
            disposition=disposition,
            frontier=await self._reader.frontier(key, shown) if shown is not None else None,
            receipts=claims(idempotency_key, content),
        )
        return (await self._execute(caller, key, command)).reply

    async def _taken_back(self, caller: Caller, key: SessionKey, message_id: str) -> str | None:
        """Take a message back whose turn has not begun, again without harm (F031); None for one that a turn has."""
        command = RemoveMessage(message_id=message_id, actor=caller.actor, receipts=(_removal(message_id),))
        try:
            executed = await self._on_message(caller, key, message_id, command)
        except RequestConflictError as error:
            if error.code != "already_delivered":
                raise
            return None
        return "already_recorded" if executed.duplicate else "recorded"

    async def _turn_begun_with(self, caller: Caller, key: SessionKey, message_id: str) -> str | None:
        """Return the running turn if this is one of several messages that it began with; HEAD names the last alone."""
        head = await self._visible(caller, key)
        if head is None or head.turn is None or head.turn.message_id == message_id:
            return None
        turn = head.turn
        log = await self._ports.store.read(key, first=turn.opened_version, last=turn.opened_version)
        begun = {m.message_id for entry in log.entries for m in entry.messages if m.turn_id == turn.turn_id}
        return turn.turn_id if message_id in begun else None

    async def retry(
        self, caller: Caller, session_id: str, *, retry_id: str, idempotency_key: str | None = None
    ) -> JsonObject:
        """Run the failed model step of the latest turn again, or stop waiting for a reconnect.

        Returns `{"result": "recorded", "turn_id"?}`; for a `retry_id` that was used before `already_recorded`.
        """
        key = session_key(caller, session_id)
        check_name(retry_id, "retry_id", MAX_MESSAGE_ID)
        receipts = claims(idempotency_key, {"operation": "retry", "retry_id": retry_id})
        receipts += (ReceiptClaim(key_hash=key_hash(f"retry:{retry_id}"), content_hash="retry"),)
        executed = await self._execute(caller, key, RetryTurn(actor=caller.actor, retry_id=retry_id, receipts=receipts))
        return executed.reply | ({"result": "already_recorded"} if executed.duplicate else {})

    async def pause(self, caller: Caller, session_id: str, *, idempotency_key: str | None = None) -> JsonObject:
        """Let nothing new begin: model steps, tools, turns. What runs finishes. Returns `{"result": …}`."""
        receipts = claims(idempotency_key, {"operation": "pause"})
        command = PauseSession(actor=caller.actor, receipts=receipts)
        return (await self._execute(caller, session_key(caller, session_id), command)).reply

    async def resume(self, caller: Caller, session_id: str, *, idempotency_key: str | None = None) -> JsonObject:
        """Let everything that is ready begin again. Returns `{"result": …}`."""
        receipts = claims(idempotency_key, {"operation": "resume"})
        command = ResumeSession(actor=caller.actor, receipts=receipts)
        return (await self._execute(caller, session_key(caller, session_id), command)).reply

    async def set_title(
        self, caller: Caller, session_id: str, title: str, *, idempotency_key: str | None = None
    ) -> JsonObject:
        """Name the session, for good: no model's title comes after it. Returns `{"result": …}`.

        Args:
            title: One line, 1 to `MAX_TITLE` characters; spaces around it are dropped.
        """
        check_text(title, "title")
        name = " ".join(title.split())
        if len(name) > MAX_TITLE:
            raise InvalidRequestError(f"the title has {len(name)} characters, of {MAX_TITLE}: shorten it")
        receipts = claims(idempotency_key, {"operation": "title", "title": name})
        command = SetTitle(title=name, actor=caller.actor, receipts=receipts)
        return (await self._execute(caller, session_key(caller, session_id), command)).reply

    async def update_settings(
        self, caller: Caller, session_id: str, settings: JsonObject, *, idempotency_key: str | None = None
    ) -> JsonObject:
        """Replace the session's settings whole; `{}` clears them. The running turn keeps those that it began with.

        Never secrets: whoever sees the session sees them (spec SET-05).
        """
        key = session_key(caller, session_id)
        json_bytes(settings, "settings")
        receipts = claims(idempotency_key, {"operation": "settings", "settings": settings})
        command = UpdateSettings(settings=settings, actor=caller.actor, receipts=receipts)
        return (await self._execute(caller, key, command)).reply

    async def close_session(
        self, caller: Caller, session_id: str, *, closed: bool = True, idempotency_key: str | None = None
    ) -> JsonObject:
        """For trusted code only: let the session take no more messages, or take them again (spec SESS-19)."""
        receipts = claims(idempotency_key, {"operation": "close", "closed": closed})
        command = CloseSession(actor=caller.actor, closed=closed, receipts=receipts)
        return (await self._execute(caller, session_key(caller, session_id), command)).reply

    async def edit(
        self, caller: Caller, session_id: str, message_id: str, *, text: str, idempotency_key: str | None = None
    ) -> JsonObject:
        """Change the text of a message that waits. Returns `{"result": "recorded"}`."""
        key = session_key(caller, session_id)
        check_text(text, "text")
        receipts = claims(idempotency_key, {"operation": "edit", "message_id": message_id, "text": text})
        tries = 0
        while True:
            head = await self._visible(caller, key)
            waiting = find(head, message_id) if head else None
            base = waiting.input_version if waiting else 0
            before = await self._reader.input(key, base, message_id) if waiting else None
            edited = replace(before, text=text) if before else Input(message_id=message_id, text=text)
            command = EditMessage(edited=edited, base_version=base, actor=caller.actor, receipts=receipts)
            try:
                return (await self._on_message(caller, key, message_id, command)).reply
            except RequestConflictError as error:
                tries += 1
                if error.code != "stale_revision" or tries == EDIT_TRIES:
                    raise

    async def move(
        self,
        caller: Caller,
        session_id: str,
        message_id: str,
        *,
        before: str | None = None,
        after: str | None = None,
        position: str | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Change the place of a message that waits: before or after another one, or `first` or `last`."""
        key = session_key(caller, session_id)
        places = {"before": before, "after": after, "position": position}
        places = {name: value for name, value in places.items() if value is not None}
        if len(places) != 1:
            raise InvalidRequestError("send exactly one of `before`, `after` and `position`")
        if position is not None and position not in ("first", "last"):
            raise InvalidRequestError(f"position {position!r} is unknown: use 'first' or 'last'")
        receipts = claims(idempotency_key, {"operation": "move", "message_id": message_id} | places)
        command = MoveMessage(message_id=message_id, actor=caller.actor, receipts=receipts, **places)
        return (await self._on_message(caller, key, message_id, command)).reply

    async def remove(
        self, caller: Caller, session_id: str, message_id: str, *, idempotency_key: str | None = None
    ) -> JsonObject:
        """Take a waiting message back. Returns `{"result": "removed", message_id, text, metadata?, files?}`, always."""
        key = session_key(caller, session_id)
        receipts = claims(idempotency_key, {"operation": "remove", "message_id": message_id})
        receipts += (_removal(message_id),)
        command = RemoveMessage(message_id=message_id, actor=caller.actor, receipts=receipts)
        executed = await self._on_message(caller, key, message_id, command)
        reply = dict(executed.reply)
        removed = await self._reader.input(key, reply.pop("input_version"), message_id)
        if removed is not None:
            reply["text"] = removed.text
            reply |= {"metadata": removed.metadata} if removed.metadata is not None else {}
            reply |= {"files": [file_part(file) for file in removed.files]} if removed.files else {}
        return reply

    async def deliver(
        self, caller: Caller, session_id: str, message_id: str, *, delivery: str, idempotency_key: str | None = None
    ) -> JsonObject:
        """Deliver a waiting message in another way. Returns `{message_id, delivered_as, turn_id?}`."""
        key = session_key(caller, session_id)
        receipts = claims(idempotency_key, {"operation": "deliver", "message_id": message_id, "delivery": delivery})
        command = DeliverMessage(message_id=message_id, delivery=delivery, actor=caller.actor, receipts=receipts)
        return (await self._on_message(caller, key, message_id, command)).reply

    async def _on_message(self, caller: Caller, key: SessionKey, message_id: str, command: Command) -> Executed:
        """Carry out a command on a waiting message; for one that does not wait say what became of it.

        Raises:
            NotFoundError: `message_not_found`: it never was.
            RequestConflictError: `already_delivered`, or `not_pending` for one that was taken back.
        """
        try:
            return await self._execute(caller, key, command)
        except NotFoundError as error:
            if error.code != "message_not_found" or not await self._was_accepted(key, message_id):
                raise
            removal = _removal(message_id).key_hash
            if removal in (await self._ports.store.load(key, [removal])).receipts:
                raise RequestConflictError(
                    f"message {message_id!r} was taken back: send it again", code="not_pending"
                ) from None
            raise already_delivered(message_id) from None

    async def _was_accepted(self, key: SessionKey, message_id: str) -> bool:
        version = version_of(message_id)
        if version is None:  # an id of the caller's has a receipt
            name = key_hash(f"message:{message_id}")
            return name in (await self._ports.store.load(key, [name])).receipts
        return await self._reader.input(key, version, message_id) is not None


def _frontier(text: str, session_id: str) -> Cursor:
    try:
        return Cursor.decode(text, session_id)
    except InvalidRequestError as error:
        raise InvalidRequestError(
            "`frontier` is no cursor of this session: send the cursor of the last event that was shown", code=error.code
        ) from None


def _removal(message_id: str) -> ReceiptClaim:
    """Return the receipt of a message that was taken back, so that doing it twice is no error (field case F031)."""
    return ReceiptClaim(key_hash=key_hash(f"removed:{message_id}"), content_hash="removed")
