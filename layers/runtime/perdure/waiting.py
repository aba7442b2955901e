"""Why a session waits, and what people do about it: skip a wait, give it another time, cancel it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from perdure.access import check_access
from perdure.answering import how_it_ended, schedule_was_set, was_asked_for
from perdure.checks import Caller, claims, session_key
from perdure.core.commands import Command
from perdure.core.entries import Entry
from perdure.core.head import Head
from perdure.core.interrupts import pending_interrupt
from perdure.core.wait_commands import CancelWait, ChangeWait, SkipWait
from perdure.core.waits_view import OPERATOR, versions_shown, waits_of
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError
from perdure.operations import Operations
from perdure.ports import SessionKey
from perdure.steps.commit import Executed
from perdure.steps.waking import wait_details

JsonObject = dict[str, Any]

_RFC_3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)


class WaitOperations(Operations):
    """The operations on what a session waits for. Every method raises `RequestError` for a caller's fault."""

    async def waits(self, caller: Caller, session_id: str) -> JsonObject:
        """Return `{"waits": […]}`: what keeps the session from going on by itself, and what would end each wait.

        One that was never written waits for nothing. `core.waits_view` has the form.
        """
        key = session_key(caller, session_id)
        head = await self._visible(caller, key)
        if head is None:
            return {"waits": []}
        entries: list[Entry] = []
        for version in versions_shown(head):
            entries += (await self._ports.store.read(key, first=version, last=version)).entries
        shown = waits_of(session_id, head, entries)
        return {"waits": [self._as_runnable_here(head, wait) for wait in shown]}

    def _as_runnable_here(self, head: Head, wait: JsonObject) -> JsonObject:
        """Say of an approval that this deployment can't run its call: only rejecting is left (field case F043)."""
        if wait["kind"] != "approval" or not self._is_missing(head.agent, wait["tool_name"]):
            return wait
        title = f"{wait['tool_name']} of agent {head.agent} waits for an approval, and is not part of this deployment."
        calls = [call for call in wait["calls"] if not call.get("body", {}).get("approved")]
        who = [OPERATOR, *wait["unblocked_by"]]
        return wait | {"title": title, "blocked": "agent_missing", "unblocked_by": who, "calls": calls}

    async def skip_wait(
        self, caller: Caller, session_id: str, wait_id: str, *, idempotency_key: str | None = None
    ) -> JsonObject:
        """Do not wait for a time any longer: go on as if it had come. Returns `{"result": "recorded"}`."""
        key = session_key(caller, session_id)
        head = (await self._ports.store.load(key)).head
        check_access(self._authorize, caller, key, head, "control")  # before a hook of the agent's is asked
        command = SkipWait(
            wait_id=wait_id,
            actor=caller.actor,
            details=await wait_details(self._deps, key, head, wait_id),
            receipts=claims(idempotency_key, {"operation": "skip_wait", "wait_id": wait_id}),
        )
        return (await self._on_wait(caller, key, wait_id, command)).reply

    async def change_wait(
        self,
        caller: Caller,
        session_id: str,
        wait_id: str,
        *,
        until: str | datetime | None,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Give a wait, a question or an approval another time. One that has passed ends it at once.

        Args:
            until: RFC 3339 with an offset, at most 365 days away. None: no time at all, of what can do without one.
        """
        key = session_key(caller, session_id)
        moment = time_of(until, "until") if until is not None else None
        said = until.isoformat() if isinstance(until, datetime) else until
        receipts = claims(idempotency_key, {"operation": "change_wait", "wait_id": wait_id, "until": said})
        command = ChangeWait(wait_id=wait_id, until=moment, actor=caller.actor, receipts=receipts)
        return (await self._on_wait(caller, key, wait_id, command)).reply

    async def cancel_wait(
        self, caller: Caller, session_id: str, wait_id: str, *, idempotency_key: str | None = None
    ) -> JsonObject:
        """End a wait without what it was for; the model is told. Remote work is asked to stop."""
        key = session_key(caller, session_id)
        receipts = claims(idempotency_key, {"operation": "cancel_wait", "wait_id": wait_id})
        command = CancelWait(wait_id=wait_id, actor=caller.actor, receipts=receipts)
        return (await self._on_wait(caller, key, wait_id, command)).reply

    async def _on_wait(self, caller: Caller, key: SessionKey, wait_id: str, command: Command) -> Executed:
        """Carry out a command on a wait; for one that is over say so.

        Raises:
            NotFoundError: `wait_not_found`: it never was.
            RequestConflictError: `not_pending`: nothing waits there (any more).
            InvalidRequestError: Somebody is asked there: they answer, approve or decline.
        """
        try:
            return await self._execute(
                caller, key, command, check=lambda head: _refuse_for_interrupt(head, wait_id, command)
            )
        except NotFoundError as error:
            if error.code != "wait_not_found" or not await self._was_there(key, wait_id):
                raise
            raise RequestConflictError(
                f"{wait_id!r} waits for nothing that this could change (any more): read the session's waits again",
                code="not_pending",
            ) from None

    async def _was_there(self, key: SessionKey, wait_id: str) -> bool:
        store = self._ports.store
        asked = await was_asked_for(store, key, wait_id) or await how_it_ended(store, key, wait_id) is not None
        return asked or await schedule_was_set(store, key, wait_id)


def _refuse_for_interrupt(head: Head, wait_id: str, command: Command) -> None:
    if isinstance(command, ChangeWait):
        return
    interrupt = pending_interrupt(head, wait_id)
    if interrupt is not None:
        decide = "approve or reject it" if interrupt.kind == "approval" else "answer or decline it"
        raise InvalidRequestError(f"{wait_id!r} waits for a person: {decide}")


def time_of(value: str | datetime, name: str) -> datetime:
    """Return a time that somebody gave, in UTC and whole milliseconds.

    Raises:
        InvalidRequestError: It is no RFC 3339 time with an offset, or none that a calendar has.
    """
    try:
        moment = value if isinstance(value, datetime) else _parsed(value)
        if moment.tzinfo is None:
            raise ValueError("it has no offset")
        in_utc = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidRequestError(
            f"`{name}` is no time with an offset: send one such as 2027-01-31T09:00:00Z or 2027-01-31T09:00:00+01:00"
        ) from None
    return in_utc - timedelta(microseconds=in_utc.microsecond % 1000)


def _parsed(text: str) -> datetime:
    found = _RFC_3339.fullmatch(text)
    if found is None:
        raise ValueError("it is no RFC 3339 time")
    day, time, fraction, offset = found.groups()
    return datetime.fromisoformat(f"{day}T{time}{(fraction or '')[:7]}{'+00:00' if offset in 'Zz' else offset}")
