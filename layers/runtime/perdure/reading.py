"""How a session is shown: snapshots and pages of messages. Reads only; what follows a cursor is in `feed.py`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from perdure.core.bounds import MAX_PAGE_BYTES, MAX_SHOWN_BYTES, fitted, newest_within
from perdure.core.cursor import Cursor
from perdure.core.entries import Entry, Input, Message
from perdure.core.fates import TurnFate, fates_of
from perdure.core.head import Frontier, Head
from perdure.core.public import (
    inputs_of,
    public_calls,
    public_interrupts,
    public_message,
    public_state,
    public_usage,
    public_waiting,
)
from perdure.core.seeding import SEED_TURN
from perdure.errors import InvalidRequestError
from perdure.ports import Ports, SessionKey
from perdure.steps.progress import parts_of

JsonObject = dict[str, Any]

SNAPSHOT_MESSAGES = 50
"""Messages in a snapshot at most (surface §4.2)."""

MESSAGES_SHARE = MAX_PAGE_BYTES // 2
CALLS_SHARE = MAX_PAGE_BYTES // 4
OTHER_SHARE = MAX_PAGE_BYTES // 8
"""What the messages, the tool calls, and interrupts and inbox each may take of a snapshot, in bytes as it is sent."""

ENTRIES_PER_READ = 100
"""Entries that are read at a time when messages are looked for backwards."""


class Reader:
    """Reads sessions through the ports of one deployment."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def snapshot(self, key: SessionKey, head: Head | None) -> JsonObject:
        """Return the snapshot of surface §4, cut at one version."""
        if head is None:
            return _empty_snapshot(key)
        log = await self._ports.store.read(key, newest=True, limit=ENTRIES_PER_READ)
        head, entries = log.head, list(log.entries)
        turn_id, opened = _shown_turn(head)
        while (
            entries and entries[0].version > 1 and (_count(entries) < SNAPSHOT_MESSAGES or entries[0].version > opened)
        ):
            older = await self._older(key, entries[0].version)
            if not older:
                break
            entries = [*older, *entries]
        calls = public_calls(entries, turn_id, head)
        page = await self._page(
            key, entries, SNAPSHOT_MESSAGES, head=head, budget=MESSAGES_SHARE, longest=MAX_SHOWN_BYTES
        )
        return {
            "session_id": key.session_id,
            "agent": head.agent,
            **({"title": head.title} if head.title is not None else {}),
            "state": public_state(head, taken=await self._is_taken(key, head)),
            **page,
            "tool_calls": fitted(calls, CALLS_SHARE),
            "pending_interrupts": fitted(
                public_interrupts(head, calls, [*await self._asked_in(key, head), *entries]), OTHER_SHARE
            ),
            "inbox": fitted(await self.inbox(key, head), OTHER_SHARE),
            "plan": None,
            "usage": public_usage(head),
            "settings": await self.settings(key, head),
            "cursor": Cursor(version=head.version + 1).encode(key.session_id),
        }

    async def _is_taken(self, key: SessionKey, head: Head) -> bool:
        """Whether a worker has the model step that is expected: HEAD knows only what was claimed in a commit."""
        step = head.turn.step if head.turn else None
        if step is None or step.claimed_by is not None:
            return step is not None
        lease = await self._ports.leases.read_lease(key, step.step_id)
        return lease is not None and lease.attempt == step.attempt and lease.claimed and not lease.revoked

    async def _asked_in(self, key: SessionKey, head: Head) -> list[Entry]:
        """Return the entries in which the application asked for the values that are still wanted."""
        entries = [await self._entry(key, version) for version in sorted({r.raised_version for r in head.requests})]
        return [entry for entry in entries if entry is not None]

    async def inbox(self, key: SessionKey, head: Head) -> list[JsonObject]:
        """Return the queued messages with their texts, in the order of their turns."""
        shown = []
        for queued in head.inbox:
            entry = await self._entry(key, queued.input_version)
            accepted = next((i for i in entry.inputs if i.message_id == queued.message_id), None) if entry else None
            if entry is not None and accepted is not None:
                shown.append(public_waiting(queued, accepted, entry))
        return shown

    async def input(self, key: SessionKey, version: int, message_id: str) -> Input | None:
        """Return the input with an id that the entry of a version holds, or None."""
        entry = await self._entry(key, version)
        return next((i for i in entry.inputs if i.message_id == message_id), None) if entry else None

    async def settings(self, key: SessionKey, head: Head) -> JsonObject:
        """Return the settings that the next turn is bound to."""
        entry = await self._entry(key, head.settings_version) if head.settings_version is not None else None
        return (entry.settings if entry else None) or {}

    async def frontier(self, key: SessionKey, cursor: Cursor) -> Frontier:
        """Return what a screen showed that had come as far as a cursor (spec STOP-05).

        An answer that began anew since then, by a reconnect or another attempt, was not on it at all.
        """
        version = cursor.version if cursor.index else cursor.version - 1
        step = next((step for step in cursor.progress if step[0].startswith("model-")), None)
        if step is None or await self._attempt_of(key, step[0], version) not in (None, step[1]):
            return Frontier(version=version, text=0, reasoning=0)
        step_id, attempt, seen = step
        progress = await self._ports.live.progress(key, step_id, attempt)
        if any(event.type == "attempt_reset" for event in progress[seen:]):
            return Frontier(version=version, text=0, reasoning=0)
        if len(progress) < seen:
            return Frontier(version=version)
        sizes = {"text": 0, "reasoning": 0}
        for part in parts_of(progress[:seen]):
            sizes[part["type"]] += len(part["text"])
        return Frontier(version=version, text=sizes["text"], reasoning=sizes["reasoning"])

    async def _attempt_of(self, key: SessionKey, step_id: str, version: int) -> int | None:
        """Return the attempt of a model step that runs, or that ended soon after a version; None: not known."""
        log = await self._ports.store.read(key, first=version + 1, limit=ENTRIES_PER_READ)
        step = log.head.turn.step if log.head.turn else None
        if step is not None and step.step_id == step_id:
            return step.attempt
        ended = (event for entry in log.entries for event in entry.events if event.type == "model_finished")
        return next((event.attempt for event in ended if event.step_execution_id == step_id), None)

    async def messages(self, key: SessionKey, *, before: str | None, limit: int) -> JsonObject:
        """Return `{messages, next_before?, deleted_before?}`, oldest first; fewer if they are large."""
        sequence, version = _place(before)
        entries: list[Entry] = []
        if sequence is not None and version is None:
            version = await self._version_before(key, sequence)
        log = await self._ports.store.read(key, last=version, newest=True, limit=ENTRIES_PER_READ)
        entries = list(log.entries)
        while entries and entries[0].version > 1 and _count(entries, sequence) < limit:
            older = await self._older(key, entries[0].version)
            if not older:
                break
            entries = [*older, *entries]
        return await self._page(key, entries, limit, head=log.head, before=sequence)

    async def _page(
        self,
        key: SessionKey,
        entries: Sequence[Entry],
        limit: int,
        *,
        head: Head,
        before: int | None = None,
        budget: int = MAX_PAGE_BYTES,
        longest: int | None = None,
    ) -> JsonObject:
        """Return the newest messages of some entries that lie before a sequence: `limit` of them, or `budget` bytes."""
        kept_from = await self._kept_from(key, head)
        pairs = [
            (message, entry)
            for entry in entries
            for message in entry.messages
            if message.sequence >= (kept_from or 1) and (before is None or message.sequence < before)
        ]
        pairs = pairs[-limit:]
        inputs = await self._inputs(key, pairs)
        fates = await self._fates(key, entries, pairs[-1][0].turn_id if pairs else None, head)
        shown = [public_message(message, entry, inputs, fates) for message, entry in pairs]
        page: JsonObject = {"messages": newest_within(shown, budget, longest)}
        pairs = pairs[len(pairs) - len(page["messages"]) :]
        if pairs and pairs[0][0].sequence > (kept_from or 1):
            page["next_before"] = f"{pairs[0][0].sequence}.{pairs[0][1].version}"
        return page if kept_from is None else page | {"deleted_before": kept_from}

    async def _kept_from(self, key: SessionKey, head: Head) -> int | None:
        """Return the sequence of the first message that retention has left; None: it has deleted nothing."""
        if head.deleted_before is None:
            return None
        first = await self._first_sequence_from(key, head.deleted_before)
        return head.message_sequence + 1 if first is None else first

    async def _fates(
        self, key: SessionKey, entries: Sequence[Entry], turn_id: str | None, head: Head
    ) -> dict[str, TurnFate]:
        """Return what became of the turns of some messages. The last one's end may lie behind the page."""
        read = list(entries)
        fates = fates_of(read, head)
        turn_id = None if turn_id == SEED_TURN else turn_id  # it has no end
        while turn_id is not None and turn_id not in fates and read and read[-1].version < head.version:
            if head.turn is not None and head.turn.turn_id == turn_id:
                break  # it has no end yet
            log = await self._ports.store.read(key, first=read[-1].version + 1, limit=ENTRIES_PER_READ)
            if not log.entries:
                break
            read += log.entries
            fates = fates_of(read, head)
        seen = min((fate.frontier.version for fate in fates.values() if fate.frontier is not None), default=None)
        if seen is not None and seen + 1 < read[0].version:  # the first answer behind it may lie before the page
            log = await self._ports.store.read(key, first=seen + 1, last=read[0].version - 1)
            fates = fates_of([*log.entries, *read], head)
        return fates

    async def messages_of(self, key: SessionKey, entries: Sequence[Entry], head: Head) -> dict[int, list[JsonObject]]:
        """Return the messages of some entries that follow each other, by version."""
        pairs = [(message, entry) for entry in entries for message in entry.messages]
        inputs = await self._inputs(key, pairs)
        fates = await self._fates(key, entries, pairs[-1][0].turn_id if pairs else None, head)
        shown: dict[int, list[JsonObject]] = {}
        for message, entry in pairs:
            shown.setdefault(entry.version, []).append(public_message(message, entry, inputs, fates))
        return shown

    async def _inputs(self, key: SessionKey, pairs: Sequence[tuple[Message, Entry]]) -> dict[Any, Input]:
        """Return the accepted inputs that the users' messages of some entries point at (`inputs_of`)."""
        inputs = inputs_of(entry for _, entry in pairs)
        for message, _ in pairs:
            if message.input_version is not None and (message.input_version, message.message_id) not in inputs:
                source = await self._entry(key, message.input_version)
                inputs |= inputs_of([source] if source else ())
        return inputs

    async def _entry(self, key: SessionKey, version: int) -> Entry | None:
        log = await self._ports.store.read(key, first=version, last=version)
        return log.entries[0] if log.entries else None

    async def _older(self, key: SessionKey, version: int) -> Sequence[Entry]:
        log = await self._ports.store.read(key, last=version - 1, newest=True, limit=ENTRIES_PER_READ)
        return log.entries

    async def _version_before(self, key: SessionKey, sequence: int) -> int:
        """Return the version of the last entry whose messages all lie before a sequence, by halving."""
        head = await self._ports.store.peek(key)
        low, high = 0, head.version
        while low < high:
            middle = (low + high + 1) // 2
            first = await self._first_sequence_from(key, middle)
            if first is None or first >= sequence:
                high = middle - 1
            else:
                low = middle
        return low

    async def _first_sequence_from(self, key: SessionKey, version: int) -> int | None:
        """Return the sequence of the first message at or after a version, or None when there is none."""
        while True:
            log = await self._ports.store.read(key, first=version, limit=8)
            for entry in log.entries:
                if entry.messages:
                    return entry.messages[0].sequence
            if not log.entries:
                return None
            version = log.entries[-1].version + 1


def _shown_turn(head: Head) -> tuple[str, int]:
    """Return the turn whose calls are shown, and where its entries begin."""
    if head.turn is not None:
        return head.turn.turn_id, head.turn.opened_version
    if head.last_turn is not None:
        return head.last_turn.turn_id, head.last_turn.opened_version
    return "", head.version + 1


def _count(entries: Iterable[Entry], before: int | None = None) -> int:
    return sum(1 for entry in entries for message in entry.messages if before is None or message.sequence < before)


def _place(before: str | None) -> tuple[int | None, int | None]:
    """Read `before`: a message sequence, or a `next_before` of ours, which also says where to look."""
    if before is None:
        return None, None
    sequence, _, version = before.partition(".")
    numbers = [part for part in (sequence, version) if part]
    if not sequence or not all(part.isascii() and part.isdigit() and len(part) <= 12 for part in numbers):
        raise InvalidRequestError(f"before {before[:40]!r} is no message sequence: use one, or a `next_before`")
    return int(sequence), int(version) if version else None


def _empty_snapshot(key: SessionKey) -> JsonObject:
    return {
        "session_id": key.session_id,
        "agent": None,
        "state": None,
        "messages": [],
        "tool_calls": [],
        "pending_interrupts": [],
        "inbox": [],
        "plan": None,
        "usage": public_usage(Head()),
        "settings": {},
        "cursor": Cursor().encode(key.session_id),
    }
