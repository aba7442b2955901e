"""The OpenAPI 3.1 document, made from the route table."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from perdure._version import __version__
from perdure.api import event_shapes, shapes, sse
from perdure.api.bodies import EmptyBody
from perdure.api.payload_shapes import PAYLOADS
from perdure.api.reading import MAX_WAIT_SECONDS, QueryParam
from perdure.api.route import Route
from perdure.api.routes import ROUTES
from perdure.core.limits import MAX_IDEMPOTENCY_KEY, MAX_SESSION_ID

_REF = "#/components/schemas/{model}"

_ERRORS = {
    400: "The request is wrong: `invalid_request`, `invalid_text` or `invalid_cursor`.",
    401: "No valid credentials.",
    403: "Not allowed, or from a web page of another origin.",
    404: "No such session, turn, interrupt, message, tool call or wait, or none that you may see.",
    409: "A conflict; the code names it.",
    413: "Larger than a limit.",
    415: "The body is not JSON.",
    429: "Too many requests at once.",
    500: "Something went wrong on the server.",
    503: "The store gave no answer; send the same request with the same key again.",
}
_TOKEN: list[dict[str, list[str]]] = [{}, {"token": []}]
_SCHEMES = {
    "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
    "signature": {
        "type": "apiKey",
        "in": "header",
        "name": "webhook-signature",
        "description": "`v1,` and the base64 of the HMAC-SHA256 over `id.timestamp.body`; within 5 minutes.",
    },
}
_STREAM = "`id`: cursor, `event`: type, `data`: an Event as JSON; or first `{type: snapshot, cursor, snapshot}`."
_EVERYWHERE = (400, 401, 403, 500, 503)


class _AbsentNotNull(GenerateJsonSchema):
    """A field that may be left out is shown as what it holds, not as that or null."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        inner = schema["schema"]
        if schema.get("default", ...) is None and inner["type"] == "nullable":
            return self.generate_inner(inner["schema"])
        return super().default_schema(schema)


@lru_cache
def document(*, tickets: bool) -> dict[str, Any]:
    """Return the document. Without `tickets` the host issues none, and their route is left out."""
    routes = [route for route in ROUTES if tickets or not route.needs_tickets]
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Perdure",
            "version": __version__,
            "description": "Durable AI-agent sessions. An optional field that is not set is absent, never null.",
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(routes),
            "securitySchemes": _SCHEMES,
        },
    }


def _schemas(routes: list[Route]) -> dict[str, Any]:
    wanted: list[tuple[type[BaseModel], JsonSchemaMode]] = [(shapes.Error, "serialization")]
    wanted += [(route.body, "validation") for route in routes if route.body]
    wanted += [(reply, "serialization") for route in routes for reply in (route.reply, route.or_reply) if reply]
    wanted.append((event_shapes.Event, "serialization"))
    wanted += [(payload, "serialization") for payload in PAYLOADS.values()]
    _, schema = models_json_schema(list(dict.fromkeys(wanted)), ref_template=_REF, schema_generator=_AbsentNotNull)
    definitions: dict[str, Any] = schema["$defs"]
    definitions["Event"]["x-payloads"] = {name: _ref(payload) for name, payload in PAYLOADS.items()}
    return definitions


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.operation,
        "summary": route.doc,
        "responses": _responses(route),
    }
    if not route.public:
        operation["security"] = [{"signature": []}] if route.signed else _TOKEN
    if parameters := _parameters(route):
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = {
            "required": route.body is not EmptyBody,
            "content": {"application/json": {"schema": _ref(route.body)}},
        }
    return operation


def _parameters(route: Route) -> list[dict[str, Any]]:
    found = [
        {"name": segment[1:-1], "in": "path", "required": True, "schema": _PATH_SCHEMAS[segment[1:-1]]}
        for segment in route.segments
        if segment.startswith("{")
    ]
    found += [
        {"name": param.name, "in": "query", "description": param.doc, "schema": _query_schema(param)}
        for param in route.query
    ]
    if route.signed:
        found += [
            {"name": name, "in": "header", "required": True, "schema": {"type": "string"}}
            for name in ("webhook-id", "webhook-timestamp")
        ]
    if route.keyed:
        found.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "description": "The same key and content again gives the first reply again.",
                "schema": {"type": "string", "minLength": 1, "maxLength": MAX_IDEMPOTENCY_KEY},
            }
        )
    if route.streams:
        found.append(
            {
                "name": "Last-Event-ID",
                "in": "header",
                "description": "The cursor after which a stream goes on; wins over `after`.",
                "schema": {"type": "string"},
            }
        )
    return found


_PATH_SCHEMAS: dict[str, dict[str, Any]] = {
    "session_id": {"type": "string", "pattern": f"^[A-Za-z0-9._:-]{{1,{MAX_SESSION_ID}}}$"},
    "interrupt_id": {"type": "string"},
    "message_id": {"type": "string"},
    "turn_id": {"type": "string"},
    "schedule_id": {"type": "string"},
    "grant_id": {"type": "string"},
    "call_id": {"type": "string"},
    "wait_id": {"type": "string"},
    "name": {"type": "string"},
}


def _query_schema(param: QueryParam) -> dict[str, Any]:
    if param.kind == "integer":
        return {"type": "integer"}
    if param.kind == "seconds":
        return {"type": "number", "minimum": 0, "maximum": MAX_WAIT_SECONDS}
    if param.kind == "choice":
        return {"type": "string", "enum": list(param.choices)}
    return {"type": "string", "minLength": 1}


def _responses(route: Route) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": _ref(route.reply) if route.reply else {"type": "object"}}}
    if route.reply and route.or_reply:
        content["application/json"]["schema"] = {"oneOf": [_ref(route.reply), _ref(route.or_reply)]}
    if route.streams:
        content[sse.MEDIA_TYPE] = {
            "schema": {
                "type": "string",
                "description": _STREAM,
            }
        }
    if route.stream is not None:
        content = {sse.MEDIA_TYPE: {"schema": {"type": "string", "description": "One event a `data` line, as JSON."}}}
    responses: dict[str, Any] = {str(route.status): {"description": "Done.", "content": content}}
    if route.may_be_empty:
        responses["204"] = {"description": "There is nothing to stream."}
    if not route.public:
        for status in sorted({*_EVERYWHERE, *route.errors}):
            responses[str(status)] = {
                "description": _ERRORS[status],
                "content": {"application/json": {"schema": _ref(shapes.Error)}},
            }
    return responses


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}
