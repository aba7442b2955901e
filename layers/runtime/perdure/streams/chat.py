"""An answer on a WebSocket as AI SDK's `WebSocketChatTransport` reads it: numbered chunks per request.

The numbers of a request begin at 0 and have no gaps; a client fails all its requests when one is missing, so a chunk
that does not fit a frame is divided or cut, and never sent in parts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from perdure.feed import Feed
from perdure.streams.parts import MAX_FRAME_BYTES
from perdure.streams.ui_chunks import TOKEN, UIChunks

JsonObject = dict[str, Any]

CHUNK_BYTES = MAX_FRAME_BYTES - 4096
"""Largest chunk, in bytes of JSON: the rest is for the frame's head with its request id of up to 256 characters."""

PIECE_CHARACTERS = 2_000
"""Text in one piece of a delta that was too large. JSON takes 6 bytes for most of what is not ASCII, and 12 at most."""

_KEPT = ("type", "id", "toolCallId", "approvalId", "messageId")
"""Fields by which a client finds what a chunk is about."""

_AN_OBJECT = "toolMetadata"
"""A client fails all its requests when this is no object, so where it takes too much room it is left out."""


class ChatAnswer:
    """The frames of one request: `start`, its chunks, and `end` or `error`."""

    kind = "ui"
    messages = True
    may_repeat = False

    def __init__(
        self,
        request_id: str,
        session_id: str,
        cursor: str,
        mapping: UIChunks,
        *,
        first: Sequence[JsonObject] = (),
        sequence: int = 0,
        opened: bool = False,
    ) -> None:
        self.request_id = request_id
        self.session_id = session_id
        self.cursor: str | None = cursor
        self.ended = False
        self._mapping = mapping
        self._first = first
        self._sequence = sequence
        self._opened = opened

    @classmethod
    def restored(cls, session_id: str, state: JsonObject) -> ChatAnswer:
        return cls(
            state["request_id"],
            session_id,
            state["cursor"],
            UIChunks.restored(state["mapping"]),
            sequence=state["sequence"],
            opened=state["opened"],
            first=state.get("first", ()),
        )

    def state(self) -> JsonObject:
        return {
            "request_id": self.request_id,
            "cursor": self.cursor,
            "mapping": self._mapping.state(),
            "sequence": self._sequence,
            "opened": self._opened,
        } | ({"first": list(self._first)} if self._first and not self._opened else {})

    def state_behind(self, frame: JsonObject) -> JsonObject | None:  # noqa: ARG002 - as others have it
        return None  # a frame is a part of a page, and the page is what the mapping has taken

    def opened(self) -> list[JsonObject]:
        if self._opened:
            return []
        self._opened = True
        chunks = [self._numbered(piece) for chunk in self._first for piece in _fitting(chunk)]
        return [{"type": "start", "requestId": self.request_id}, *chunks]

    def take(self, feed: Feed) -> list[JsonObject]:
        chunks = [chunk for item in feed.items for chunk in self._mapping.take(item)]
        last = max((at for at, chunk in enumerate(chunks) if chunk["type"] == TOKEN), default=-1)
        chunks = [chunk for at, chunk in enumerate(chunks) if chunk["type"] != TOKEN or at == last]  # each is a post
        if feed.whole:
            chunks += self._mapping.rest()
        if not feed.head.exists and feed.head.version and not self._mapping.ended:
            chunks += self._mapping.lose(f"session {self.session_id!r} is gone: it was purged")
        self.cursor = feed.cursor
        frames = [self._numbered(piece) for chunk in chunks for piece in _fitting(chunk)]
        if self._mapping.ended:
            self.ended = True
            frames.append({"type": "end", "requestId": self.request_id})
        return frames

    def take_snapshot(self, snapshot: JsonObject) -> list[JsonObject]:  # noqa: ARG002 - as others have it
        raise AssertionError("an answer begins at a place that is known")

    def refused(self, code: str, message: str) -> list[JsonObject]:
        self.ended = True
        return [{"type": "error", "requestId": self.request_id, "errorText": message, "code": code}]

    def _numbered(self, chunk: JsonObject) -> JsonObject:
        frame = {"type": "chunk", "requestId": self.request_id, "sequence": self._sequence, "chunk": chunk}
        self._sequence += 1
        return frame


def _fitting(chunk: JsonObject) -> Iterator[JsonObject]:
    """Yield a chunk, or what says the same in frames that are small enough, as far as that can be said."""
    if _size(chunk) <= CHUNK_BYTES:
        yield chunk
    elif chunk["type"] in ("text-delta", "reasoning-delta"):
        text = chunk["delta"]
        for start in range(0, len(text), PIECE_CHARACTERS):
            yield chunk | {"delta": text[start : start + PIECE_CHARACTERS]}
    else:
        yield _cut(chunk)


def _cut(chunk: JsonObject) -> JsonObject:
    """Return a chunk whose large values are told by their heads and sizes; the whole is read over HTTP."""
    told = {name: value for name, value in chunk.items() if name not in _KEPT}
    for most in (CHUNK_BYTES // 4, 1024, 128):  # long texts first, so that what has them keeps its form
        cut = {**chunk, **_with_heads(told, most)}
        if _size(cut) <= CHUNK_BYTES:
            return cut
    large = {name: value for name, value in told.items() if _size(value) > 1024}
    heads = {name: _head_of(json.dumps(value), 512) for name, value in large.items()}
    return {name: value for name, value in {**chunk, **heads}.items() if name != _AN_OBJECT or name not in large}


def _with_heads(value: Any, most: int) -> Any:
    """Return a value of which each text takes so many bytes of JSON at most, and a few for how long it was."""
    if isinstance(value, dict):
        return {name: _with_heads(one, most) for name, one in value.items()}
    if isinstance(value, list):
        return [_with_heads(one, most) for one in value]
    return _head_of(value, most) if isinstance(value, str) and _size(value) > most else value


def _head_of(text: str, most: int) -> str:
    head = text[:most]
    while _size(head) > most:
        head = head[: len(head) // 2]
    return f"{head}… (cut: {len(text)} characters; read the messages for all of it)"


def _size(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":")))
