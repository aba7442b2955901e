"""Streams over HTTP: the deployed authorizer, and the `stream` function's own process on the deployed table.

The emulator passes no answer on piece by piece and has no Lambda Web Adapter. So `run.sh` is started here, with what
the function would have in its environment, and asked as the adapter asks it.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.build.cloudformation import ROOT
from tests.e2e.emulator import E2E_BIN, REGION
from tests.e2e.people import PATIENCE_SECONDS
from tests.e2e.world import World

JsonObject = dict[str, Any]


def authorized(world: World, token: str) -> JsonObject:
    """Ask the deployed authorizer of the stream API about a token."""
    event = json.loads((ROOT / "events" / "authorize-stream.json").read_text(encoding="utf-8"))
    sent = {"Authorization": f"Bearer {token}"}
    event |= {"headers": sent, "multiValueHeaders": {"Authorization": [sent["Authorization"]]}}
    event["queryStringParameters"] = event["multiValueQueryStringParameters"] = None
    function = world.stack.ids["AuthorizeStreamFunction"]
    reply = world.stack.client("lambda").invoke(FunctionName=function, Payload=json.dumps(event).encode())
    answer: JsonObject = json.loads(reply["Payload"].read())
    return answer


def effect(answer: JsonObject) -> str:
    return str(answer["policyDocument"]["Statement"][0]["Effect"])


async def test_the_authorizer_knows_the_issuers_tokens(world: World) -> None:
    issuer = world.outside.issuer

    good = await asyncio.to_thread(authorized, world, issuer.token())
    without_tenant = await asyncio.to_thread(authorized, world, issuer.token(tenant=None))
    refused = [
        await asyncio.to_thread(authorized, world, token)
        for token in (issuer.forged(), issuer.token(aud="elsewhere"), issuer.token(exp=int(time.time()) - 1))
    ]

    assert effect(good) == "Allow"
    assert json.loads(good["context"]["holder"])[0] == "shop"
    assert effect(without_tenant) == "Deny"
    assert [answer.get("errorMessage") for answer in refused] == ["Unauthorized"] * 3


@asynccontextmanager
async def the_function(world: World) -> AsyncIterator[str]:
    """Start what the adapter starts, and give its address when it answers."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    functions = world.stack.client("lambda")
    found = functions.get_function_configuration(FunctionName=world.stack.ids["StreamFunction"])
    built = world.folder / "built"
    layers = [str(built / layer / "python") for layer in ("RuntimeLayer", "DependenciesLayer", "AgentsLayer")]
    environment = world.emulator.environment | found["Environment"]["Variables"]
    environment |= {
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_LWA_PORT": str(port),
        "LAMBDA_TASK_ROOT": str(built / "StreamFunction"),
        "PYTHONPATH": ":".join(layers),
        "PATH": f"{E2E_BIN}:{environment['PATH']}",
    }
    assert found["Handler"] == "run.sh"
    process = await asyncio.create_subprocess_exec(built / "StreamFunction" / "run.sh", env=environment)
    try:
        url = f"http://127.0.0.1:{port}"
        await answering(f"{url}{environment['AWS_LWA_READINESS_CHECK_PATH']}", process)
        yield url
    finally:
        process.terminate()
        await process.wait()


async def answering(url: str, process: asyncio.subprocess.Process) -> None:
    """Wait until it answers, as the adapter does."""
    async with httpx.AsyncClient() as http:
        for _ in range(600):
            assert process.returncode is None, "it has ended: what it wrote says why"
            try:
                if (await http.get(url)).status_code == 200:
                    return
            except httpx.TransportError:
                await asyncio.sleep(0.1)
    pytest.fail(f"{url} does not answer")


async def test_a_turn_is_streamed_from_the_deployed_table_while_it_runs(world: World) -> None:
    user = world.user()
    context = (await asyncio.to_thread(authorized, world, user.token))["context"]
    headers = {
        "accept": "text/event-stream",
        "x-amzn-request-context": json.dumps({"httpMethod": "GET", "authorizer": context}),
        "x-amzn-lambda-context": json.dumps({"deadline": int((time.time() + 900) * 1000)}),
    }
    seen = ""

    async with the_function(world) as url, user.session("streamed-1") as session, httpx.AsyncClient(timeout=30) as http:
        await session.send('call lookup_order {"order_id": "7"}')
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            http.stream("GET", f"{url}/v1/sessions/streamed-1/events", headers=headers) as response,
        ):
            assert response.status_code == 200
            async for piece in response.aiter_text():
                seen += piece
                if "event: turn_completed" in seen:
                    break
        refused = await http.get(f"{url}/v1/sessions/streamed-1/events", headers={"accept": "text/event-stream"})

    assert seen.index("event: turn_started") < seen.index("event: tool_call_finished")
    assert refused.status_code == 401
