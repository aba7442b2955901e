"""How large HEAD is in its stored form."""

from __future__ import annotations

import json

from perdure.core.codec import encode
from perdure.core.head import Head


def head_bytes(head: Head) -> int:
    """Return the size of HEAD's stored form, in bytes."""
    return len(json.dumps(encode(head), separators=(",", ":")))
