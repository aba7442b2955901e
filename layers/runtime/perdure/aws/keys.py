"""Names of items: partition keys, sort keys and index keys of the one `sessions` table."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from urllib.parse import quote, unquote

from perdure.aws.limits import DUE_BUCKETS, DUE_GRAIN, MAX_PARTITION_KEY_BYTES
from perdure.core.codec import to_millis
from perdure.core.entries import Actor
from perdure.core.ids import is_session_id
from perdure.errors import InvalidRequestError
from perdure.ports import SessionKey

HEAD = "HEAD"
LOG = "LOG#"
BY_OWNER = "by-owner"
"""Index of (`owner_key`, `last_activity`), keys only."""
BY_DUE = "by-due"
"""Sparse index of (`due_bucket`, `due_at`), keys only."""


def partition_key(key: SessionKey) -> str:
    """Return a session's partition key: the tenant, encoded so that no `#` is left, then `#` and the session id.

    Raises:
        InvalidRequestError: No such session can exist.
    """
    if not is_session_id(key.session_id):
        raise InvalidRequestError(f"{key.session_id!r} is no session id: use [A-Za-z0-9._:-]{{1,128}}")
    name = f"{encoded_tenant(key.tenant)}#{key.session_id}"
    if len(name) > MAX_PARTITION_KEY_BYTES:
        raise InvalidRequestError(
            f"this tenant's name is too long: its encoded form and the session id have {len(name)} bytes, "
            f"of {MAX_PARTITION_KEY_BYTES}"
        )
    return name


def session_key(partition: str) -> SessionKey:
    """Return the session of a partition key."""
    tenant, _, session_id = partition.partition("#")
    return SessionKey(tenant=unquote(tenant, errors="surrogatepass"), session_id=session_id)


def encoded_tenant(tenant: str) -> str:
    """Return a tenant's name in ASCII letters, digits and `_.-~%`."""
    return quote(tenant, safe="", errors="surrogatepass")


def log_key(version: int) -> str:
    return f"{LOG}{version:012d}"


def receipt_key(key_hash: str) -> str:
    return f"KEY#{key_hash}"


def body_key(commit_id: str, digest: str) -> str:
    return f"BODY#{commit_id}#{digest}"


def lease_key(step_id: str) -> str:
    return f"LEASE#{step_id}"


def sink_key(name: str) -> str:
    """Return the sort key of a sink's place in a session."""
    return f"SINK#{name}"


def result_key(turn_id: str, *call_and_attempt: object) -> str:
    """Return the sort key of an outcome, or what those of a turn begin with."""
    return "#".join(("RESULT", turn_id, *map(str, call_and_attempt))) + ("" if call_and_attempt else "#")


def object_prefix(partition: str) -> str:
    """Return the S3 prefix of everything that belongs to a session.

    A hash, because session ids such as `..` are legal and paths with them are not.
    """
    return f"sessions/{sha256(partition)}/"


def owner_key(tenant: str, owner: Actor) -> str:
    """Return the partition key of an owner's sessions in the index."""
    return f"{encoded_tenant(tenant)}#{sha256(json.dumps([owner.issuer, owner.subject]))}"


def due_bucket(partition: str) -> str:
    """Return which of the due index's partitions a session is in."""
    return f"due#{int(sha256(partition)[:8], 16) % DUE_BUCKETS}"


def due_buckets() -> tuple[str, ...]:
    return tuple(f"due#{number}" for number in range(DUE_BUCKETS))


def due_millis(moment: datetime) -> int:
    """Return a due time as the index holds it: epoch milliseconds, rounded up to whole minutes."""
    grain = int(DUE_GRAIN.total_seconds() * 1000)
    return -(-to_millis(moment) // grain) * grain


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
