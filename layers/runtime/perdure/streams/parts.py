"""Frames as they are sent: whole, or in numbered parts where a WebSocket's frame would be too large."""

from __future__ import annotations

import hashlib
import json
from typing import Any

JsonObject = dict[str, Any]

MAX_FRAME_BYTES = 32 * 1024
"""Largest frame, in bytes: that of API Gateway (Amazon API Gateway quotas, WebSocket)."""

PART_CHARACTERS = 15_000
"""Text in one part. Frames are ASCII, and JSON in JSON doubles at most each character: 30,000 bytes and a head."""


class SharedFrame(dict[str, Any]):
    """A frame that many viewers get as it is: nobody changes it, and its text is made once."""

    __slots__ = ("texts",)

    texts: list[str] | None

    def __init__(self, frame: JsonObject) -> None:
        super().__init__(frame)
        self.texts = None


def frame_texts(frame: JsonObject) -> list[str]:
    """Return a frame's text, or the texts of its parts: `{type: "part", part_id, index, count, data}`.

    The `data` of all parts in order are the frame's JSON text. The same frame has the same `part_id` whenever it is
    sent, so parts that come twice do no harm.
    """
    if not isinstance(frame, SharedFrame):
        return _texts(frame)
    if frame.texts is None:
        frame.texts = _texts(frame)
    return frame.texts


def _texts(frame: JsonObject) -> list[str]:
    text = json.dumps(frame, separators=(",", ":"))
    if len(text) <= MAX_FRAME_BYTES:
        return [text]
    part_id = hashlib.sha256(text.encode()).hexdigest()[:16]
    pieces = [text[start : start + PART_CHARACTERS] for start in range(0, len(text), PART_CHARACTERS)]
    return [
        json.dumps(
            {"type": "part", "part_id": part_id, "index": index, "count": len(pieces), "data": piece},
            separators=(",", ":"),
        )
        for index, piece in enumerate(pieces)
    ]
