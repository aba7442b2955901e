"""POST /v1/ag-ui: wrong input is an HTTP error, and what goes wrong on the way is told once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from perdure.api.ag_ui_input import MAX_RUN_ID
from perdure.api.messages import StreamBrokenOffError
from perdure.core.head import Head
from perdure.errors import StoreUnavailableError, UnauthorizedError
from perdure.testing.fixtures import Stage
from tests.unit.api.ag_ui.runs import (
    AgUiClient,
    cancelled,
    read,
)
from tests.unit.api.builders import Api, a_caller
from tests.unit.streams.ag_ui_client import verified

JsonObject = dict[str, Any]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"threadId": ...}, "threadId"),
        ({"runId": ...}, "runId"),
        ({"messages": ...}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "user", "content": "hi"}]}, "messages.0.id"),
        ({"messages": [{"id": "u-1", "role": "user", "content": 7}]}, "u-1"),
        ({"messages": [{"id": "u-1", "role": "user", "content": [7]}]}, "u-1"),
        ({"messages": [{"id": "u-1", "role": "user", "content": " "}]}, "text"),
        ({"messages": [{"id": "message-1-0", "role": "user", "content": "hi"}]}, "message-1-0"),
        ({"threadId": "no spaces"}, "session id"),
        ({"runId": ""}, "runId"),
        ({"runId": "r" * (MAX_RUN_ID + 1)}, "runId"),
        ({"resume": [{"interruptId": "call-2-0", "status": "maybe"}]}, "resume.0.status"),
        ({"resume": [cancelled("call-2-0"), cancelled("call-2-0")]}, "call-2-0"),
        ({"forwardedProps": {"agent": 7}}, "agent"),
        ({"forwardedProps": {"agent": "nobody"}}, "nobody"),
    ],
)
async def test_a_wrong_input_is_an_http_error_that_names_it(client: AgUiClient, wrong: JsonObject, named: str) -> None:
    status, code, message = await client.says("hi").refused(**wrong)

    assert (status, code) == (400, "invalid_request")
    assert named in message


async def test_input_that_we_do_not_know_is_left_aside(client: AgUiClient) -> None:
    events = await client.says("hi").run(protocolVersion="9.9", state={"a": 1}, novelty=[1], parentRunId="run-0")

    assert events[0]["parentRunId"] == "run-0"
    assert events[-1]["outcome"] == {"type": "success"}


async def test_another_agent_than_the_sessions_is_refused(client: AgUiClient) -> None:
    await client.says("hi").run()

    assert (await client.says("on").refused(forwardedProps={"agent": "other"}))[:2] == (409, "agent_mismatch")


async def test_only_json_and_only_a_known_caller_may_run(client: AgUiClient) -> None:
    assert (await client.says("hi").refused(headers={"content-type": "text/plain"}))[0] == 415
    assert (await client.refused(caller=None))[:2] == (401, "unauthorized")


async def test_somebody_elses_session_is_not_found(client: AgUiClient, stage: Stage) -> None:
    local = a_caller("somebody", tenant="local")
    await client.says("hi").run()

    response = await AgUiClient(stage).says("hi").post(caller=local)

    assert response.status == 404


async def test_a_host_that_can_not_stream_says_so(client: AgUiClient) -> None:
    status, code, message = await client.says("hi").refused(can_stream=False)

    assert (status, code) == (400, "invalid_request")
    assert "stream" in message


async def test_a_server_that_closes_breaks_the_stream_off(client: AgUiClient) -> None:
    closing = asyncio.Event()
    response = await client.says("hi").post(closing=closing)
    assert response.stream is not None
    await anext(response.stream)
    closing.set()

    with pytest.raises(StreamBrokenOffError):
        await read(response)


Failing = Callable[[Exception], Awaitable[Any]]


@pytest.fixture
async def failing(client: AgUiClient, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Failing:
    """Return what sends a run of which nothing can be read; its response has begun."""

    async def send(error: Exception) -> Any:
        response = await client.says("hi").post()

        async def feed(*_: Any, **__: Any) -> Any:
            raise error

        monkeypatch.setattr(stage.service, "feed", feed)
        return response

    return send


async def test_what_can_not_be_read_for_now_breaks_the_stream_off(failing: Failing) -> None:
    response = await failing(StoreUnavailableError("no answer"))

    with pytest.raises(StreamBrokenOffError):
        await read(response)


@pytest.mark.parametrize(
    ("error", "told"),
    [(UnauthorizedError("the token has ended"), "unauthorized"), (RuntimeError("a bug"), "internal")],
)
async def test_what_goes_wrong_on_the_way_is_told_as_one_error(failing: Failing, error: Exception, told: str) -> None:
    events = verified(await read(await failing(error)))

    assert [(event["type"], event.get("code")) for event in events] == [("RUN_STARTED", None), ("RUN_ERROR", told)]


async def test_a_session_that_is_gone_ends_its_run(
    client: AgUiClient, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    response = await client.says("hi").post()
    feed = stage.service.feed

    async def purged(*args: Any, **more: Any) -> Any:
        found = await feed(*args, **more | {"wait_seconds": 0})
        return replace(found, items=(), head=heads.pop() or found.head)

    heads = [Head(), None]
    monkeypatch.setattr(stage.service, "feed", purged)

    assert verified(await read(response))[-1]["code"] == "session_not_found"


async def test_the_route_is_in_the_document(stage: Stage) -> None:
    _, document = await Api(stage.service).get("/openapi.json")

    operation = document["paths"]["/v1/ag-ui"]["post"]
    assert operation["operationId"] == "run_ag_ui"
    assert set(operation["responses"]["200"]["content"]) == {"text/event-stream"}
    body = document["components"]["schemas"]["RunAgentInput"]
    assert {"threadId", "runId", "messages", "resume"} <= set(body["properties"])
