"""What the JavaScript client knows of the server's commands: their routes and bodies, from the OpenAPI document.

`python -m tests.unit.api.browser_schemas` writes the module anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from perdure.api.openapi import document

MODULE = Path(__file__).resolve().parents[3] / "clients" / "js" / "src" / "schemas.js"

COMMANDS = (
    "send_input",
    "resolve_interrupt",
    "stop",
    "retry",
    "pause",
    "resume",
    "set_title",
    "change_message",
    "remove_message",
    "deliver_message",
    "start_session",
    "update_settings",
    "skip_wait",
    "change_wait",
    "cancel_wait",
)
"""What a person may do from a browser (spec BROW-06). Nothing that a server says is among it."""

HEAD = """// The commands that a browser may send: where they go, and what their bodies may hold (JSON Schema 2020-12).
// Made from the server's OpenAPI document by `python -m tests.unit.api.browser_schemas`; don't edit it by hand.

export const COMMANDS = """


def module_text() -> str:
    """Return the module's text."""
    openapi = document(tickets=True)
    found = {
        operation["operationId"]: _command(method, path, operation, openapi["components"]["schemas"])
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
    }
    lines = [f"  {json.dumps(name)}: {json.dumps(found[name], ensure_ascii=False)},\n" for name in COMMANDS]
    return HEAD + "{\n" + "".join(lines) + "};\n"


def _command(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    command: dict[str, Any] = {"method": method.upper(), "path": path}
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body is not None:
        command["body"] = _whole(body, schemas)
    return command


def _whole(schema: Any, schemas: dict[str, Any]) -> Any:
    """Return a schema with what it refers to in place, and without what is said to people only."""
    if isinstance(schema, list):
        return [_whole(inner, schemas) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _whole(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "properties" in schema:
        named = {name: _whole(inner, schemas) for name, inner in schema["properties"].items()}
        return {**_whole({k: v for k, v in schema.items() if k != "properties"}, schemas), "properties": named}
    told = {"title", "description", "examples", "default"}
    return {name: _whole(inner, schemas) for name, inner in schema.items() if name not in told}


if __name__ == "__main__":
    MODULE.write_text(module_text(), encoding="utf-8")
