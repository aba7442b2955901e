"""How HEAD, entries and receipts look as table items, and back.

State is JSON text in one attribute, so numbers, empty strings and every character survive. HEAD's is compressed,
because each commit pays for all of it (docs/decisions/0005). `schema_version` is an attribute of its own: a reader
refuses what a newer version wrote instead of guessing (spec SESS-22).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from perdure.aws import keys
from perdure.aws.table import Item, Value, number, text
from perdure.core.codec import decode, encode, to_millis
from perdure.core.entries import SCHEMA_VERSION as ENTRY_SCHEMA
from perdure.core.entries import Entry, Receipt
from perdure.core.expected import sweep_due_at
from perdure.core.head import SCHEMA_VERSION as HEAD_SCHEMA
from perdure.core.head import Head
from perdure.errors import UnknownRecordVersionError
from perdure.ports import SessionKey

JsonObject = dict[str, Any]


def to_json(value: Any) -> str:
    """Return compact JSON text that UTF-8 can carry."""
    written = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    try:
        written.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate: only an escape can carry it
        return json.dumps(value, separators=(",", ":"))
    return written


def packed(written: str) -> bytes:
    """Return a text as it is stored where its size is paid for again and again, or is large."""
    return zlib.compress(written.encode("utf-8"))


def unpacked(item: Item, name: str) -> str:
    """Return a packed text of an item."""
    return zlib.decompress(item[name]["B"]).decode("utf-8")


def byte_size(written: str) -> int:
    """Return the size of a text as AWS counts it: in UTF-8 bytes."""
    return len(written.encode("utf-8"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEntry:
    """One entry as the tail and the log hold it: whole, or a stub that says where its body is.

    Attributes:
        text: The JSON that is stored.
        body: Where the whole entry is, when `text` is a stub: `{"item": sort key}` or `{"object": S3 key}`.
    """

    version: int
    commit_id: str
    receipts: tuple[Receipt, ...]
    text: str
    body: Mapping[str, str] | None = None

    @classmethod
    def whole(cls, entry: Entry) -> StoredEntry:
        return cls(
            version=entry.version,
            commit_id=entry.commit_id,
            receipts=entry.receipts,
            text=to_json(encode(entry)),
        )

    def stub(self, body: Mapping[str, str]) -> StoredEntry:
        """Return what stays in the tail and the log of an entry whose body is elsewhere."""
        fields = {
            "version": self.version,
            "commit_id": self.commit_id,
            "receipts": [encode(receipt) for receipt in self.receipts],
            "body": dict(body),
        }
        return StoredEntry(
            version=self.version,
            commit_id=self.commit_id,
            receipts=self.receipts,
            text=to_json(fields),
            body=body,
        )

    @classmethod
    def of(cls, data: JsonObject) -> StoredEntry:
        return cls(
            version=data["version"],
            commit_id=data["commit_id"],
            receipts=tuple(decode(Receipt, receipt) for receipt in data.get("receipts", ())),
            text=to_json(data),
            body=data.get("body"),
        )

    def entry(self) -> Entry:
        """Return the entry; it must be whole."""
        return entry_of(self.text)


def entry_of(written: str) -> Entry:
    return decode(Entry, json.loads(written))


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadRecord:
    """The HEAD item, read.

    Attributes:
        tail: Entries that may not be items of their own yet, oldest first.
        purged_version: Version of the session's last tombstone; nothing at or below it belongs to this life.
    """

    head: Head
    tail: tuple[StoredEntry, ...] = ()
    purged_version: int = 0

    def in_tail(self, version: int) -> StoredEntry | None:
        return next((stored for stored in self.tail if stored.version == version), None)


NEVER_WRITTEN = HeadRecord(head=Head())


def record_of(item: Item | None) -> HeadRecord:
    """Read a HEAD item; None is a session that was never written."""
    if item is None:
        return NEVER_WRITTEN
    check_schema(item, HEAD_SCHEMA)
    state = json.loads(unpacked(item, "state"))
    return HeadRecord(
        head=decode(Head, state["head"]),
        tail=tuple(StoredEntry.of(data) for data in state["tail"]),
        purged_version=number(item, "purged_version"),
    )


def tail_text(tail: Iterable[StoredEntry]) -> str:
    return f"[{','.join(stored.text for stored in tail)}]"


def tail_size(tail: Iterable[StoredEntry]) -> int:
    """Return a tail's size in bytes of JSON."""
    return byte_size(tail_text(tail))


def head_changes(key: SessionKey, head: Head, tail: Iterable[StoredEntry]) -> tuple[dict[str, Value], list[str]]:
    """Return the attributes that a commit sets on the HEAD item, and those that it removes."""
    partition = keys.partition_key(key)
    state = f'{{"head":{to_json(encode(head))},"tail":{tail_text(tail)}}}'
    changes: dict[str, Value] = {
        "version": head.version,
        "schema_version": head.schema_version,
        "state": packed(state),
    }
    removed: list[str] = []
    if head.owner is not None and head.last_activity_at is not None and head.exists:
        # Written with every commit; the index is charged for a change only, at admissions and turn ends.
        changes["owner_key"] = keys.owner_key(key.tenant, head.owner)
        changes["last_activity"] = to_millis(head.last_activity_at)
    else:
        removed += ["owner_key", "last_activity"]
    due_at = sweep_due_at(head)
    if due_at is not None:
        changes["due_bucket"] = keys.due_bucket(partition)
        changes["due_at"] = keys.due_millis(due_at)
    else:
        removed += ["due_bucket", "due_at"]
    if not head.exists:
        changes["purged_version"] = head.version
    return changes, removed


def log_item(partition: str, stored: StoredEntry) -> dict[str, Value]:
    return {
        "pk": partition,
        "sk": keys.log_key(stored.version),
        "schema_version": ENTRY_SCHEMA,
        "version": stored.version,
        "entry": stored.text,
    }


def stored_of(item: Item) -> StoredEntry:
    """Read a log item."""
    check_schema(item, ENTRY_SCHEMA)
    return StoredEntry.of(json.loads(text(item, "entry")))


def receipt_item(partition: str, version: int, receipt: Receipt) -> dict[str, Value]:
    return {
        "pk": partition,
        "sk": keys.receipt_key(receipt.key_hash),
        "schema_version": ENTRY_SCHEMA,
        "version": version,
        "receipt": to_json(encode(receipt)),
    }


def receipt_of(item: Item) -> Receipt:
    """Read a receipt item."""
    check_schema(item, ENTRY_SCHEMA)
    return decode(Receipt, json.loads(text(item, "receipt")))


def check_schema(item: Item, known: int) -> None:
    """Refuse an item of a newer version.

    Raises:
        UnknownRecordVersionError: It is one.
    """
    found = number(item, "schema_version", 1)
    if found > known:
        raise UnknownRecordVersionError(
            f"item {text(item, 'sk')} has schema version {found} and this is a reader of version {known}: "
            "update perdure before you read this session"
        )
