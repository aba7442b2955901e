"""The one cursor: a place in a session's events. Opaque, checked, and no secret.

It is the SSE id and the `after` of the events route. It stands after the first `index` events of the entry of
`version` and, within steps that still run, after some of their progress events.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from dataclasses import dataclass
from typing import Literal

from perdure.errors import InvalidRequestError

_MAX_LENGTH = 8192
"""Longest cursor that is read, in characters; 64 parallel calls that all report progress stay well below it."""

_MAX_DIGITS = 12
"""Digits of a version or count; log items are named with as many (design §4)."""

_URL_SAFE = bytes.maketrans(b"+/", b"-_")

StepProgress = tuple[str, int, int]
"""Step id, attempt, and how many of its progress events have been seen."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Cursor:
    """A place in the events of one session. `Cursor()` is their beginning."""

    version: int = 0
    index: int = 0
    progress: tuple[StepProgress, ...] = ()

    def encode(self, session_id: str) -> str:
        """Return the text that users hold."""
        steps = ",".join([f"{step}:{attempt}:{seen}" for step, attempt, seen in self.progress])
        body = f"{self.version}.{self.index}.{steps}"
        check = _checksum(session_id, body)
        text = binascii.b2a_base64(f"{body}.{check}".encode(), newline=False)  # a viewer gets one with every event
        return text.translate(_URL_SAFE).rstrip(b"=").decode("ascii")

    @classmethod
    def decode(cls, text: str, session_id: str) -> Cursor:
        """Read a cursor of this session.

        Raises:
            InvalidRequestError: `invalid_cursor`: it is broken, or belongs to another session.
        """
        try:
            if not text or len(text) > _MAX_LENGTH:
                raise ValueError
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode("ascii")
            body, _, check = raw.rpartition(".")
            version, index, steps = body.split(".")
            if check != _checksum(session_id, body):
                raise ValueError
            cursor = cls(version=_number(version), index=_number(index), progress=_read_steps(steps))
        except (ValueError, binascii.Error):
            raise InvalidRequestError(
                "this cursor is broken or belongs to another session: leave it out to start at the oldest event",
                code="invalid_cursor",
            ) from None
        return cursor

    def seen(self, step_id: str, attempt: int) -> int:
        """Return how many progress events of a step's attempt lie before this place."""
        return next((n for step, number, n in self.progress if (step, number) == (step_id, attempt)), 0)


def advance_sequence(last: int | None, sequence: int) -> Literal["accepted", "duplicate", "gap"]:
    """Say what a viewer should do with the durable event of this sequence (spec EVT-05). Progress has no sequence.

    Args:
        last: Sequence of the last event that was accepted. 0: none, and the first of the session is expected. None:
            the viewer begins anywhere, as behind a cursor, so whatever comes first is accepted.
        sequence: Sequence of the event that came, from 1.

    Returns:
        `accepted`: take it, and `last` is its sequence now. `duplicate`: it, or a later one, was accepted before: drop
        it. `gap`: at least one is missing before it: read again from the cursor of the last accepted event.
    """
    if last is None or sequence == last + 1:
        return "accepted"
    return "duplicate" if sequence <= last else "gap"


def _read_steps(text: str) -> tuple[StepProgress, ...]:
    triples = [item.split(":") for item in text.split(",")] if text else []
    return tuple((step, _number(attempt), _number(seen)) for step, attempt, seen in triples)


def _number(text: str) -> int:
    """Read a count; `int` alone takes signs, spaces, underscores and numbers that no store can hold."""
    if not text.isdigit() or len(text) > _MAX_DIGITS:
        raise ValueError
    return int(text)


def _checksum(session_id: str, body: str) -> str:
    checked = f"{session_id}\n{body}"
    return f"{zlib.crc32(checked.encode()):08x}"
