"""What people decide: approvals, with other arguments if need be, and answers to questions."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from perdure.access import check_access
from perdure.agents.built_ins import BuiltInTool
from perdure.agents.calls import changed_arguments
from perdure.agents.inbox import RawInput
from perdure.agents.tools import FunctionTool
from perdure.checks import Caller, check_text, check_unicode, claims, json_bytes, session_key
from perdure.core.codec import encode
from perdure.core.commands import GrantScope, ResolveInterrupt, SendInput
from perdure.core.cursor import Cursor
from perdure.core.entries import Entry, Event
from perdure.core.grants import scope_match
from perdure.core.head import Head, Interrupt
from perdure.core.ids import content_hash, version_of
from perdure.core.inputs import PREFIX
from perdure.core.interrupts import pending_interrupt
from perdure.core.limits import MAX_GRANT
from perdure.core.public import questions_of
from perdure.core.questions import DEADLINE
from perdure.core.schedules import TIMER_PREFIX
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError
from perdure.operations import Operations
from perdure.ports import SessionKey, SessionStore

JsonObject = dict[str, Any]

_TOOLS_QUESTION = re.compile(r"(call-[0-9]+-[0-9]+)-input-[0-9]+")
MAX_VALUE_BYTES = 256 * 1024
"""Size of a value that an application asked for, in bytes of JSON. Our own choice."""

_DEADLINE = encode(DEADLINE)

ENTRIES_PER_READ = 100
"""Entries that are read at a time when it is looked for how an interrupt ended."""

MOST_READS_BACK = 10
"""So often are they read for a request or a schedule, whose place in the log nothing tells. Our own choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    """What was found to be in order: for this interrupt, as raised with this version."""

    version: int | None = None
    answer: str | None = None
    arguments: JsonObject | None = None


class AnswerOperations(Operations):
    """The operations with which people decide. Every method raises `RequestError` for a caller's fault."""

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
        arguments: JsonObject | None = None,
        grant: JsonObject | None = None,
        value: Any = None,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Record a decision, once. Returns `{"result": "resolved"}`.

        An answer that comes too late is refused, unless the agent's inbox has it queued (`late_answers`): then the
        reply is `{"result": "queued", "message_id", "cursor"}`.

        Args:
            approved: Of an approval; False declines a question.
            answer: To a question. With choices and without free text it is one of them; spaces around it don't count.
            message: A word to the model.
            arguments: An approved call runs with these instead; its tool checks them as it checks the model's. Needs
                the `arguments_hash` of those that were shown.
            grant: `{"lasts_seconds", "fields"?, "max_uses"?}`: approve calls of this tool ahead, those with the same
                values in `fields`, in this session, for up to 30 days. Goes with an approval.
            value: What an application asked for: anything but null that JSON can write, 256 KiB at most.

        Raises:
            RequestConflictError: `not_pending`, `deadline_passed`, `arguments_changed`, or `agent_missing`: this
                deployment can't run the call, or check other arguments for it.
        """
        key = session_key(caller, session_id)
        if sum(said is not None for said in (approved, answer, value)) != 1:
            raise InvalidRequestError("send exactly one of `approved`, `answer` and `value`")
        if value is not None and len(json_bytes({"value": value}, "value")) > MAX_VALUE_BYTES:
            raise InvalidRequestError(f"value is larger than {MAX_VALUE_BYTES} bytes of JSON: send less of it")
        if grant is not None and not approved:
            raise InvalidRequestError("`grant` goes with `approved: true`")
        if arguments is not None and not approved:
            raise InvalidRequestError("`arguments` go with `approved: true`")
        if arguments is not None and arguments_hash is None:
            raise InvalidRequestError("send the `arguments_hash` that was shown, too: it says what `arguments` replace")
        if message is not None:
            check_unicode(message, "message")
        if answer is not None:
            check_text(answer, "answer")
        content: JsonObject = {
            "operation": "interrupts",
            "interrupt_id": interrupt_id,
            "approved": approved,
            "answer": answer,
            "message": message,
            "arguments_hash": arguments_hash,
        }
        checked = await self._check_decision(caller, key, interrupt_id, answer, arguments)
        more = {"arguments": arguments, "grant": grant, "value": value}
        content |= {name: given for name, given in more.items() if given is not None}
        command = ResolveInterrupt(
            interrupt_id=interrupt_id,
            actor=caller.actor,
            approved=approved,
            answer=checked.answer,
            message=message,
            arguments_hash=arguments_hash,
            arguments=checked.arguments,
            grant=await self._scope(key, interrupt_id, checked.arguments, grant) if grant is not None else None,
            value={"value": value} if value is not None else None,
            receipts=claims(idempotency_key, content),
        )
        try:
            executed = await self._execute(caller, key, command, check=lambda head: _still(head, interrupt_id, checked))
        except (NotFoundError, RequestConflictError) as error:
            ending = await self._ending(key, interrupt_id, error)
            if answer is not None and ending.code == "deadline_passed" and await self._queues_late_answers(key):
                return await self._send_late(caller, session_id, command, answer)
            raise ending from None
        return _as_queued(session_id, executed.reply) if "message_id" in executed.reply else executed.reply

    async def _check_decision(
        self, caller: Caller, key: SessionKey, interrupt_id: str, answer: str | None, arguments: JsonObject | None
    ) -> _Checked:
        """Check what HEAD can't be asked: an answer against the choices, other arguments against the tool."""
        if answer is None and arguments is None:
            return _Checked()
        head = (await self._ports.store.load(key)).head
        check_access(self._authorize, caller, key, head, "approve")
        interrupt = pending_interrupt(head, interrupt_id)
        if interrupt is None:  # the command will say so, or be found to be a repeated one
            return _Checked(answer=answer, arguments=arguments)
        if arguments is not None and interrupt.kind == "approval":
            return _Checked(version=interrupt.raised_version, arguments=self._arguments_for(head, interrupt, arguments))
        if answer is not None and interrupt.kind == "question" and not interrupt.free_text:
            answer = await self._choice(key, interrupt, answer)
        return _Checked(version=interrupt.raised_version, answer=answer, arguments=arguments)

    async def _scope(
        self, key: SessionKey, call_id: str, arguments: JsonObject | None, grant: JsonObject
    ) -> GrantScope:
        """Return what is approved ahead, with what it is compared by: the values of the call that was shown."""
        unknown = sorted(set(grant) - {"lasts_seconds", "fields", "max_uses"})
        lasts, fields, most = grant.get("lasts_seconds"), grant.get("fields", []), grant.get("max_uses")
        if unknown or type(lasts) is not int or type(fields) is not list or type(most) not in (int, type(None)):
            raise InvalidRequestError(
                "a grant is {lasts_seconds, fields?, max_uses?}: whole numbers, and a list of names of arguments"
            )
        if not 0 < lasts <= MAX_GRANT // timedelta(seconds=1):  # a timedelta would overflow
            raise InvalidRequestError(f"an approval ahead lasts up to {MAX_GRANT.days} days, not {lasts} s")
        if not all(type(name) is str for name in fields):
            raise InvalidRequestError("`fields` of a grant are names of arguments")
        fields = list(dict.fromkeys(fields))
        version = version_of(call_id)
        shown = arguments
        if shown is None and version is not None:
            log = await self._ports.store.read(key, first=version, last=version)
            parts = (part for entry in log.entries for message in entry.messages for part in message.parts)
            shown = next((p.get("arguments") for p in parts if p.get("tool_call_id") == call_id), None)
        if missing := [name for name in fields if name not in (shown or {})]:
            raise InvalidRequestError(f"call {call_id!r} has no argument {missing[0]!r} that others could be like")
        match = scope_match(tuple(fields), shown or {})
        return GrantScope(match=match, lasts=timedelta(seconds=lasts), fields=tuple(fields), max_uses=most)

    async def _choice(self, key: SessionKey, interrupt: Interrupt, answer: str) -> str:
        version = interrupt.raised_version
        entries = (await self._ports.store.read(key, first=version, last=version)).entries
        choices = questions_of(entries).get(interrupt.interrupt_id, {}).get("choices", [])
        for said in (answer, answer.strip()):
            if said in choices:
                return said
        raise InvalidRequestError(
            f"interrupt {interrupt.interrupt_id!r} takes one of its {len(choices)} choices as its answer, word for word"
        )

    def _arguments_for(self, head: Head, interrupt: Interrupt, arguments: JsonObject) -> JsonObject | None:
        """Return the arguments to run with; None: they are those that the model asked for."""
        call = head.turn.call(interrupt.call_id) if head.turn else None
        agent = self._deps.agents.get(head.agent or "")
        tool: FunctionTool | BuiltInTool | None = None
        if agent is not None and call is not None:
            tool = agent.built_in(call.tool_name) or agent.tool(call.tool_name)
        if tool is None:
            name = call.tool_name if call is not None else "?"
            raise RequestConflictError(
                f"tool {name!r} of agent {head.agent!r} is not part of this deployment, so nothing can check other "
                "arguments: approve the call as it is, or reject it",
                code="agent_missing",
            )
        try:
            changed = changed_arguments(tool, arguments)
        except ValueError as error:
            raise InvalidRequestError(str(error)) from None
        return None if content_hash(changed) == interrupt.arguments_hash else changed

    async def _ending(
        self, key: SessionKey, interrupt_id: str, error: NotFoundError | RequestConflictError
    ) -> NotFoundError | RequestConflictError:
        """Return what to tell of a decision that was refused: of an interrupt that is settled, how it was."""
        if error.code != "interrupt_not_found":
            return error
        ending = await how_it_ended(self._ports.store, key, interrupt_id)
        if ending is None:
            return error
        if ending == "deadline_passed":
            return RequestConflictError(
                f"the deadline of {interrupt_id!r} has passed: it is answered no more", code="deadline_passed"
            )
        return RequestConflictError(
            f"interrupt {interrupt_id!r} is no longer open: it was decided or withdrawn", code="not_pending"
        )

    async def _queues_late_answers(self, key: SessionKey) -> bool:
        head = await self._ports.store.peek(key)
        agent = self._deps.agents.get(head.agent or "")
        return agent is not None and agent.inbox.late_answers == "queue"

    async def _send_late(self, caller: Caller, session_id: str, late: ResolveInterrupt, text: str) -> JsonObject:
        """Let an answer that came too late be a message of its own. Its key gives the same reply again."""
        raw = RawInput(session_id=session_id, text=text, metadata=None, source="person")
        agents = tuple(self._deps.agents)
        command = SendInput(
            text=text,
            actor=caller.actor,
            default_agent=self._deps.agents.default.name,
            delivery="queue",
            policies={agent.name: agent.inbox.policy_for(raw) for agent in agents},
            credentials={agent.name: agent.credential_version() for agent in agents},
            receipts=late.receipts,
        )
        executed = await self._execute(caller, session_key(caller, session_id), command)
        return _as_queued(session_id, executed.reply)


def _still(head: Head, interrupt_id: str, checked: _Checked) -> None:
    """Refuse to decide on an interrupt that nobody had been asked about when the decision was checked."""
    if checked.answer is None and checked.arguments is None:
        return
    interrupt = pending_interrupt(head, interrupt_id)
    if interrupt is not None and interrupt.raised_version != checked.version:
        raise NotFoundError(f"no interrupt {interrupt_id!r} is pending", code="interrupt_not_found")


def _as_queued(session_id: str, reply: JsonObject) -> JsonObject:
    cursor = Cursor(version=reply["version"]).encode(session_id)
    return {"result": "queued", "message_id": reply["message_id"], "cursor": cursor}


async def how_it_ended(store: SessionStore, key: SessionKey, interrupt_id: str) -> str | None:
    """Return how an interrupt that is not open any more ended: `deadline_passed`, or `not_pending` for all else.

    None: it never was. The log is read from its call's beginning, and no further than to the call's end.
    """
    if interrupt_id.startswith(PREFIX):
        return await _how_request_ended(store, key, interrupt_id)
    asked_by_tool = _TOOLS_QUESTION.fullmatch(interrupt_id)
    call_id = asked_by_tool.group(1) if asked_by_tool else interrupt_id
    version, was_raised = version_of(call_id), False
    if version is None or not await was_asked_for(store, key, call_id):
        return None
    while True:
        log = await store.read(key, first=version, limit=ENTRIES_PER_READ)
        for event in (event for entry in log.entries for event in entry.events):
            if event.payload.get("interrupt_id") == interrupt_id:
                was_raised = True
                if event.type == "interrupt_resolved" and event.payload.get("actor") == _DEADLINE:
                    return "deadline_passed"
            if event.type == "tool_call_finished" and event.payload["tool_call_id"] == call_id:
                return "not_pending" if was_raised else None
        if not log.entries or log.entries[-1].version >= log.head.version:
            return "not_pending" if was_raised else None
        version = log.entries[-1].version + 1


async def _how_request_ended(store: SessionStore, key: SessionKey, interrupt_id: str) -> str | None:
    """Return how the latest request of a name ended, if that is among the newest entries of the log."""
    async for event in _newest_events(store, key):
        if event.type == "interrupt_resolved" and event.payload["interrupt_id"] == interrupt_id:
            return "deadline_passed" if event.payload.get("actor") == _DEADLINE else "not_pending"
    return None


async def schedule_was_set(store: SessionStore, key: SessionKey, wait_id: str) -> bool:
    """Whether a wait is that of a schedule that was set, as far as the newest entries of the log tell."""
    if not wait_id.startswith(TIMER_PREFIX):
        return False
    schedule_id = wait_id.removeprefix(TIMER_PREFIX)
    async for event in _newest_events(store, key):
        if event.type == "schedule.set" and event.payload["schedule_id"] == schedule_id:
            return True
    return False


async def _newest_events(store: SessionStore, key: SessionKey) -> AsyncIterator[Event]:
    """Yield the events of the newest entries, newest first."""
    last: int | None = None
    for _ in range(MOST_READS_BACK):
        log = await store.read(key, last=last, limit=ENTRIES_PER_READ, newest=True)
        for entry in reversed(log.entries):
            for event in reversed(entry.events):
                yield event
        if not log.entries or log.entries[0].version <= 1:
            return
        last = log.entries[0].version - 1


async def was_asked_for(store: SessionStore, key: SessionKey, call_id: str) -> bool:
    """Whether a model ever asked for a call with this id."""
    version = version_of(call_id)
    if version is None:
        return False
    entries: tuple[Entry, ...] = (await store.read(key, first=version, last=version)).entries
    parts = (part for entry in entries for message in entry.messages for part in message.parts)
    return any(part["type"] == "tool_call" and part["tool_call_id"] == call_id for part in parts)
