"""Files between our references and UI file parts: the reference is the part's `url`."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]

UNKNOWN_MEDIA_TYPE = "application/octet-stream"


def ui_file(part: JsonObject) -> JsonObject:
    """Return a file of a message as a UI part."""
    media_type = part.get("media_type") or UNKNOWN_MEDIA_TYPE
    shown: JsonObject = {"type": "file", "mediaType": media_type, "url": part["reference"]}
    return shown | {"filename": part["name"]} if part.get("name") else shown


def ui_parts(message: JsonObject) -> list[JsonObject]:
    """Return the text and files of a user's message as UI parts."""
    return [ui_file(p) if p["type"] == "file" else {"type": "text", "text": p["text"]} for p in message["parts"]]
