"""The routes that tell why a session waits, and change, skip or cancel a wait."""

from __future__ import annotations

from perdure.api import result_shapes
from perdure.api.bodies import ChangeWaitBody, EmptyBody
from perdure.api.messages import JsonObject
from perdure.api.route import COMMAND_ERRORS, SESSION, Call, Route

_WAIT = f"{SESSION}/waits/{{wait_id}}"


async def _waits(call: Call) -> JsonObject:
    return await call.service.waits(call.caller, call.session_id)


async def _change(call: Call) -> JsonObject:
    return await call.service.change_wait(
        call.caller,
        call.session_id,
        call.path["wait_id"],
        until=call.body_as(ChangeWaitBody).until,
        idempotency_key=call.idempotency_key,
    )


async def _skip(call: Call) -> JsonObject:
    return await call.service.skip_wait(
        call.caller, call.session_id, call.path["wait_id"], idempotency_key=call.idempotency_key
    )


async def _cancel(call: Call) -> JsonObject:
    return await call.service.cancel_wait(
        call.caller, call.session_id, call.path["wait_id"], idempotency_key=call.idempotency_key
    )


WAIT_ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path=f"{SESSION}/waits",
        operation="list_waits",
        doc="Why the session waits: since when, until when, who can end it, and the requests that do.",
        run=_waits,
        reply=result_shapes.Waits,
        errors=(404,),
    ),
    Route(
        method="PATCH",
        path=_WAIT,
        operation="change_wait",
        doc="Give a wait, a question or an approval another time.",
        run=_change,
        body=ChangeWaitBody,
        reply=result_shapes.Recorded,
        keyed=True,
        errors=COMMAND_ERRORS,
    ),
    Route(
        method="POST",
        path=f"{_WAIT}/skip",
        operation="skip_wait",
        doc="Wait no longer for a time to come.",
        run=_skip,
        body=EmptyBody,
        reply=result_shapes.Recorded,
        keyed=True,
        errors=COMMAND_ERRORS,
    ),
    Route(
        method="DELETE",
        path=_WAIT,
        operation="cancel_wait",
        doc="End a wait without what it was for; remote work is asked to stop.",
        run=_cancel,
        reply=result_shapes.Recorded,
        keyed=True,
        errors=(404, 409, 429),
    ),
)
