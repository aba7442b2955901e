"""API Gateway in one process: HTTP requests with verified claims, WebSocket connections with tickets and frames."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from perdure.aws.clients import Clients
from perdure.testing.virtual_time import LoopClock
from perdure.webhooks import signature

if TYPE_CHECKING:
    from perdure.testing.issuer import Issuer
    from perdure.testing.lambda_harness import Invocation

JsonObject = dict[str, Any]

ISSUER = "https://issuer.example.com/"
METHOD_ARN = "arn:aws:execute-api:us-east-1:123456789012:fghij67890/live/$connect"
STREAM_URL = "https://klmno12345.execute-api.us-east-1.amazonaws.com/live"
ONE_WAY = ("attach", "detach", "send", "resume", "abort")
"""Routes of the WebSocket API that have no response, as in `template.yaml`."""

MAX_FRAME_BYTES = 128 * 1024
"""Largest payload of `PostToConnection`, in bytes (model)."""


@dataclass(frozen=True)
class Reply:
    """What an HTTP client gets."""

    status: int
    body: Any


@dataclass(frozen=True)
class Streamed:
    """A streamed answer, when it is over. `broken`: it was cut off, and not ended."""

    status: int
    headers: JsonObject
    pieces: tuple[bytes, ...]
    broken: bool

    @property
    def text(self) -> str:
        """All that came."""
        return b"".join(self.pieces).decode()


@dataclass
class Connection:
    """One open WebSocket: `frames` is what it was sent, answers included."""

    connection_id: str
    authorizer: JsonObject
    frames: list[JsonObject] = field(default_factory=list)
    gone: bool = False
    closed: bool = False

    @property
    def told(self) -> list[JsonObject]:
        """What it was sent, parts put together."""
        whole: list[JsonObject] = []
        parts: dict[str, dict[int, str]] = {}
        for frame in self.frames:
            if frame["type"] != "part":
                whole.append(frame)
                continue
            known = parts.setdefault(frame["part_id"], {})
            known[frame["index"]] = frame["data"]
            if len(known) == frame["count"]:
                whole.append(json.loads("".join(text for _, text in sorted(parts.pop(frame["part_id"]).items()))))
        return whole

    @property
    def events(self) -> list[JsonObject]:
        """The events that it was sent, in the order in which they came."""
        return [event for frame in self.told if frame["type"] == "events" for event in frame["events"]]

    @property
    def sequences(self) -> list[int]:
        """The sequences of the durable events that it was sent."""
        return [event["sequence"] for event in self.events if "sequence" in event]


class Gateway:
    """Both APIs of a deployment.

    Attributes:
        during_post: Called before a frame is posted; a test may let something happen right then.
    """

    def __init__(
        self, invoke: Callable[[str, JsonObject], Invocation], clients: Clients, clock: LoopClock, issuer: Issuer
    ) -> None:
        self._invoke = invoke
        self._clock = clock
        self._issuer = issuer
        self.connections: dict[str, Connection] = {}
        self.posts_to_gone = 0
        self.during_post: Callable[[str], None] = lambda _connection_id: None
        events = clients.connections.meta.events
        events.register("before-call.apigatewaymanagementapi.PostToConnection", self._post)
        events.register("before-call.apigatewaymanagementapi.DeleteConnection", self._delete)

    # --- HTTP ----------------------------------------------------------------------------------------------------

    def http(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        tenant: str = "acme",
        subject: str = "ann",
        key: str | None = None,
        query: dict[str, Any] | None = None,
        token_seconds: int = 3600,
    ) -> Reply:
        """Send a request with a token that the JWT authorizer has verified."""
        event = self.request(
            method, path, body, tenant=tenant, subject=subject, key=key, query=query, token_seconds=token_seconds
        )
        return self._answered(event)

    def hook(self, name: str, event: Any, *, secret: bytes, event_id: str = "evt-1") -> Reply:
        """Send another system's event to a webhook, signed and without a token."""
        request = self.request("POST", f"/v1/hooks/{name}", event)
        del request["requestContext"]["authorizer"], request["headers"]["authorization"]
        request["routeKey"] = request["requestContext"]["routeKey"] = "POST /v1/hooks/{name}"
        request["pathParameters"] = {"name": name}
        at = int(self._clock.now().timestamp())
        signed = signature(secret, event_id, at, request["body"].encode())
        request["headers"] |= {"webhook-id": event_id, "webhook-timestamp": str(at), "webhook-signature": signed}
        return self._answered(request)

    def _answered(self, event: JsonObject) -> Reply:
        done = self._invoke("api", event)
        if done.answer is None:
            return Reply(500, {"message": "Internal Server Error"})
        return Reply(done.answer["statusCode"], json.loads(done.answer["body"]))

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        tenant: str = "acme",
        subject: str = "ann",
        key: str | None = None,
        query: dict[str, Any] | None = None,
        token_seconds: int = 3600,
    ) -> JsonObject:
        """Return the event that the `api` function would get for such a request."""
        now = int(self._clock.now().timestamp())
        claims = {
            "iss": ISSUER,
            "sub": subject,
            "tenant": tenant,
            "aud": "perdure",
            "iat": str(now),
            "exp": str(now + token_seconds),
        }
        headers = {"authorization": "Bearer a.b.c", "host": "abcde12345.execute-api.us-east-1.amazonaws.com"}
        if body is not None:
            headers["content-type"] = "application/json"
        if key is not None:
            headers["idempotency-key"] = key
        event: JsonObject = {
            "version": "2.0",
            "routeKey": "ANY /v1/{proxy+}",
            "rawPath": path,
            "rawQueryString": urlencode(query or {}),
            "headers": headers,
            "requestContext": {
                "apiId": "abcde12345",
                "authorizer": {"jwt": {"claims": claims, "scopes": None}},
                "domainName": headers["host"],
                "http": {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "203.0.113.7"},
                "requestId": "JKJaXmPLvHcESHA=",
                "routeKey": "ANY /v1/{proxy+}",
                "stage": "$default",
                "time": self._clock.now().strftime("%d/%b/%Y:%H:%M:%S +0000"),
                "timeEpoch": now * 1000,
            },
            "isBase64Encoded": False,
        }
        if query:
            event["queryStringParameters"] = {name: str(value) for name, value in query.items()}
        if body is not None:
            event["body"] = json.dumps(body)
        return event

    # --- streams ---------------------------------------------------------------------------------------------------

    def stream(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        tenant: str | None = "acme",
        subject: str = "ann",
        token: str | None = None,
        token_seconds: int = 3600,
        query: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Streamed:
        """Send a request to the stream API, and take the answer as a whole, when it is over.

        Args:
            token: None: a good one. Empty: none, so that only a ticket in the query lets it pass.
        """
        if token is None:
            ends = int(self._clock.now().timestamp()) + token_seconds
            token = self._issuer.token(sub=subject, tenant=tenant, exp=ends)
        sent = {"Accept": "text/event-stream", "Host": "klmno12345.execute-api.us-east-1.amazonaws.com"}
        sent |= {"Authorization": f"Bearer {token}"} if token else {}
        sent |= {"Content-Type": "application/json"} if body is not None else {}
        event = self.stream_request(method, path, body, query=query or {}, headers=sent | (headers or {}))
        asked = {name: value for name, value in event.items() if name not in ("body", "isBase64Encoded")}
        arn = f"arn:aws:execute-api:us-east-1:123456789012:klmno12345/live/{method}{path}"
        done = self._invoke("authorize_stream", {**asked, "type": "REQUEST", "methodArn": arn})
        if done.answer is None:
            refused = str(done.error) == "Unauthorized"
            return Streamed(401 if refused else 500, {}, (), broken=False)
        if done.answer["policyDocument"]["Statement"][0]["Effect"] != "Allow":
            return Streamed(403, {}, (), broken=False)
        assert all(isinstance(value, str | int | bool) for value in done.answer["context"].values())
        event["requestContext"]["authorizer"] = {
            **done.answer["context"],
            "principalId": done.answer["principalId"],
            "integrationLatency": 12,
        }
        streamed = self._invoke("stream", event).answer
        if streamed is None:
            return Streamed(502, {}, (), broken=False)
        return Streamed(streamed["statusCode"], streamed["headers"], tuple(streamed["pieces"]), streamed["broken"])

    def stream_request(
        self, method: str, path: str, body: Any, *, query: dict[str, str], headers: dict[str, str]
    ) -> JsonObject:
        """Return the event that the REST API makes of a request, before its authorizer was asked."""
        return {
            "resource": path,
            "path": path,
            "httpMethod": method,
            "headers": headers,
            "multiValueHeaders": {name: [value] for name, value in headers.items()},
            "queryStringParameters": query or None,
            "multiValueQueryStringParameters": {name: [value] for name, value in query.items()} or None,
            "pathParameters": None,
            "stageVariables": None,
            "requestContext": {
                "apiId": "klmno12345",
                "httpMethod": method,
                "path": f"/live{path}",
                "resourcePath": path,
                "stage": "live",
                "identity": {"sourceIp": "203.0.113.7"},
                "requestId": "9f3a1f4e-7c1b-4c8e-9d57-2f1e0a6b5c4d",
                "requestTimeEpoch": int(self._clock.now().timestamp() * 1000),
            },
            "body": None if body is None else json.dumps(body),
            "isBase64Encoded": False,
        }

    # --- WebSocket -----------------------------------------------------------------------------------------------

    def connect(self, ticket: str | None, *, origin: str | None = None) -> Connection | None:
        """Open a connection. None: the authorizer refused it (403), or there was no ticket to look at (401)."""
        if not ticket:
            return None
        connection_id = f"connection{len(self.connections) + 1}="
        query = {"queryStringParameters": {"ticket": ticket}, "multiValueQueryStringParameters": {"ticket": [ticket]}}
        request: JsonObject = {
            **query,
            "headers": {"Origin": origin} if origin else {},
            "requestContext": self._context(connection_id, "$connect", "CONNECT"),
        }
        verdict = self._invoke("authorize", {**request, "type": "REQUEST", "methodArn": METHOD_ARN}).answer
        if verdict is None or verdict["policyDocument"]["Statement"][0]["Effect"] != "Allow":
            return None
        assert all(isinstance(value, str | int | bool) for value in verdict["context"].values())
        connection = Connection(connection_id, {**verdict["context"], "principalId": verdict["principalId"]})
        request["requestContext"]["authorizer"] = connection.authorizer
        opened = self._invoke("socket", request).answer
        if opened is None or opened["statusCode"] != 200:
            return None
        self.connections[connection_id] = connection
        return connection

    def send(self, connection: Connection, frame: Any) -> JsonObject:
        """Send a frame, and return the first one that comes of it; empty if none does. A text is sent as it is."""
        body = frame if isinstance(frame, str) else json.dumps(frame)
        route = _route_of(body)
        context = self._context(connection.connection_id, route, "MESSAGE") | {"authorizer": connection.authorizer}
        before = len(connection.frames)
        answer = self._invoke("socket", {"requestContext": context, "body": body, "isBase64Encoded": False}).answer
        if answer is None:
            return {"message": "Internal server error", "connectionId": connection.connection_id}
        if "body" in answer:
            assert route == "$default", "the other routes have no response"
            connection.frames.append(json.loads(answer["body"]))
        return next(iter(connection.frames[before:]), {})

    def disconnect(self, connection: Connection, *, noticed: bool = True) -> None:
        """Close a connection. `noticed` False: API Gateway's word of it never comes, as may happen."""
        connection.gone = True
        if noticed:
            context = self._context(connection.connection_id, "$disconnect", "DISCONNECT")
            self._invoke("socket", {"requestContext": context | {"authorizer": connection.authorizer}})

    def _context(self, connection_id: str, route: str, kind: str) -> JsonObject:
        return {
            "routeKey": route,
            "eventType": kind,
            "connectionId": connection_id,
            "stage": "live",
            "apiId": "fghij67890",
            "domainName": "fghij67890.execute-api.us-east-1.amazonaws.com",
            "requestTimeEpoch": int(self._clock.now().timestamp() * 1000),
        }

    def _delete(self, params: JsonObject, **_: Any) -> Any:
        connection = self.connections.get(params["url_path"].rsplit("/", 1)[-1].replace("%3D", "="))
        if connection is None or connection.gone:
            return SimpleNamespace(status_code=410), _refused("GoneException", 410)
        connection.gone = connection.closed = True
        return SimpleNamespace(status_code=204), {"ResponseMetadata": {"HTTPStatusCode": 204}}

    def _post(self, params: JsonObject, **_: Any) -> Any:
        """Stand in for the service: moto takes any connection id and forgets the frame."""
        connection_id = params["url_path"].rsplit("/", 1)[-1].replace("%3D", "=")
        self.during_post(connection_id)
        connection = self.connections.get(connection_id)
        if connection is None or connection.gone:
            self.posts_to_gone += 1
            return SimpleNamespace(status_code=410), _refused("GoneException", 410)
        data: bytes = params["body"]
        if len(data) > MAX_FRAME_BYTES:
            return SimpleNamespace(status_code=413), _refused("PayloadTooLargeException", 413)
        connection.frames.append(json.loads(data))
        return SimpleNamespace(status_code=200), {"ResponseMetadata": {"HTTPStatusCode": 200}}


def _route_of(body: str) -> str:
    """Return the route that API Gateway selects by `$request.body.type`."""
    try:
        kind = json.loads(body)["type"]
    except (ValueError, TypeError, KeyError):
        return "$default"
    return kind if kind in ONE_WAY else "$default"


def _refused(code: str, status: int) -> JsonObject:
    return {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
