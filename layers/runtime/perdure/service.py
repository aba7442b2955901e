"""What API, command line, server and tests call: one method per operation, for one caller.

A caller sees the sessions of their tenant that they own; any other id reads as never written, or is not found.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from perdure.core.bounds import MAX_PAGE_BYTES, fitted
from perdure.core.commands import Command, ReceiptClaim, ResolveInterrupt, SendInput, StopTurn
from perdure.core.cursor import Cursor
from perdure.core.entries import Actor
from perdure.core.head import Head
from perdure.core.ids import content_hash, is_session_id, key_hash, version_of
from perdure.core.limits import MAX_IDEMPOTENCY_KEY, MAX_MESSAGE_ID
from perdure.core.public import public_summary
from perdure.errors import (
    InvalidRequestError,
    NotFoundError,
    RequestConflictError,
    RequestError,
)
from perdure.input_files import checked_files
from perdure.ports import SessionKey
from perdure.reading import Reader
from perdure.steps.base import StepDeps
from perdure.steps.commit import Executed, execute

JsonObject = dict[str, Any]

DISPOSITIONS = ("keep", "discard")
MAX_METADATA_BYTES = 16 * 1024
"""Size of an input's metadata, in bytes of JSON; our own choice, that of session settings (spec SET-04)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls: a tenant and a verified subject. `until`: when the token that says so ends; None: nobody said."""

    tenant: str
    actor: Actor
    until: datetime | None = field(default=None, compare=False)


LOCAL_CALLER = Caller(tenant="local", actor=Actor(issuer="local", subject="local"))
"""Whoever uses the embedded runtime in its own process or over loopback."""


class Service:
    """The operations of one deployment. Every method raises `RequestError` for what the caller did wrong.

    Args:
        knows_agents: False: it only looks at the sessions of a deployment whose agents it does not know.
    """

    def __init__(self, deps: StepDeps, *, knows_agents: bool = True) -> None:
        self._deps = deps
        self._knows_agents = knows_agents
        self._ports = deps.ports
        self._reader = Reader(deps.ports)

    async def send_input(
        self,
        caller: Caller,
        session_id: str,
        *,
        text: str,
        message_id: str | None = None,
        agent: str | None = None,
        delivery: str = "queue",
        metadata: JsonObject | None = None,
        files: Sequence[JsonObject] = (),
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Accept a message. Returns `{message_id, turn_id?, delivered_as, duplicate, cursor}` once it is durable."""
        key = _session_key(caller, session_id)
        _check_text(text, "text")
        if message_id is not None:
            _check_message_id(message_id)
        if metadata is not None and len(_json(metadata, "metadata")) > MAX_METADATA_BYTES:
            raise InvalidRequestError(f"metadata is larger than {MAX_METADATA_BYTES} bytes of JSON: send less of it")
        if agent is not None and self._deps.agents.get(agent) is None:
            known = ", ".join(repr(other.name) for other in self._deps.agents)
            raise InvalidRequestError(f"agent {agent!r} is not part of this deployment: use {known}")
        references = checked_files(files)
        content: JsonObject = {
            "operation": "inputs",
            "text": text,
            "message_id": message_id,
            "agent": agent,
            "delivery": delivery,
            "metadata": metadata,
        }
        if references:  # so that the key of an input without files means what it meant
            content["files"] = list(files)
        command = SendInput(
            text=text,
            actor=caller.actor,
            default_agent=self._deps.agents.default.name,
            agent=agent,
            message_id=message_id,
            delivery=delivery,
            metadata=metadata,
            files=references,
            receipts=_claims(idempotency_key, content, message_id),
        )
        executed = await self._execute(caller, key, command)
        reply = {**executed.reply, "duplicate": executed.duplicate}
        reply["cursor"] = Cursor(version=reply.pop("version")).encode(session_id)
        return reply

    async def resolve_interrupt(
        self,
        caller: Caller,
        session_id: str,
        interrupt_id: str,
        *,
        approved: bool | None = None,
        answer: str | None = None,
        message: str | None = None,
        arguments_hash: str | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Record a decision, once. Returns `{"result": "resolved"}`."""
        key = _session_key(caller, session_id)
        if (approved is None) == (answer is None):
            raise InvalidRequestError("send exactly one of `approved` and `answer`")
        if message is not None:
            _check_unicode(message, "message")
        if answer is not None:
            _check_text(answer, "answer")
        content = {
            "operation": "interrupts",
            "interrupt_id": interrupt_id,
            "approved": approved,
            "answer": answer,
            "message": message,
            "arguments_hash": arguments_hash,
        }
        command = ResolveInterrupt(
            interrupt_id=interrupt_id,
            actor=caller.actor,
            approved=approved,
            answer=answer,
            message=message,
            arguments_hash=arguments_hash,
            receipts=_claims(idempotency_key, content),
        )
        try:
            executed = await self._execute(caller, key, command)
        except NotFoundError as error:
            if error.code == "interrupt_not_found" and await self._was_raised(key, interrupt_id):
                raise RequestConflictError(
                    f"interrupt {interrupt_id!r} is no longer open: it was decided or withdrawn", code="not_pending"
                ) from None
            raise
        return executed.reply

    async def stop(
        self,
        caller: Caller,
        session_id: str,
        *,
        turn_id: str | None = None,
        frontier: str | None = None,
        disposition: str = "keep",
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Record that the running turn should end. Returns `{"result": …}` (surface §4)."""
        key = _session_key(caller, session_id)
        if disposition not in DISPOSITIONS:
            raise InvalidRequestError(f"disposition {disposition!r} is unknown: use one of {', '.join(DISPOSITIONS)}")
        if frontier is not None:
            raise InvalidRequestError("`frontier` is not supported yet: stop without it, what was shown stays")
        content = {"operation": "stop", "turn_id": turn_id, "disposition": disposition}
        command = StopTurn(
            actor=caller.actor,
            turn_id=turn_id,
            disposition=disposition,
            receipts=_claims(idempotency_key, content),
        )
        return (await self._execute(caller, key, command)).reply

    async def snapshot(self, caller: Caller, session_id: str) -> JsonObject:
        """Return the session as it is now, from one consistent version; one never written has `state: null`."""
        key = _session_key(caller, session_id)
        snapshot = await self._reader.snapshot(key, await self._visible(caller, key))
        for interrupt in snapshot["pending_interrupts"] if self._knows_agents else ():
            if not self._can_run(snapshot["agent"], interrupt["tool_name"]):
                interrupt["blocked"] = "agent_missing"
        return snapshot

    async def messages(
        self, caller: Caller, session_id: str, *, before: str | None = None, limit: int = 50
    ) -> JsonObject:
        """Return a page of messages, oldest first: the newest ones, or those before a sequence or `next_before`."""
        key = _session_key(caller, session_id)
        if not await self._visible(caller, key):
            return {"messages": []}
        return await self._reader.messages(key, before=before, limit=_clamped(limit, 200))

    async def events(
        self,
        caller: Caller,
        session_id: str,
        *,
        after: str | None = None,
        limit: int = 500,
        wait_seconds: float = 0,
    ) -> JsonObject:
        """Return `{events, cursor}`: durable events after a cursor, then the progress of steps that run.

        Waits up to `wait_seconds` (0-20) for the first one. An empty page is the end for now.
        """
        key = _session_key(caller, session_id)
        cursor = Cursor.decode(after, session_id) if after is not None else Cursor()
        head = await self._visible(caller, key)
        if head is None:
            await self._ports.live.wait(key, version=0, seen=0, timeout_seconds=_wait(wait_seconds))
            if not await self._visible(caller, key):
                return {"events": [], "cursor": cursor.encode(session_id)}
        return await self._reader.events(
            key, after=cursor, limit=_clamped(limit, 500), wait_seconds=_wait(wait_seconds), head=head
        )

    async def inbox(self, caller: Caller, session_id: str) -> JsonObject:
        """Return `{entries}`: the messages that wait for their turn, in order."""
        key = _session_key(caller, session_id)
        head = await self._visible(caller, key)
        return {"entries": fitted(await self._reader.inbox(key, head), MAX_PAGE_BYTES) if head else []}

    async def list_sessions(self, caller: Caller, *, cursor: str | None = None, limit: int = 50) -> JsonObject:
        """Return `{sessions, next_cursor?}`: the caller's own, newest activity first."""
        page = await self._ports.store.list_sessions(
            caller.tenant, caller.actor, cursor=cursor, limit=_clamped(limit, 200)
        )
        reply: JsonObject = {"sessions": [public_summary(row.session_id, row.head) for row in page.sessions]}
        if page.next_cursor is not None:
            reply["next_cursor"] = page.next_cursor
        return reply

    async def _execute(self, caller: Caller, key: SessionKey, command: Command) -> Executed:
        def allow(head: Head) -> None:
            _check_owner(caller, key, head)
            if isinstance(command, ResolveInterrupt) and command.approved:
                self._check_can_run(head, command.interrupt_id)

        # A caller may go away at any moment, and what was committed by then must still be sent on its way.
        executing = asyncio.ensure_future(execute(self._ports, key, command, allow=allow))
        try:
            return await asyncio.shield(executing)
        except asyncio.CancelledError:
            executing.add_done_callback(_seen)
            raise

    async def _visible(self, caller: Caller, key: SessionKey) -> Head | None:
        """Return the session's head, or None when it was never written or belongs to somebody else."""
        head = await self._ports.store.peek(key)
        _check_owner(caller, key, head)
        return head if head.exists else None

    def _check_can_run(self, head: Head, interrupt_id: str) -> None:
        """Refuse to approve what this deployment can't run; rejecting and stopping still work (field case F043)."""
        call = head.turn.call(interrupt_id) if head.turn else None
        if call is None or call.status != "awaiting_approval":
            return
        if not self._can_run(head.agent, call.tool_name):
            raise RequestConflictError(
                f"agent {head.agent!r} with tool {call.tool_name!r} is not part of this deployment: "
                "deploy it again, reject the call or stop the turn",
                code="agent_missing",
            )

    def _can_run(self, agent_name: str | None, tool_name: str) -> bool:
        agent = self._deps.agents.get(agent_name or "")
        return agent is not None and (agent.runner is not None or agent.tool(tool_name) is not None)

    async def _was_raised(self, key: SessionKey, interrupt_id: str) -> bool:
        version = version_of(interrupt_id)
        if version is None:
            return False
        log = await self._ports.store.read(key, first=version, last=version)
        raised = (event for entry in log.entries for event in entry.events if event.type == "interrupt_raised")
        return any(event.payload.get("interrupt_id") == interrupt_id for event in raised)


def _seen(executed: asyncio.Future[Executed]) -> None:
    """Look at what became of a command that nobody waits for, or asyncio reports its failure."""
    if not executed.cancelled():
        executed.exception()


def _session_key(caller: Caller, session_id: str) -> SessionKey:
    if not is_session_id(session_id):
        raise InvalidRequestError("a session id has 1 to 128 characters of A-Z, a-z, 0-9, '.', '_', ':' and '-'")
    return SessionKey(caller.tenant, session_id)


def _check_owner(caller: Caller, key: SessionKey, head: Head) -> None:
    """Treat somebody else's session as one that is not there (field case F143)."""
    if head.exists and head.owner != caller.actor:
        raise _not_found(key.session_id)


def _not_found(session_id: str) -> RequestError:
    return NotFoundError(f"there is no session {session_id!r}", code="session_not_found")


def _check_unicode(text: str, name: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequestError(
            f"{name} holds a lone surrogate, which is no Unicode text: send whole characters", code="invalid_text"
        ) from None


def _check_text(text: str, name: str) -> None:
    _check_unicode(text, name)
    if not text.strip():
        raise InvalidRequestError(f"{name} is blank: send some text")


def _check_message_id(value: str) -> None:
    _check_name(value, "message_id", MAX_MESSAGE_ID)
    if version_of(value) is not None:
        raise InvalidRequestError(f"message_id {value!r} looks like an id that Perdure makes: choose another form")


def _check_name(value: str, name: str, longest: int) -> None:
    _check_unicode(value, name)
    if not 1 <= len(value) <= longest:
        raise InvalidRequestError(f"{name} must have 1 to {longest} characters")


def _json(value: JsonObject, name: str) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise InvalidRequestError(
            f"{name} holds a lone surrogate: send whole characters", code="invalid_text"
        ) from None
    except (TypeError, ValueError, RecursionError):
        raise InvalidRequestError(f"{name} is not JSON") from None


def _claims(
    idempotency_key: str | None, content: JsonObject, message_id: str | None = None
) -> tuple[ReceiptClaim, ...]:
    """Return the receipts that a command asks for: one for its key, and one for a message id of the caller's."""
    names: list[str] = []
    if idempotency_key is not None:
        _check_name(idempotency_key, "Idempotency-Key", MAX_IDEMPOTENCY_KEY)
        names.append(f"key:{idempotency_key}")
    if message_id is not None:
        names.append(f"message:{message_id}")
    digest = content_hash(content)
    return tuple(ReceiptClaim(key_hash=key_hash(name), content_hash=digest) for name in names)


def _clamped(limit: int, most: int) -> int:
    return max(1, min(limit, most))


def _wait(seconds: float) -> float:
    return max(0.0, min(float(seconds), 20.0))
