"""Server-sent events, read from bytes that may be cut anywhere (WHATWG HTML, section 9.2).

Only what model providers use: `data` fields. Comments, names, ids and retry times are skipped. Lines end with LF or
CRLF; a lone CR, which the standard also allows and no provider sends, does not end a line.
"""

from __future__ import annotations

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Largest event that is read, in bytes. Our own choice: far above any real one, and it bounds memory."""


class EventTooLargeError(ValueError):
    """One event is larger than `MAX_EVENT_BYTES`."""


class SseReader:
    """Gives the data of each event as soon as its last byte is in."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._rest = bytearray()
        self._searched = 0
        self._data: list[str] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[str]:
        """Take the next bytes and return the data of the events that they complete.

        Raises:
            EventTooLargeError: An event goes over the limit.
        """
        self._rest += piece
        events: list[str] = []
        start = 0
        while (end := self._rest.find(b"\n", max(start, self._searched))) >= 0:
            events += self._line(bytes(self._rest[start:end]))
            start = end + 1
        del self._rest[:start]
        self._searched = len(self._rest)
        if self._size + len(self._rest) > self._max:
            raise EventTooLargeError(f"an event has more than {self._max} bytes")
        return events

    def finish(self) -> list[str]:
        """Return the data of a last event that lacks its blank line.

        The standard drops it; but servers exist that end with `data: [DONE]` and nothing behind, and half an event
        is no valid JSON, so nothing false can come of it.
        """
        last, self._rest = bytes(self._rest), bytearray()
        return [*(self._line(last) if last else ()), *self._line(b"")]

    def _line(self, line: bytes) -> list[str]:
        line = line.removesuffix(b"\r")
        if not line:
            data, self._data, self._size = self._data, [], 0
            return ["\n".join(data)] if data else []
        name, _, value = line.partition(b":")
        if name == b"data":
            self._size += len(line)
            self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
        return []
