"""The Lambda Web Adapter in one process: events of a REST API become requests to an ASGI app, answers are gathered.

As the adapter does it (its `fetch_response`, and `lambda_http` below it): the path without the stage, the headers as
they came, and over them the two that say what API Gateway and Lambda know.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from starlette.types import ASGIApp, Message

from perdure.aws.bootstrap import Runtime

JsonObject = dict[str, Any]


def adapted(app: ASGIApp, runtime: Callable[[], Runtime]) -> Callable[[JsonObject, Any], JsonObject]:
    """Return a handler that hands events to an app: `{statusCode, headers, pieces, broken}` is what it answers."""

    def handler(event: JsonObject, context: Any) -> JsonObject:
        return runtime().run(handed_over(app, event, context))

    return handler


async def handed_over(app: ASGIApp, event: JsonObject, context: Any) -> JsonObject:
    """Hand one event to an app.

    Raises:
        Exception: What the app raised before it began to answer.
    """
    answer: JsonObject = {"statusCode": 0, "headers": {}, "pieces": [], "broken": True}
    body = (event["body"] or "").encode()
    never = asyncio.Event()
    sent = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if sent:
            return sent.pop()
        await never.wait()  # nobody tells a function that its client has gone
        raise AssertionError

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer["statusCode"] = message["status"]
            answer["headers"] = {name.decode(): value.decode() for name, value in message["headers"]}
            return
        if message.get("body"):
            answer["pieces"].append(message["body"])
        answer["broken"] = bool(message.get("more_body"))

    try:
        await app(scope_of(event, context), receive, send)
    except Exception:
        if not answer["statusCode"]:
            raise
        answer["broken"] = True
    return answer


def scope_of(event: JsonObject, context: Any) -> JsonObject:
    """Return the request that the adapter makes of an event."""
    headers = [(name.lower(), value) for name, values in event["multiValueHeaders"].items() for value in values]
    own = {
        "x-amzn-request-context": json.dumps(event["requestContext"]),
        "x-amzn-lambda-context": json.dumps(
            {
                "request_id": context.aws_request_id,
                "deadline": int(context.ends_at.timestamp() * 1000),
                "invoked_function_arn": context.invoked_function_arn,
            }
        ),
    }
    kept = [(name, value) for name, value in headers if name not in own] + list(own.items())
    query = [(n, v) for n, values in (event["multiValueQueryStringParameters"] or {}).items() for v in values]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": event["httpMethod"],
        "scheme": "http",
        "path": event["path"],
        "raw_path": event["path"].encode(),
        "query_string": urlencode(query).encode(),
        "headers": [(name.encode("latin-1"), value.encode()) for name, value in kept],
        "server": ("127.0.0.1", 8080),
        "client": ("127.0.0.1", 50000),
    }
