"""`POST /v1/ag-ui`: one run of an AG-UI client, as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from perdure.api import sse
from perdure.api.ag_ui_input import RunAgentInput
from perdure.api.ag_ui_plan import Plan, plan_of
from perdure.api.messages import ApiRequest, ApiResponse, JsonObject, StreamBrokenOffError
from perdure.api.route import COMMAND_ERRORS, Call, Route
from perdure.errors import RequestError, TransientError
from perdure.operator_events import tell
from perdure.streams.ag_ui import AgUiRun
from perdure.streams.ag_ui_ending import waits_for_people

if TYPE_CHECKING:
    from perdure.service import Caller, Service


async def _run_ag_ui(call: Call, request: ApiRequest) -> ApiResponse:
    # All that may be wrong with the input is found before the response begins: the protocol has no error in it then.
    plan = await plan_of(call.service, call.caller, call.body_as(RunAgentInput))
    pieces = _pieces(call.service, call.caller, plan, closing=request.closing)
    return ApiResponse(status=200, headers=sse.HEADERS, stream=pieces)


async def _pieces(
    service: Service, caller: Caller, plan: Plan, *, closing: asyncio.Event | None
) -> AsyncIterator[bytes]:
    """Yield the frames of a run, and a comment whenever nothing happened for a while.

    Raises:
        StreamBrokenOffError: The host closes, or what follows can't be read for now. The turn goes on, and whoever runs
            again sees it.
    """
    run = plan.run
    try:
        async for events in _events(service, caller, plan, closing=closing):
            yield b"".join(frame(event) for event in events) or sse.KEEP_ALIVE
    except StreamBrokenOffError:
        raise
    except TransientError as error:
        raise StreamBrokenOffError(f"the session can't be read now: {error.message}") from error
    except RequestError as error:
        yield b"".join(frame(event) for event in run.fail(error.code, error.message))
    except Exception as error:  # noqa: BLE001 - a stream ends with a word of its own
        tell("fault", "an AG-UI run failed unexpectedly", error=error, session_id=plan.session_id)
        message = f"something went wrong on the server ({type(error).__name__}); its log says what"
        yield b"".join(frame(event) for event in run.fail("internal", message))


async def _events(
    service: Service, caller: Caller, plan: Plan, *, closing: asyncio.Event | None
) -> AsyncIterator[list[JsonObject]]:
    """Yield the events of a run as they come; an empty list when nothing came for `sse.KEEP_ALIVE_SECONDS`."""
    run: AgUiRun = plan.run
    yield run.begin(snapshot=plan.snapshot, warnings=plan.warnings)
    if plan.cursor is None:
        yield run.finish()
        return
    cursor, waits, existed = plan.cursor, False, False
    while not run.ended:
        wait = 0.0 if waits else sse.KEEP_ALIVE_SECONDS
        following = service.feed(caller, plan.session_id, after=cursor, limit=sse.PAGE, wait_seconds=wait)
        feed = await (following if closing is None else sse.unless_closing(following, closing))
        if feed is None:
            raise StreamBrokenOffError("the host closes")
        if existed and not feed.head.exists:
            yield run.fail("session_not_found", f"session {plan.session_id!r} is gone: it was purged")
            return
        existed, cursor = feed.head.exists, feed.cursor
        if waits and not feed.items:
            yield run.interrupt()
        elif not feed.items and run.waits_for_turn and feed.head.hold is not None and feed.head.turn is None:
            yield run.fail("held", "the message waits behind a turn that has failed: run again to go on with it")
        else:
            yield [event for item in feed.items for event in run.take(item)]
            waits = bool(run.asked) and waits_for_people(feed.head)


def frame(event: JsonObject) -> bytes:
    """Return one event as a server-sent event: one line of ASCII, because readers disagree on what else ends a line."""
    return f"data: {json.dumps(event, separators=(',', ':'))}\n\n".encode()


AG_UI_ROUTES = (
    Route(
        method="POST",
        path="/v1/ag-ui",
        operation="run_ag_ui",
        doc="Run an agent for an AG-UI 1.0 client: a new message, decisions to resume by, or what goes on already.",
        stream=_run_ag_ui,
        body=RunAgentInput,
        reply=None,
        errors=COMMAND_ERRORS,
    ),
)
