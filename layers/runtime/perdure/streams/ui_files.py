"""Files between our references and UI file parts: the reference is the part's `url`."""

from __future__ import annotations

from typing import Any

from perdure.errors import InvalidRequestError

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


def input_file(part: JsonObject) -> JsonObject:
    """Return a posted file part as the file of an input, whose reference is the part's `url`.

    Raises:
        InvalidRequestError: It has its bytes in it, or no `url`.
    """
    url = part.get("url")
    if not isinstance(url, str) or not url:
        raise InvalidRequestError("a file part has a `url`, under which your application finds the file")
    if url[:5].lower() == "data:":
        raise InvalidRequestError("files are not stored here: upload the file first, and send its address as `url`")
    file: JsonObject = {"reference": url}
    for name, field in (("mediaType", "media_type"), ("filename", "name")):
        if part.get(name) is not None:
            file[field] = part[name]
    return file
