"""The schedules of a session: messages that come by themselves, the same in one process and over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from perdure.errors import InvalidRequestError
from perdure.session_controls import with_key

if TYPE_CHECKING:
    from perdure.service import Caller, Service

JsonObject = dict[str, Any]

Every = str | timedelta | Mapping[str, int]
"""A five-field cron expression, or an interval."""


class ScheduleApi(Protocol):
    """The schedules of one caller's sessions. The methods return the bodies of docs/concepts/schedules.md."""

    async def set_schedule(
        self,
        session_id: str,
        *,
        text: str,
        when: JsonObject,
        schedule_id: str | None = None,
        metadata: JsonObject | None = None,
        delivery: str | None = None,
        max_attempts: int = 1000,
        agent: str | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject: ...

    async def change_schedule(
        self,
        session_id: str,
        schedule_id: str,
        *,
        text: str | None = None,
        when: JsonObject | None = None,
        metadata: JsonObject | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject: ...

    async def cancel_schedule(
        self, session_id: str, schedule_id: str, *, idempotency_key: str | None = None
    ) -> JsonObject: ...

    async def schedules(self, session_id: str) -> JsonObject: ...

    async def revoke_grant(
        self, session_id: str, grant_id: str, *, idempotency_key: str | None = None
    ) -> JsonObject: ...

    async def request_value(
        self,
        session_id: str,
        name: str,
        *,
        prompt: str,
        schema: JsonObject | None = None,
        deadline: timedelta | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject: ...

    async def withdraw_request(
        self, session_id: str, name: str, *, idempotency_key: str | None = None
    ) -> JsonObject: ...


class BoundSchedules:
    """The same of the service of this process, bound to one caller: a `ScheduleApi`."""

    _service: Service
    _caller: Caller

    async def set_schedule(self, session_id: str, **arguments: Any) -> JsonObject:
        return await self._service.set_schedule(self._caller, session_id, **arguments)

    async def change_schedule(self, session_id: str, schedule_id: str, **arguments: Any) -> JsonObject:
        return await self._service.change_schedule(self._caller, session_id, schedule_id, **arguments)

    async def cancel_schedule(self, session_id: str, schedule_id: str, **arguments: Any) -> JsonObject:
        return await self._service.cancel_schedule(self._caller, session_id, schedule_id, **arguments)

    async def schedules(self, session_id: str) -> JsonObject:
        return await self._service.schedules(self._caller, session_id)

    async def revoke_grant(self, session_id: str, grant_id: str, **arguments: Any) -> JsonObject:
        return await self._service.revoke_grant(self._caller, session_id, grant_id, **arguments)

    async def request_value(self, session_id: str, name: str, **arguments: Any) -> JsonObject:
        return await self._service.request_value(self._caller, session_id, name, **arguments)

    async def withdraw_request(self, session_id: str, name: str, **arguments: Any) -> JsonObject:
        return await self._service.withdraw_request(self._caller, session_id, name, **arguments)


class SessionSchedules:
    """What a `Session` can have come by itself."""

    session_id: str
    _schedules: ScheduleApi
    _new_key: Callable[[], str]

    async def schedule(
        self,
        text: str,
        *,
        at: datetime | str | None = None,
        after: timedelta | Mapping[str, int] | None = None,
        every: Every | None = None,
        time_zone: str | None = None,
        schedule_id: str | None = None,
        metadata: JsonObject | None = None,
        delivery: str | None = None,
        max_attempts: int = 1000,
        agent: str | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Have a message come at a time, or every so often. Returns `{schedule_id, next_at}`.

        Exactly one of `at`, `after` and `every`. The same again under the same id changes nothing; another content is
        the conflict `schedule_exists`. A session may begin with a schedule.

        Args:
            at: A time with an offset, or without one and with a `time_zone`; eight years ahead at most.
            after: From now; 1 s to 365 days.
            every: A cron expression of five fields, or an interval of a minute at least; needs a `time_zone`.
            time_zone: An IANA name. docs/concepts/schedules.md says what happens when its clocks are changed.
            schedule_id: 1 to 64 characters. None: one is made.
            delivery: How the message reaches an agent at work; None: `queue`.
            max_attempts: Tries to deliver one occurrence, 1 to 1,000.
            agent: Of a new session; None: the first one.
        """
        key = self._new_key() if idempotency_key is None else idempotency_key
        setting = self._schedules.set_schedule(
            self.session_id,
            text=text,
            when=when_of(at=at, after=after, every=every, time_zone=time_zone),
            schedule_id=schedule_id,
            metadata=metadata,
            delivery=delivery,
            max_attempts=max_attempts,
            agent=agent,
            idempotency_key=key,
        )
        return await with_key(key, setting)

    async def change_schedule(
        self,
        schedule_id: str,
        *,
        text: str | None = None,
        at: datetime | str | None = None,
        after: timedelta | Mapping[str, int] | None = None,
        every: Every | None = None,
        time_zone: str | None = None,
        metadata: JsonObject | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Change what a schedule says, or when; what is left out stays. Returns `{schedule_id, next_at}`.

        To move only the next message, `change_wait("schedule:<schedule_id>", until)`; `skip_wait` sends it now.
        """
        key = self._new_key() if idempotency_key is None else idempotency_key
        when = when_of(at=at, after=after, every=every, time_zone=time_zone)
        changing = self._schedules.change_schedule(
            self.session_id, schedule_id, text=text, when=when or None, metadata=metadata, idempotency_key=key
        )
        return await with_key(key, changing)

    async def cancel_schedule(self, schedule_id: str, *, idempotency_key: str | None = None) -> JsonObject:
        """Forget a schedule. Returns `{"result": "recorded"}`."""
        key = self._new_key() if idempotency_key is None else idempotency_key
        return await with_key(key, self._schedules.cancel_schedule(self.session_id, schedule_id, idempotency_key=key))

    async def schedules(self) -> list[JsonObject]:
        """Return the schedules, the next one first."""
        found: list[JsonObject] = (await self._schedules.schedules(self.session_id))["schedules"]
        return found

    async def revoke_grant(self, grant_id: str, *, idempotency_key: str | None = None) -> JsonObject:
        """Take back an approval that was given ahead. Returns `{"result": "recorded"}`."""
        key = self._new_key() if idempotency_key is None else idempotency_key
        return await with_key(key, self._schedules.revoke_grant(self.session_id, grant_id, idempotency_key=key))

    # --- trusted code only: over HTTP these are a `ForbiddenError` ---------------------------------------------------

    async def request_value(
        self,
        name: str,
        prompt: str,
        *,
        schema: JsonObject | None = None,
        deadline: timedelta | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Ask people for a value, as the interrupt `input:<name>`. Returns `{interrupt_id}`.

        It is answered by `give(interrupt_id, value)`. The value reaches a model only if the agent's instructions use
        it (`InstructionContext.values`).

        Args:
            name: 1 to 64 characters without a colon; the latest value of a name counts.
            schema: JSON Schema of the value, for whoever shows a form. Nothing checks the value against it.
            deadline: How long people have, 365 days at most. None: for ever.
        """
        key = self._new_key() if idempotency_key is None else idempotency_key
        asking = self._schedules.request_value(
            self.session_id, name, prompt=prompt, schema=schema, deadline=deadline, idempotency_key=key
        )
        return await with_key(key, asking)

    async def withdraw_request(self, name: str, *, idempotency_key: str | None = None) -> JsonObject:
        """Ask for a value no more. Returns `{"result": "recorded"}`."""
        key = self._new_key() if idempotency_key is None else idempotency_key
        return await with_key(key, self._schedules.withdraw_request(self.session_id, name, idempotency_key=key))


def when_of(
    *,
    at: datetime | str | None,
    after: timedelta | Mapping[str, int] | None,
    every: Every | None,
    time_zone: str | None,
) -> JsonObject:
    """Return a time as it travels.

    Raises:
        InvalidRequestError: A duration has a fraction of a second.
    """
    when: JsonObject = {
        "at": at.isoformat() if isinstance(at, datetime) else at,
        "after": _duration(after, "after"),
        "every": every if isinstance(every, str) else _duration(every, "every"),
        "time_zone": time_zone,
    }
    return {name: value for name, value in when.items() if value is not None}


def _duration(given: timedelta | Mapping[str, int] | None, name: str) -> JsonObject | None:
    if given is None:
        return None
    if isinstance(given, timedelta):
        if given % timedelta(seconds=1):
            raise InvalidRequestError(f"{name} must be whole seconds, not {given}")
        return {"seconds": given // timedelta(seconds=1)}
    return dict(given)
