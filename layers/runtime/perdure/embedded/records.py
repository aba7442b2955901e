"""Stored text of heads, entries and receipts, and back."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from perdure.core.codec import decode, encode
from perdure.core.entries import SCHEMA_VERSION as ENTRY_VERSION
from perdure.core.entries import Entry
from perdure.core.head import SCHEMA_VERSION as HEAD_VERSION
from perdure.core.head import Head
from perdure.errors import UnknownRecordVersionError

T = TypeVar("T")

# Infinities and NaN are no JSON: whoever lets one through to here has a mistake, and nothing is written.
_to_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def to_text(value: Any) -> str:
    """Return the JSON text of a dataclass or a JSON value.

    Raises:
        ValueError: It holds a number that JSON has no word for.
    """
    return _to_text(encode(value))


def to_head(text: str) -> Head:
    """Read a stored HEAD.

    Raises:
        UnknownRecordVersionError: A newer Perdure wrote it.
    """
    return _read(Head, text, HEAD_VERSION)


def to_entry(text: str) -> Entry:
    """Read a stored entry.

    Raises:
        UnknownRecordVersionError: A newer Perdure wrote it.
    """
    return _read(Entry, text, ENTRY_VERSION)


def _read(cls: type[T], text: str, known: int) -> T:
    data = json.loads(text)
    version = data.get("schema_version", known)
    if version > known:
        raise UnknownRecordVersionError(
            f"a stored {cls.__name__.lower()} has schema version {version} and this Perdure knows {known}: "
            "install the newer Perdure that wrote it"
        )
    return decode(cls, data)
