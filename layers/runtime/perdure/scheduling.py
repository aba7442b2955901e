"""The operations on a session's schedules, and on what people approved ahead."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from perdure.agents.built_ins import MAX_SCHEDULE_ID
from perdure.checks import (
    MAX_METADATA_BYTES,
    Caller,
    check_metadata,
    check_name,
    check_text,
    check_unicode,
    claims,
    json_bytes,
    session_key,
)
from perdure.core.codec import format_time
from perdure.core.control_commands import RequestValue, RevokeGrant, WithdrawRequest
from perdure.core.entries import ScheduleSpec
from perdure.core.head import Schedule
from perdure.core.ids import key_hash, version_of
from perdure.core.limits import MAX_WAIT
from perdure.core.schedule_commands import CancelSchedule, SetSchedule
from perdure.core.schedules import find_schedule
from perdure.errors import InvalidRequestError
from perdure.operations import Operations
from perdure.ports import SessionKey

JsonObject = dict[str, Any]

WHEN = ("at", "after", "every", "time_zone")
MAX_PROMPT_CHARACTERS = 4000
"""Longest prompt for a value, in characters. Our own choice: every snapshot has it."""

MAX_TRIES = 1000
"""Tries of one occurrence, and the default (spec SCHD-03)."""


class ScheduleOperations(Operations):
    """Every method raises `RequestError` for a caller's fault."""

    async def set_schedule(
        self,
        caller: Caller,
        session_id: str,
        *,
        text: str,
        when: JsonObject,
        schedule_id: str | None = None,
        metadata: JsonObject | None = None,
        delivery: str | None = None,
        max_attempts: int = MAX_TRIES,
        agent: str | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Have a message come at a time, or every so often. Returns `{schedule_id, next_at}`.

        The same again under the same id changes nothing. A session may begin with a schedule.

        Args:
            when: Exactly one of `at`, `after` and `every`, with a `time_zone` where one is needed.
            schedule_id: 1 to 64 characters, no id that Perdure makes. None: one is made.
            delivery: As of a message; None: `queue`.
            max_attempts: Tries to deliver one occurrence, 1 to 1,000.
            agent: Of a new session; None: the first one.
        """
        key = session_key(caller, session_id)
        if agent is not None:
            self._check_agent(agent)
        if schedule_id is not None:
            check_schedule_id(schedule_id)
        elif idempotency_key is not None:
            schedule_id = f"s-{key_hash(idempotency_key)[:16]}"
        else:
            schedule_id = f"s-{self._ports.new_id()[:16]}"
        _check(text, metadata, max_attempts)
        content = {"text": text, "when": when, "metadata": metadata, "delivery": delivery, "agent": agent}
        command = SetSchedule(
            schedule_id=schedule_id,
            text=text,
            when=when,
            actor=caller.actor,
            metadata=metadata,
            delivery=delivery,
            max_attempts=max_attempts,
            agent=agent,
            default_agent=self._deps.agents.default.name,
            receipts=claims(idempotency_key, {"operation": "schedule", "schedule_id": schedule_id, **content}),
        )
        return (await self._execute(caller, key, command)).reply

    async def change_schedule(
        self,
        caller: Caller,
        session_id: str,
        schedule_id: str,
        *,
        text: str | None = None,
        when: JsonObject | None = None,
        metadata: JsonObject | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Change what a schedule says, or when; what is left out stays. Returns `{schedule_id, next_at}`.

        A new `when` counts from now; without one the next time stays. To move only the next occurrence, change the wait
        `schedule:<schedule_id>`.

        Raises:
            NotFoundError: `schedule_not_found`.
            RequestConflictError: `stale_revision`: somebody else has changed it meanwhile.
        """
        key = session_key(caller, session_id)
        head = await self._visible(caller, key)
        schedule = find_schedule(head, schedule_id) if head is not None else None
        spec = await self._spec(key, schedule) if schedule is not None else None
        if text is None and when is None and metadata is None:
            raise InvalidRequestError("nothing to change: send `text`, `metadata`, or one of `at`, `after`, `every`")
        if schedule is None or spec is None:  # refused when it is decided: a repeated one gets its first reply again
            schedule, spec = None, ScheduleSpec(schedule_id=schedule_id, text="-", when={}, actor=caller.actor)
        command = SetSchedule(
            schedule_id=schedule_id,
            text=spec.text if text is None else text,
            when=spec.when if when is None else when,
            actor=caller.actor,
            metadata=spec.metadata if metadata is None else metadata,
            delivery=spec.delivery,
            max_attempts=spec.max_attempts,
            changes=schedule.version if schedule is not None else 0,
            keeps_time=when is None,
            receipts=claims(
                idempotency_key,
                {
                    "operation": "change_schedule",
                    "schedule_id": schedule_id,
                    "text": text,
                    "when": when,
                    "metadata": metadata,
                },
            ),
        )
        _check(command.text, command.metadata, command.max_attempts)
        return (await self._execute(caller, key, command)).reply

    async def cancel_schedule(
        self, caller: Caller, session_id: str, schedule_id: str, *, idempotency_key: str | None = None
    ) -> JsonObject:
        """Forget a schedule. Returns `{"result": "recorded"}`. A message that it has sent stays.

        Raises:
            NotFoundError: `schedule_not_found`: there is none, or it is over.
        """
        key = session_key(caller, session_id)
        content = {"operation": "cancel_schedule", "schedule_id": schedule_id}
        command = CancelSchedule(schedule_id=schedule_id, actor=caller.actor, receipts=claims(idempotency_key, content))
        return (await self._execute(caller, key, command)).reply

    async def schedules(self, caller: Caller, session_id: str) -> JsonObject:
        """Return `{schedules}`, the next one first."""
        key = session_key(caller, session_id)
        head = await self._visible(caller, key)
        shown = []
        for schedule in sorted(head.schedules, key=lambda each: each.due_at) if head is not None else ():
            spec = await self._spec(key, schedule)
            if spec is not None:
                shown.append(schedule_shown(schedule, spec))
        return {"schedules": shown}

    async def revoke_grant(
        self, caller: Caller, session_id: str, grant_id: str, *, idempotency_key: str | None = None
    ) -> JsonObject:
        """Take back an approval that was given ahead. Returns `{"result": "recorded"}`.

        Raises:
            NotFoundError: `grant_not_found`: there is none, or it is over.
        """
        key = session_key(caller, session_id)
        receipts = claims(idempotency_key, {"operation": "revoke_grant", "grant_id": grant_id})
        return (
            await self._execute(caller, key, RevokeGrant(grant_id=grant_id, actor=caller.actor, receipts=receipts))
        ).reply

    async def request_value(
        self,
        caller: Caller,
        session_id: str,
        name: str,
        *,
        prompt: str,
        schema: JsonObject | None = None,
        deadline: timedelta | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Ask people for a value; trusted code only (spec APPR-15). Returns `{interrupt_id}`."""
        key = session_key(caller, session_id)
        check_schedule_id(name)
        check_text(prompt, "prompt")
        if len(prompt) > MAX_PROMPT_CHARACTERS:
            raise InvalidRequestError(f"prompt is longer than {MAX_PROMPT_CHARACTERS} characters: ask in fewer words")
        if schema is not None and len(json_bytes(schema, "schema")) > MAX_METADATA_BYTES:
            raise InvalidRequestError(f"schema is larger than {MAX_METADATA_BYTES} bytes of JSON: send less of it")
        if deadline is not None and not timedelta(0) < deadline <= MAX_WAIT:
            raise InvalidRequestError(f"a deadline is up to {MAX_WAIT.days} days, not {deadline}")
        content = {"operation": "request_value", "name": name, "prompt": prompt, "schema": schema}
        command = RequestValue(
            name=name,
            prompt=prompt,
            actor=caller.actor,
            schema=schema,
            deadline=deadline,
            receipts=claims(idempotency_key, content | {"deadline": deadline.total_seconds() if deadline else None}),
        )
        return (await self._execute(caller, key, command)).reply

    async def withdraw_request(
        self, caller: Caller, session_id: str, name: str, *, idempotency_key: str | None = None
    ) -> JsonObject:
        """Ask for a value no more; trusted code only. Returns `{"result": "recorded"}`."""
        key = session_key(caller, session_id)
        receipts = claims(idempotency_key, {"operation": "withdraw_request", "name": name})
        return (
            await self._execute(caller, key, WithdrawRequest(name=name, actor=caller.actor, receipts=receipts))
        ).reply

    async def _spec(self, key: SessionKey, schedule: Schedule) -> ScheduleSpec | None:
        log = await self._ports.store.read(key, first=schedule.version, last=schedule.version)
        specs = (spec for entry in log.entries for spec in entry.schedules)
        return next((spec for spec in specs if spec.schedule_id == schedule.schedule_id), None)


def schedule_shown(schedule: Schedule, spec: ScheduleSpec) -> JsonObject:
    """Return a schedule as everybody sees it."""
    shown: JsonObject = {
        "schedule_id": schedule.schedule_id,
        "text": spec.text,
        "when": spec.when,
        "next_at": format_time(schedule.due_at),
        "delivery": spec.delivery or "queue",
        "recurring": spec.every is not None,
    }
    if schedule.attempt > 1:
        shown["attempt"] = schedule.attempt
    if spec.metadata is not None:
        shown["metadata"] = spec.metadata
    return shown


def check_schedule_id(schedule_id: str) -> None:
    """Refuse what is no id of a schedule, or name of a value.

    Raises:
        InvalidRequestError: It is empty, too long, or one that Perdure makes.
    """
    check_name(schedule_id, "schedule_id", MAX_SCHEDULE_ID)
    if version_of(schedule_id) is not None or ":" in schedule_id:
        raise InvalidRequestError(
            f"schedule_id {schedule_id!r} holds a colon or looks like an id that Perdure makes: choose another form"
        )


def _check(text: str, metadata: JsonObject | None, max_attempts: int) -> None:
    check_text(text, "text")
    check_unicode(text, "text")
    check_metadata(metadata)
    if not 1 <= max_attempts <= MAX_TRIES:
        raise InvalidRequestError(f"max_attempts is 1 to {MAX_TRIES}, not {max_attempts}")
