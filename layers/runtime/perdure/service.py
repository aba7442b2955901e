"""What API, command line, server and tests call: one method per operation, for one caller.

A caller sees the sessions of their tenant that they own; any other id reads as never written, or is not found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.access import check_access
from perdure.agents.definition import AgentDefinition
from perdure.agents.inbox import RawInput
from perdure.bringing import BringingOperations
from perdure.checks import (
    LOCAL_CALLER,
    SETTINGS_TOLERANCE_BYTES,
    SOURCES,
    Caller,
    check_message_id,
    check_metadata,
    check_text,
    claims,
    clamped,
    json_bytes,
    session_key,
)
from perdure.control import ControlOperations
from perdure.core.bounds import MAX_PAGE_BYTES, fitted
from perdure.core.commands import SendInput
from perdure.core.cursor import Cursor
from perdure.core.limits import MAX_SETTINGS_BYTES
from perdure.core.outputs import MOST_OUTPUT_CHARACTERS, OUTPUT_CHARACTERS, output_page
from perdure.errors import InvalidRequestError
from perdure.feed import Feed, TurnPlace
from perdure.input_files import checked_files
from perdure.listing import find_sessions, session_filter
from perdure.orphans import OrphanOperations
from perdure.scheduling import ScheduleOperations
from perdure.signed_approvals import SignedApprovalOperations
from perdure.steps.outputs import find_output
from perdure.trusted import TrustedOperations
from perdure.turn_reading import read_turn
from perdure.waiting import WaitOperations
from perdure.webhooks import Webhook, from_environment, named, receive, verify

__all__ = ["LOCAL_CALLER", "Caller", "Service"]

JsonObject = dict[str, Any]


class Service(
    SignedApprovalOperations,
    WaitOperations,
    ScheduleOperations,
    ControlOperations,
    TrustedOperations,
    BringingOperations,
    OrphanOperations,
):
    """The operations of one deployment. Every method raises `RequestError` for what the caller did wrong.

    Args:
        knows_agents: False: it only looks at the sessions of a deployment whose agents it does not know.
    """

    async def send_input(
        self,
        caller: Caller,
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
        """Accept a message. Returns `{message_id, turn_id?, delivered_as, duplicate, cursor}` once it is durable.

        Args:
            delivery: One of `core.inbox.DELIVERIES`; None: as the agent's inbox says.
            settings: Makes these the session's settings, in the same commit; a turn that it starts is bound to them.
            run_settings: Settings on top of the session's, for this message's own turn alone.
            source: `person`; trusted code says `webhook`, `schedule`, `agent` or `application`.
        """
        key = session_key(caller, session_id)
        check_text(text, "text")
        if source not in SOURCES:
            raise InvalidRequestError(f"source {source!r} is unknown: use one of {', '.join(SOURCES)}")
        if message_id is not None:
            check_message_id(message_id)
        check_metadata(metadata)
        self._check_agent(agent)
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
        content |= {
            name: value for name, value in (("settings", settings), ("run_settings", run_settings)) if value is not None
        }
        for name, value in (("settings", settings), ("run_settings", run_settings)):
            if value is not None and len(json_bytes(value, name)) > MAX_SETTINGS_BYTES + SETTINGS_TOLERANCE_BYTES:
                raise InvalidRequestError(f"{name} is larger than {MAX_SETTINGS_BYTES} bytes of JSON: send less of it")
        raw = RawInput(session_id=session_id, text=text, metadata=metadata, source=source)
        command = SendInput(
            text=text,
            actor=caller.actor,
            default_agent=self._deps.agents.default.name,
            agent=agent,
            message_id=message_id,
            delivery=delivery,
            policies={other.name: other.inbox.policy_for(raw) for other in self._deps.agents},
            metadata=metadata,
            files=references,
            settings=settings,
            run_settings=run_settings,
            source=source,
            credentials={other.name: other.credential_version() for other in self._deps.agents},
            receipts=claims(idempotency_key, content, message_id),
        )
        executed = await self._execute(caller, key, command)
        reply = {**executed.reply, "duplicate": executed.duplicate}
        reply["cursor"] = Cursor(version=reply.pop("version")).encode(session_id)
        return reply

    def verify_hook(self, name: str, headers: Mapping[str, str], body: bytes) -> tuple[Webhook, str]:
        """Return the webhook with a name, and the id of the event that was signed for it.

        Raises:
            NotFoundError: There is no such webhook.
            UnauthorizedError: The signature or its time is wrong.
            StoreUnavailableError: Its secret could not be read.
        """
        webhook = named(self._webhooks, name)
        secret = webhook.secret(self._webhook_secret or from_environment)
        return webhook, verify(secret, headers, body, self._ports.clock.now())

    async def receive_hook(self, webhook: Webhook, event_id: str, event: JsonObject) -> JsonObject:
        """Take an event whose signature was verified. Returns a receipt, or `{"ignored": true}`."""
        return await receive(self, webhook, event_id, event)

    async def snapshot(self, caller: Caller, session_id: str) -> JsonObject:
        """Return the session as it is now, from one consistent version; one never written has `state: null`."""
        key = session_key(caller, session_id)
        snapshot = await self._reader.snapshot(key, await self._visible(caller, key))
        for interrupt in snapshot["pending_interrupts"]:
            if interrupt["kind"] == "approval" and self._is_missing(snapshot["agent"], interrupt["tool_name"]):
                interrupt["blocked"] = "agent_missing"
        return snapshot

    async def messages(
        self, caller: Caller, session_id: str, *, before: str | None = None, limit: int = 50
    ) -> JsonObject:
        """Return a page of messages, oldest first: the newest ones, or those before a sequence or `next_before`."""
        key = session_key(caller, session_id)
        if not await self._visible(caller, key):
            return {"messages": []}
        return await self._reader.messages(key, before=before, limit=clamped(limit, 200))

    async def turn(self, caller: Caller, session_id: str, turn_id: str) -> JsonObject:
        """Return one turn by itself: how it went, what it answered and what it used (`turn_reading`).

        Raises:
            NotFoundError: `turn_not_found`.
        """
        key = session_key(caller, session_id)
        return await read_turn(self._ports.store, key, await self._visible(caller, key), turn_id)

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
        key = session_key(caller, session_id)
        cursor = Cursor.decode(after, session_id) if after is not None else Cursor()
        head = await self._visible(caller, key)
        if head is None:
            there = await self._ports.store.peek(key)  # what a purge left has a version, which is nothing to wake for
            version, seconds = 0 if there.exists else there.version, self._wait_of(caller, wait_seconds)
            await self._ports.live.wait(key, version=version, seen=0, timeout_seconds=seconds)
            if not await self._visible(caller, key):
                return {"events": [], "cursor": cursor.encode(session_id)}
        page = await self._follower.events(
            key, after=cursor, limit=clamped(limit, 500), wait_seconds=self._wait_of(caller, wait_seconds), head=head
        )
        self._check_token(caller)
        return page

    async def feed(
        self,
        caller: Caller,
        session_id: str,
        *,
        after: str | None = None,
        limit: int = 500,
        wait_seconds: float = 0,
        messages: bool = True,
    ) -> Feed:
        """Return what follows a cursor as commits with their messages and events, then the progress of what runs.

        Waits up to `wait_seconds` (0-20) for the first item. What streams are made from (`perdure.streams`).

        Args:
            messages: False: events only.

        Raises:
            NotFoundError: `session_not_found`: the session is somebody else's, or has become so.
            UnauthorizedError: The caller's token has ended (field case F114).
        """
        key = session_key(caller, session_id)
        cursor = Cursor.decode(after, session_id) if after is not None else Cursor()
        head = await self._visible(caller, key)
        feed = await self._follower.feed(
            key,
            after=cursor,
            limit=clamped(limit, 500),
            wait_seconds=self._wait_of(caller, wait_seconds),
            head=head,
            messages=messages,
        )
        self._check_token(caller)
        check_access(self._authorize, caller, key, feed.head, "read")  # somebody may have begun it meanwhile
        return feed

    async def turn_place(self, caller: Caller, session_id: str, turn_id: str | None = None) -> TurnPlace | None:
        """Return where a turn begins, the running one's if no id is given; None when there is none."""
        key = session_key(caller, session_id)
        head = await self._visible(caller, key)
        return await self._follower.turn_place(key, head, turn_id) if head is not None else None

    async def tool_output(
        self,
        caller: Caller,
        session_id: str,
        tool_call_id: str,
        *,
        offset: int = 0,
        limit: int = OUTPUT_CHARACTERS,
    ) -> JsonObject:
        """Return `{output, total_characters, sha256, next_offset?}`: a piece of the stored output of a finished call.

        Args:
            offset: In characters from its start; behind its end there is nothing.
            limit: 1 to `MOST_OUTPUT_CHARACTERS`, clamped.

        Raises:
            NotFoundError: `tool_call_not_found`: the session has no such call, or keeps it no more.
            RequestConflictError: `not_finished`: the call has no result yet.
        """
        key = session_key(caller, session_id)
        await self._visible(caller, key)
        if offset < 0:
            raise InvalidRequestError("`offset` must be 0 or more")
        return output_page(
            await find_output(self._ports.store, key, tool_call_id), offset, clamped(limit, MOST_OUTPUT_CHARACTERS)
        )

    async def inbox(self, caller: Caller, session_id: str) -> JsonObject:
        """Return `{entries}`: the messages that wait for their turn, in order."""
        key = session_key(caller, session_id)
        head = await self._visible(caller, key)
        return {"entries": fitted(await self._reader.inbox(key, head), MAX_PAGE_BYTES) if head else []}

    async def list_sessions(
        self,
        caller: Caller,
        *,
        cursor: str | None = None,
        limit: int = 50,
        query: str | None = None,
        waiting_for: str | None = None,
        status: str | None = None,
        agent: str | None = None,
    ) -> JsonObject:
        """Return `{sessions, next_cursor?}`: the caller's own, newest activity first; or those that match (`listing`).

        Args:
            limit: 1 to 200, clamped.
        """
        wanted = session_filter(query=query, waiting_for=waiting_for, status=status, agent=agent)
        return await find_sessions(self._ports.store, caller, wanted, cursor=cursor, limit=clamped(limit, 200))

    def agents(self) -> JsonObject:
        """Return `{agents}`: those of the deployment in its order, with the models that a session may be set to."""
        return {"agents": [{"name": agent.name, "models": _choices(agent)} for agent in self._deps.agents]}


def _choices(agent: AgentDefinition) -> list[JsonObject]:
    choices: list[JsonObject] = []
    for choice in agent.model_choices:
        levels = list(choice.reasoning_levels)
        shown: JsonObject = {"name": choice.name, "model": choice.model, "reasoning_levels": levels}
        choices.append(shown if choice.context_window is None else shown | {"context_window": choice.context_window})
    return choices
