"""The resume token of a UI message stream: which turn a client has, how many of its steps, and a cursor that proves
whose session it is of. Checked like a cursor, and no secret: it grants nothing.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from dataclasses import dataclass

from perdure.core.cursor import Cursor
from perdure.errors import InvalidRequestError

MAX_TOKEN = 64 * 1024
"""Longest token that is read, in characters (spec UI-02); ours are far shorter."""

_TOKEN = re.compile(r"(turn-[1-9][0-9]{0,11})~([0-9]{1,9})~([A-Za-z0-9_-]+)~([0-9a-f]{8})")


@dataclass(frozen=True, slots=True)
class ResumePlace:
    """What a client had: so many steps of a turn have begun for it."""

    turn_id: str
    steps: int


def resume_token(cursor: str, turn_id: str, steps: int) -> str:
    """Return the token of a place in a turn.

    Args:
        cursor: Of the last event that the client was given.
    """
    body = f"{turn_id}~{steps}~{cursor}"
    check = f"{zlib.crc32(body.encode()):08x}"
    return base64.urlsafe_b64encode(f"{body}~{check}".encode()).decode().rstrip("=")


def read_token(token: str, session_id: str) -> ResumePlace | None:
    """Read a token; None for one that is broken, made up, or of another session."""
    if len(token) > MAX_TOKEN:
        return None
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True).decode("ascii")
        found = _TOKEN.fullmatch(text)
        if found is None or f"{zlib.crc32(text.rpartition('~')[0].encode()):08x}" != found[4]:
            return None
        Cursor.decode(found[3], session_id)
    except (binascii.Error, ValueError, InvalidRequestError):
        return None
    return ResumePlace(turn_id=found[1], steps=int(found[2]))
