"""Finds one turn in a session's log and reads it, without reading what lies before or behind it."""

from __future__ import annotations

from typing import Any

from perdure.core.bounds import MAX_PAGE_BYTES, newest_within
from perdure.core.entries import Entry
from perdure.core.head import Head
from perdure.core.turn_record import TurnRecord, last_turn_in, turn_number
from perdure.errors import NotFoundError
from perdure.ports import SessionKey, SessionStore

JsonObject = dict[str, Any]

ENTRIES_PER_PROBE = 4
"""Entries that are read at a time while the place of a turn is looked for: most name their turn. Our own choice."""

FIRST_READ, LONGEST_READ = 8, 64
"""Entries of the turn that are read at a time, at first and at most: twice as many each time, as most are short."""


async def read_turn(store: SessionStore, key: SessionKey, head: Head | None, turn_id: str) -> JsonObject:
    """Return `{turn_id, status, started_at, message_ids, tool_calls, usage, cursor, …}` of one turn.

    Args:
        head: The session as it was just seen. None: it was never written.

    Raises:
        NotFoundError: `turn_not_found`: the session has no such turn, or keeps it no more.
    """
    opened = await opening_of(store, key, head, turn_id) if head is not None else None
    record = TurnRecord(turn_id)
    version, limit = opened or 0, FIRST_READ
    while opened is not None:
        log = await store.read(key, first=version, limit=limit)
        head = log.head
        for entry in log.entries:
            record.take(entry)
        if not record.begun or record.ended or not log.entries or log.entries[-1].version >= log.head.version:
            break
        version, limit = log.entries[-1].version + 1, min(2 * limit, LONGEST_READ)
    if head is None or not record.begun:
        raise NotFoundError(
            f"session {key.session_id!r} has no turn {turn_id[:40]!r}, or keeps it no more", code="turn_not_found"
        )
    shown = record.public(key.session_id, head)
    if "answer" in shown:
        shown["answer"] = newest_within([shown["answer"]], MAX_PAGE_BYTES // 2)[0]
    return shown


async def opening_of(store: SessionStore, key: SessionKey, head: Head, turn_id: str) -> int | None:
    """Return the version of the entry that opened a turn, by halving; None: there is none, or it was deleted."""
    number = turn_number(turn_id)
    if number is None or number > head.turn_count:
        return None
    low, high = head.deleted_before or 1, head.version
    for known in (head.turn, head.last_turn):
        if known is not None and known.turn_id == turn_id:
            return known.opened_version
        if known is not None:
            high = min(high, known.opened_version)
    opened: int | None = None
    while low <= high:
        middle = (low + high) // 2
        entry = await _first_of_a_turn(store, key, middle)
        last = last_turn_in(entry) if entry is not None else None
        if entry is None or last is None:
            high = middle - 1
        elif last >= number:
            opened, high = entry.version, middle - 1
        else:
            low = entry.version + 1
    return opened


async def _first_of_a_turn(store: SessionStore, key: SessionKey, version: int) -> Entry | None:
    """Return the first entry at or after a version that opens a turn or adds messages to one."""
    while True:
        log = await store.read(key, first=version, limit=ENTRIES_PER_PROBE)
        for entry in log.entries:
            if last_turn_in(entry) is not None:
                return entry
        if not log.entries:
            return None
        version = log.entries[-1].version + 1
