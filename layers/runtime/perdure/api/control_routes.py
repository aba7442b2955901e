"""The routes that control a session: stop, retry, pause, resume, its settings, and the messages that wait."""

from __future__ import annotations

from perdure.api import result_shapes, shapes
from perdure.api.bodies import (
    ChangeBody,
    DeliverBody,
    EmptyBody,
    RetryBody,
    SettingsBody,
    StartBody,
    StopBody,
    TitleBody,
)
from perdure.api.messages import JsonObject
from perdure.api.route import COMMAND_ERRORS, SESSION, Call, Route

_MESSAGE = f"{SESSION}/inbox/{{message_id}}"


async def _start(call: Call) -> JsonObject:
    body = call.body_as(StartBody)
    return await call.service.start(
        call.caller, call.session_id, agent=body.agent, settings=body.settings, idempotency_key=call.idempotency_key
    )


async def _stop(call: Call) -> JsonObject:
    body = call.body_as(StopBody)
    return await call.service.stop(
        call.caller,
        call.session_id,
        turn_id=body.turn_id,
        message_id=body.message_id,
        step_execution_id=body.step_execution_id,
        frontier=body.frontier,
        disposition="keep" if body.disposition is None else body.disposition,
        idempotency_key=call.idempotency_key,
    )


async def _retry(call: Call) -> JsonObject:
    retry_id = call.body_as(RetryBody).retry_id
    return await call.service.retry(
        call.caller, call.session_id, retry_id=retry_id, idempotency_key=call.idempotency_key
    )


async def _pause(call: Call) -> JsonObject:
    return await call.service.pause(call.caller, call.session_id, idempotency_key=call.idempotency_key)


async def _resume(call: Call) -> JsonObject:
    return await call.service.resume(call.caller, call.session_id, idempotency_key=call.idempotency_key)


async def _title(call: Call) -> JsonObject:
    title = call.body_as(TitleBody).title
    return await call.service.set_title(call.caller, call.session_id, title, idempotency_key=call.idempotency_key)


async def _settings(call: Call) -> JsonObject:
    settings = call.body_as(SettingsBody).root
    return await call.service.update_settings(
        call.caller, call.session_id, settings, idempotency_key=call.idempotency_key
    )


async def _inbox(call: Call) -> JsonObject:
    return await call.service.inbox(call.caller, call.session_id)


async def _change(call: Call) -> JsonObject:
    body, message_id, key = call.body_as(ChangeBody), call.path["message_id"], call.idempotency_key
    if body.text is not None:
        return await call.service.edit(call.caller, call.session_id, message_id, text=body.text, idempotency_key=key)
    return await call.service.move(
        call.caller,
        call.session_id,
        message_id,
        before=body.before,
        after=body.after,
        position=body.position,
        idempotency_key=key,
    )


async def _remove(call: Call) -> JsonObject:
    return await call.service.remove(
        call.caller, call.session_id, call.path["message_id"], idempotency_key=call.idempotency_key
    )


async def _deliver(call: Call) -> JsonObject:
    return await call.service.deliver(
        call.caller,
        call.session_id,
        call.path["message_id"],
        delivery=call.body_as(DeliverBody).delivery,
        idempotency_key=call.idempotency_key,
    )


CONTROL_ROUTES: tuple[Route, ...] = (
    Route(
        method="PUT",
        path=SESSION,
        operation="start_session",
        doc="Begin a session without a message. A known one stays as it is.",
        run=_start,
        body=StartBody,
        reply=result_shapes.Recorded,
        keyed=True,
        errors=COMMAND_ERRORS,
    ),
    Route(
        method="POST",
        path=f"{SESSION}/stop",
        operation="stop",
        doc="Stop a turn, take back what waits, or dismiss a failed turn. Closing a connection never does.",
        run=_stop,
        body=StopBody,
        reply=shapes.StopResult,
        keyed=True,
        errors=COMMAND_ERRORS,
    ),
    Route(
        method="POST",
        path=f"{SESSION}/retry",
        operation="retry",
        doc="Run the failed model step of the latest turn again, or wait no longer for a reconnect.",
        run=_retry,
        body=RetryBody,
        reply=result_shapes.RetryResult,
        keyed=True,
        errors=COMMAND_ERRORS,
    ),
    Route(
        method="POST",
        path=f"{SESSION}/pause",
        operation="pause",
        doc="Let nothing new begin. What runs finishes.",
        run=_pause,
        body=EmptyBody,
        reply=result_shapes.Recorded,
        keyed=True,
        errors=COMMAND_ERRORS,
    ),
    Route(
        method="POST",
        path=f"{SESSION}/resume",
        operation="resume",
        doc="Let everything that is ready begin again.",
        run=_resume,
        body=EmptyBody,
        reply=result_shapes.Recorded,
        keyed=True,
        errors=COMMAND_ERRORS,
    ),
    Route(
        method="PUT",
        path=f"{SESSION}/title",
        operation="set_title",
        doc="Name the session. A person's title stays, whatever a model would call it.",
        run=_title,
        body=TitleBody,
        reply=result_shapes.Recorded,
        keyed=True,
        errors=COMMAND_ERRORS,
    ),
    Route(
        method="PUT",
        path=f"{SESSION}/settings",
        operation="update_settings",
        doc="Replace the session's settings whole. The running turn keeps those that it began with.",
        run=_settings,
        body=SettingsBody,
        reply=result_shapes.Recorded,
        keyed=True,
        errors=COMMAND_ERRORS,
    ),
    Route(
        method="GET",
        path=f"{SESSION}/inbox",
        operation="get_inbox",
        doc="Messages that wait for their turn.",
        run=_inbox,
        reply=shapes.Inbox,
        errors=(404,),
    ),
    Route(
        method="PATCH",
        path=_MESSAGE,
        operation="change_message",
        doc="Edit a waiting message, or move it among those of its class.",
        run=_change,
        body=ChangeBody,
        reply=result_shapes.Recorded,
        keyed=True,
        errors=COMMAND_ERRORS,
    ),
    Route(
        method="DELETE",
        path=_MESSAGE,
        operation="remove_message",
        doc="Take a waiting message back; the reply holds what it said.",
        run=_remove,
        reply=result_shapes.Removed,
        keyed=True,
        errors=(404, 409, 429),
    ),
    Route(
        method="POST",
        path=f"{_MESSAGE}/deliver",
        operation="deliver_message",
        doc="Deliver a waiting message in another way: now, into the running turn, or instead of it.",
        run=_deliver,
        body=DeliverBody,
        reply=result_shapes.Delivered,
        keyed=True,
        errors=COMMAND_ERRORS,
    ),
)
