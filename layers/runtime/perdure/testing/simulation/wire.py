"""The short way to moto: what botocore would send goes to moto's own handler, with no HTTP and no signature between.

Most of what a call costs in a simulation is its way there and back; what it does when it is there is the same. Calls
that fail take the long way, so that errors come from the SDK as they always do: a handler that raised has changed
nothing.
"""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace
from typing import Any

JsonObject = dict[str, Any]

METHODS = {
    "dynamodb": {
        "GetItem": "get_item",
        "BatchGetItem": "batch_get_item",
        "Query": "query",
        "Scan": "scan",
        "PutItem": "put_item",
        "UpdateItem": "update_item",
        "DeleteItem": "delete_item",
    },
    "sqs": {
        "SendMessage": "send_message",
        "ReceiveMessage": "receive_message",
        "DeleteMessage": "delete_message",
    },
}
"""By service: the operations that go this way, and the methods of moto's handlers."""

LONG_WAY = "perdure_long_way"
"""In a call's context: have it sent as usual, because the SDK's own behaviour is part of what is looked at."""


def shorten(client: Any) -> None:
    """Let this client's calls take the short way from now on, for as long as moto is on. Other hooks come before."""
    service = client.meta.service_model.service_name
    for operation in METHODS[service]:
        client.meta.events.register_last(f"before-call.{service}.{operation}", _answer)


def _answer(model: Any, params: JsonObject, context: JsonObject, **_: Any) -> Any:
    if context.get(LONG_WAY):
        return None
    service = model.service_model.service_name
    handler = _handler(service, params)
    try:
        action = getattr(handler, METHODS[service][model.name])()
        # Items are kept in the form in which DynamoDB sends them; of a message some attributes are numbers yet.
        result = (
            _with_bytes(action.result) if service == "dynamodb" else json.loads(handler.serialized(action)[2] or "{}")
        )
    except Exception:  # noqa: BLE001  whatever it is, the long way tells it as the service does
        return None
    metadata = {"HTTPStatusCode": 200, "HTTPHeaders": {}, "RetryAttempts": 0}
    return SimpleNamespace(status_code=200, headers={}), {**result, "ResponseMetadata": metadata}


def _with_bytes(sent: Any) -> Any:
    """Return an answer of DynamoDB with its binary values as bytes; they are sent as base64."""
    if isinstance(sent, list):
        return [_with_bytes(value) for value in sent]
    if not isinstance(sent, dict):
        return sent
    return {
        name: base64.b64decode(value) if name == "B" and isinstance(value, str) else _with_bytes(value)
        for name, value in sent.items()
    }


def _handler(service: str, params: JsonObject) -> Any:
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.dynamodb.responses import DynamoHandler
    from moto.sqs.responses import SQSResponse

    handler: Any = DynamoHandler() if service == "dynamodb" else SQSResponse()
    handler.current_account, handler.region = DEFAULT_ACCOUNT_ID, "us-east-1"
    handler.headers, handler.response_headers, handler.querystring, handler.uri_match = params["headers"], {}, {}, {}
    handler.body = handler.params = json.loads(params["body"])
    return handler
