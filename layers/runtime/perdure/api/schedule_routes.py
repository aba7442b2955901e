"""The routes of a session's schedules, and of approvals that were given ahead."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from perdure.api import result_shapes
from perdure.api.bodies import Body, Delivery
from perdure.api.messages import JsonObject
from perdure.api.route import COMMAND_ERRORS, SESSION, Call, Route
from perdure.scheduling import MAX_TRIES, WHEN

_SCHEDULES = f"{SESSION}/schedules"
_SCHEDULE = f"{_SCHEDULES}/{{schedule_id}}"

Duration = dict[str, int]


class WhenBody(Body):
    """When. Exactly one of `at`, `after` and `every`."""

    at: Annotated[str | None, Field(description="RFC 3339 with an offset; or without one and with a `time_zone`.")] = (
        None
    )
    after: Annotated[
        Duration | None, Field(description="From now: weeks, days, hours, minutes, seconds, which add up.")
    ] = None
    every: Annotated[
        str | Duration | None, Field(description="A five-field cron expression, or an interval. Needs a `time_zone`.")
    ] = None
    time_zone: Annotated[str | None, Field(description="IANA name, such as `Europe/Berlin`.")] = None

    def when(self) -> JsonObject:
        return {name: value for name in WHEN if (value := getattr(self, name)) is not None}


class ScheduleBody(WhenBody):
    """A message that comes by itself."""

    text: str
    schedule_id: Annotated[str | None, Field(description="1 to 64 characters; ours when absent.")] = None
    metadata: Annotated[dict[str, Any] | None, Field(description="Goes with each message.")] = None
    delivery: Annotated[Delivery | None, Field(description="As of a message. Absent: `queue`.")] = None
    max_attempts: Annotated[int | None, Field(description=f"Tries of one occurrence; {MAX_TRIES} when absent.")] = None
    agent: Annotated[str | None, Field(description="Of a new session; absent: the first one.")] = None


class ScheduleChange(WhenBody):
    """What is to be another; what is absent stays. A new time counts from now."""

    text: str | None = None
    metadata: dict[str, Any] | None = None


class ScheduleSet(BaseModel):
    """A schedule holds. `next_at`: when its next message comes."""

    schedule_id: str
    next_at: str


class Schedule(ScheduleSet):
    """A schedule."""

    text: str
    when: Annotated[dict[str, Any], Field(description="As it was asked for.")]
    delivery: Delivery
    recurring: bool
    attempt: Annotated[int | None, Field(description="Try of the next occurrence; absent for the first.")] = None
    metadata: dict[str, Any] | None = None


class Schedules(BaseModel):
    """A session's schedules, the next one first."""

    schedules: list[Schedule]


async def _list(call: Call) -> JsonObject:
    return await call.service.schedules(call.caller, call.session_id)


async def _set(call: Call) -> JsonObject:
    body = call.body_as(ScheduleBody)
    return await call.service.set_schedule(
        call.caller,
        call.session_id,
        text=body.text,
        when=body.when(),
        schedule_id=body.schedule_id,
        metadata=body.metadata,
        delivery=body.delivery,
        max_attempts=MAX_TRIES if body.max_attempts is None else body.max_attempts,
        agent=body.agent,
        idempotency_key=call.idempotency_key,
    )


async def _change(call: Call) -> JsonObject:
    body = call.body_as(ScheduleChange)
    return await call.service.change_schedule(
        call.caller,
        call.session_id,
        call.path["schedule_id"],
        text=body.text,
        when=body.when() or None,
        metadata=body.metadata,
        idempotency_key=call.idempotency_key,
    )


async def _cancel(call: Call) -> JsonObject:
    return await call.service.cancel_schedule(
        call.caller, call.session_id, call.path["schedule_id"], idempotency_key=call.idempotency_key
    )


async def _revoke(call: Call) -> JsonObject:
    return await call.service.revoke_grant(
        call.caller, call.session_id, call.path["grant_id"], idempotency_key=call.idempotency_key
    )


SCHEDULE_ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path=_SCHEDULES,
        operation="list_schedules",
        doc="Messages that come by themselves, the next one first.",
        run=_list,
        reply=Schedules,
        errors=(404,),
    ),
    Route(
        method="POST",
        path=_SCHEDULES,
        operation="set_schedule",
        doc="Have a message come at a time, or every so often. The same again under the same id changes nothing.",
        run=_set,
        body=ScheduleBody,
        reply=ScheduleSet,
        keyed=True,
        errors=COMMAND_ERRORS,
    ),
    Route(
        method="PATCH",
        path=_SCHEDULE,
        operation="change_schedule",
        doc="Change what a schedule says, or when.",
        run=_change,
        body=ScheduleChange,
        reply=ScheduleSet,
        keyed=True,
        errors=COMMAND_ERRORS,
    ),
    Route(
        method="DELETE",
        path=_SCHEDULE,
        operation="cancel_schedule",
        doc="Forget a schedule. A message that it has sent stays.",
        run=_cancel,
        reply=result_shapes.Recorded,
        keyed=True,
        errors=COMMAND_ERRORS,
    ),
    Route(
        method="DELETE",
        path=f"{SESSION}/grants/{{grant_id}}",
        operation="revoke_grant",
        doc="Take back an approval that was given ahead.",
        run=_revoke,
        reply=result_shapes.Recorded,
        keyed=True,
        errors=COMMAND_ERRORS,
    ),
)
