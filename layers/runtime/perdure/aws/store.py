"""Sessions on DynamoDB: one HEAD item with its tail, immutable log and receipt items, large bodies apart.

A commit is one conditional write of one item (docs/decisions/0002). Everything else here makes that safe: the tail,
the look for a lost answer, and reads that put HEAD before what hangs on it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from perdure.aws import keys
from perdure.aws.bodies import Bodies
from perdure.aws.cache import EntryCache
from perdure.aws.index import SessionIndex
from perdure.aws.items import HeadRecord, StoredEntry, head_changes, receipt_of, record_of, tail_size
from perdure.aws.limits import MAX_TAIL_BYTES, SETTLE_TAIL_BYTES
from perdure.aws.reading import LogReader, Span
from perdure.aws.table import ConditionNotMetError, Table, number
from perdure.aws.tail import Tails
from perdure.core.decision import Decision
from perdure.core.entries import Actor, Entry, Receipt
from perdure.core.head import Head
from perdure.errors import StaleSessionError, StoreUnavailableError
from perdure.ports import Loaded, LogSlice, SessionKey, SessionPage

logger = logging.getLogger("perdure")


class DynamoDBSessionStore:
    """`SessionStore` on one table, and one bucket for entries over 300 KB.

    Args:
        dynamodb: A low-level boto3 client.
        table: Name of the table; its layout is in `perdure.aws.keys` and `template.yaml`.
        s3: Gives the S3 client when the first large body comes.
        bucket: None: entries over 300 KB are a `ConfigurationError`.
        cache: Entries already read; one per container.
        settle_over: Bytes of a tail from which on `Loaded.to_settle` is true.
    """

    def __init__(
        self,
        dynamodb: Any,
        table: str,
        *,
        s3: Callable[[], Any] | None = None,
        bucket: str | None = None,
        cache: EntryCache | None = None,
        settle_over: int = SETTLE_TAIL_BYTES,
    ) -> None:
        self._table = Table(dynamodb, table)
        self._tails = Tails(self._table)
        self._bodies = Bodies(self._table, s3 or _no_s3, bucket if s3 is not None else None)
        self._log = LogReader(self._table, self._tails, self._bodies, cache or EntryCache())
        self._index = SessionIndex(self._table)
        self._settle_over = settle_over

    async def load(self, key: SessionKey, receipt_keys: Sequence[str] = ()) -> Loaded:
        """Read HEAD, then the receipts with these key hashes; strongly consistent, in this order (races.md X1)."""
        partition = keys.partition_key(key)
        record = await self._head(partition)
        receipts = {
            receipt.key_hash: receipt
            for stored in record.tail
            for receipt in stored.receipts
            if receipt.key_hash in receipt_keys
        }
        unknown = [name for name in dict.fromkeys(receipt_keys) if name not in receipts]
        if record.head.exists and unknown:
            receipts |= await self._receipts(partition, unknown, record.purged_version)
        recent = self._log.at_hand(partition, record)
        return self._loaded(record, receipts=receipts, recent=recent)

    async def peek(self, key: SessionKey) -> Head:
        """Read HEAD, possibly a moment old."""
        item = await self._table.get(keys.partition_key(key), keys.HEAD, strong=False)
        return record_of(item).head

    async def commit(self, key: SessionKey, loaded: Loaded, decision: Decision) -> Loaded:
        """Commit one decision: its new head and its entry, in one conditional write.

        An entry over 4 KB has its body written before. A tail that would grow over 16 KB is settled before. A
        tombstone drops the tail: what is in it goes with the session.

        Raises:
            StaleSessionError: Another commit came first. Nothing was written.
            StoreUnavailableError: The outcome is unknown; look with `find_commit` before deciding again.
            ItemTooLargeError: The entry fits nowhere. Nothing was written.
        """
        if decision.entry is None:
            return loaded
        partition = keys.partition_key(key)
        expected = loaded.head.version
        record = loaded.token if isinstance(loaded.token, HeadRecord) else await self._head(partition)
        stored = await self._bodies.offload(partition, StoredEntry.whole(decision.entry))
        tail = await self._tail_with(partition, record, stored) if decision.head.exists else (stored,)
        changes, removed = head_changes(key, decision.head, tail)
        try:
            await self._table.update(
                partition,
                keys.HEAD,
                put=changes,
                remove=removed,
                condition="#version = :expected" if expected else "attribute_not_exists(#pk)",
                values={"expected": expected} if expected else None,
            )
        except ConditionNotMetError as lost:
            now = record_of(lost.item)
            await self._recognise(partition, stored, now, expected)
            return self._loaded(now)
        purged_version = number_of(changes.get("purged_version"), record.purged_version)
        made = HeadRecord(head=decision.head, tail=tail, purged_version=purged_version)
        self._tails.saw(partition, made)
        self._log.remember(partition, decision.entry, len(stored.text))
        return self._loaded(made)

    async def find_commit(self, key: SessionKey, commit_id: str, versions: Sequence[int]) -> Entry | None:
        """Return the entry that a command committed as one of these versions, strongly consistent, or None."""
        partition = keys.partition_key(key)
        record = await self._head(partition)  # before the log: what leaves the tail was put there first
        for version in versions:
            stored = record.in_tail(version)
            if stored is None and version <= record.head.version:
                stored = await self._log.entry(partition, version)
            if stored is not None and stored.commit_id == commit_id:
                return await self._log.whole(partition, stored)
        return None

    async def read(
        self,
        key: SessionKey,
        *,
        first: int | None = None,
        last: int | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> LogSlice:
        """Read HEAD and the entries of versions `first` to `last`, both included, as one coherent snapshot."""
        span = Span(first=first, last=last, limit=limit, newest=newest)
        return await self._log.read(keys.partition_key(key), span)

    async def settle(self, key: SessionKey) -> None:
        """Put the entries of the tail that this process saw last as items of their own."""
        partition = keys.partition_key(key)
        seen = self._tails.last_seen(partition)
        if seen is None:
            await self._head(partition)
            seen = self._tails.last_seen(partition)
            assert seen is not None
        await self._tails.materialize(partition, seen.tail, purged_version=seen.purged_version)

    async def list_sessions(
        self, tenant: str, owner: Actor, *, cursor: str | None = None, limit: int = 50
    ) -> SessionPage:
        """Return an owner's sessions, newest activity first; at most `limit` (1-200), from an index a moment old."""
        return await self._index.list_sessions(tenant, owner, cursor=cursor, limit=limit)

    async def sessions_due(self, now: datetime, limit: int = 1000) -> Sequence[SessionKey]:
        """Return sessions whose `sweep_due_at`, rounded up to whole minutes, has come; the longest overdue first."""
        return await self._index.sessions_due(now, limit)

    async def postpone(self, key: SessionKey, version: int, due_at: datetime) -> None:
        """Have the sweep look again at `due_at`, if the session is still at this version. Never an error."""
        partition = keys.partition_key(key)
        try:
            await self._table.update(
                partition,
                keys.HEAD,
                put={"due_bucket": keys.due_bucket(partition), "due_at": keys.due_millis(due_at)},
                # Never put back into the index: a session that awaits only a person has left it.
                condition="#version = :expected AND attribute_exists(#due_bucket)",
                values={"expected": version},
            )
        except ConditionNotMetError:
            return  # it moved on, and the commit that moved it set its own time
        except StoreUnavailableError:
            logger.warning("a session could not be postponed; the next sweep sees it again")

    def _loaded(self, record: HeadRecord, **more: Any) -> Loaded:
        to_settle = tail_size(record.tail) > self._settle_over
        return Loaded(head=record.head, to_settle=to_settle, token=record, **more)

    async def _head(self, partition: str) -> HeadRecord:
        record = record_of(await self._table.get(partition, keys.HEAD, strong=True))
        self._tails.saw(partition, record)
        return record

    async def _receipts(self, partition: str, names: Sequence[str], purged_version: int) -> dict[str, Receipt]:
        sort_keys = [keys.receipt_key(name) for name in names]
        if len(sort_keys) == 1:
            item = await self._table.get(partition, sort_keys[0], strong=True)
            items = [item] if item is not None else []
        else:
            items = await self._table.batch_get([(partition, sk) for sk in sort_keys], strong=True)
        found = [receipt_of(item) for item in items if number(item, "version") > purged_version]
        return {receipt.key_hash: receipt for receipt in found}

    async def _tail_with(self, partition: str, record: HeadRecord, stored: StoredEntry) -> tuple[StoredEntry, ...]:
        """Return the tail of the next HEAD: what this process may not drop yet, and the new entry."""
        kept = self._tails.undurable(partition, record.tail)
        if kept and tail_size((*kept, stored)) > MAX_TAIL_BYTES:
            await self._tails.materialize(partition, kept, purged_version=record.purged_version)
            kept = ()
        return (*kept, stored)

    async def _recognise(self, partition: str, stored: StoredEntry, now: HeadRecord, expected: int) -> None:
        """Return if the failed condition is the echo of our own write, whose answer was lost (races.md X2).

        The SDK repeats silently, so this is looked at after every failed condition: in the tail that came back,
        then in the log, because the entry may have left the tail meanwhile.
        """
        self._tails.saw(partition, now)
        landed = now.in_tail(stored.version)
        if landed is None and now.head.version >= stored.version:
            landed = await self._log.entry(partition, stored.version)
        if landed is None or landed.commit_id != stored.commit_id:
            raise StaleSessionError(
                f"session {keys.session_key(partition).session_id} is no longer at version {expected} but at "
                f"{now.head.version}: another commit came first; read it again and decide from there"
            )


def number_of(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


def _no_s3() -> Any:
    raise AssertionError("no bucket was given")
