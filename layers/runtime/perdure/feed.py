"""What follows a cursor: commits, each with its messages and events, then the progress of the steps that still run.

Every stream is made from this: pages of events, server-sent events, the WebSocket, AI SDK and AG-UI.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure.core.bounds import MAX_PAGE_BYTES, oldest_within, shortened, wire_size
from perdure.core.codec import format_time
from perdure.core.cursor import Cursor, StepProgress
from perdure.core.expected import Dispatch, awaited_steps
from perdure.core.head import Head
from perdure.core.public import public_event
from perdure.errors import InvalidRequestError
from perdure.ports import LiveEvent, Ports, SessionKey
from perdure.reading import Reader

JsonObject = dict[str, Any]

FEED_BYTES = 1024 * 1024
"""A feed ends behind the commit with which it is larger than this, in bytes of JSON. Ours: some dozen long answers."""

ENTRIES_PER_LOOK = 8
"""Entries that are read at a time when the beginning of a turn is looked for. A usual turn has four."""

QUICK_LOOKS = 10
"""Fruitless looks for events that follow each other without a rest. A commit may be seen just before its word comes."""

SHARED_PAGES = 64
"""Pages that are kept for whoever stands at the same place, in one process. Our own choice: a
session's viewers wake together, so few are enough."""

SHARED_EVENTS = 32
"""Events of a page that is kept, at most. A longer one is a backlog, which hardly two viewers read at a time."""

REST_SECONDS = 0.02
"""Rest between fruitless looks after that, so that a word of something that is not shown can't make a busy loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit: its messages and events as users see them. `cursor` stands behind all of it."""

    version: int
    cursor: str
    messages: tuple[JsonObject, ...] = ()
    events: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """Progress of a step that runs, or the early word of an event; the step's commit replaces it."""

    event: JsonObject


FeedItem = Commit | Live


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """Some of what follows a cursor, and where to go on.

    Attributes:
        head: The session as this was read.
        whole: That was all, then.
        made: What was made of it for all who stand at the same place and get the same, by its kind.
    """

    items: tuple[FeedItem, ...]
    cursor: str
    head: Head
    whole: bool = True
    made: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlace:
    """Where a turn begins: right before the commit that opened it. `closed`: it has ended."""

    turn_id: str
    cursor: str
    closed: bool


@dataclass(slots=True, kw_only=True)
class _Seen:
    """What one read gave."""

    items: list[FeedItem]
    place: Cursor
    head: Head
    whole: bool
    _feed: Feed | None = None

    def feed(self, session_id: str) -> Feed:
        """Return it as its readers get it, all the same one."""
        if self._feed is None:
            cursor = self.place.encode(session_id)
            self._feed = Feed(items=tuple(self.items), cursor=cursor, head=self.head, whole=self.whole)
        return self._feed


_Place = tuple[SessionKey, Cursor, int, bool]


class _SharedPages:
    """The latest pages of one process, for viewers that stand at the same place."""

    def __init__(self) -> None:
        self._pages: OrderedDict[_Place, _Seen] = OrderedDict()

    def find(self, place: _Place, head: Head) -> _Seen | None:
        """Return a page, if it was read of the session as it is: the very same head, not one that looks like it."""
        page = self._pages.get(place)
        return page if page is not None and page.head is head else None

    def keep(self, place: _Place, page: _Seen) -> None:
        """Keep a page that has something, and all that there was, instead of the oldest."""
        if page.items and page.whole and len(page.items) <= SHARED_EVENTS:
            self._pages.pop(place, None)
            self._pages[place] = page
            if len(self._pages) > SHARED_PAGES:
                self._pages.popitem(last=False)


class Follower:
    """Reads what follows a cursor, through the ports of one deployment."""

    def __init__(self, ports: Ports, reader: Reader) -> None:
        self._ports = ports
        self._reader = reader
        self._shared = _SharedPages() if ports.in_process else None

    async def feed(
        self,
        key: SessionKey,
        *,
        after: Cursor,
        limit: int,
        wait_seconds: float = 0,
        head: Head | None = None,
        messages: bool = True,
    ) -> Feed:
        """Return what follows a cursor, whole commits with their messages; waits for the first item if there is none.

        Args:
            limit: The feed ends behind the commit with which it has this many events, or more.
            head: As in `events`.
            messages: False: events only.
        """
        seen = await self._wait_for(key, after, limit, wait_seconds, head, messages=messages)
        return seen.feed(key.session_id)

    async def events(
        self, key: SessionKey, *, after: Cursor, limit: int, wait_seconds: float, head: Head | None = None
    ) -> JsonObject:
        """Return events after a cursor, waiting for the first one if there is none.

        A cursor that lies before what retention has kept is told by a first event `resync_required` (case F082).

        Args:
            head: The session as the caller saw it just now. Behind its end there is nothing to look at, so a viewer
                that has seen all waits at once.
        """
        seen = await self._wait_for(key, after, limit, wait_seconds, head, messages=False)
        events = events_of(seen.items)
        kept = seen.head.deleted_before or 0
        if Cursor() != after and after.version < kept:
            events.insert(0, self._resync_required(key, Cursor(version=kept)))
        shown = oldest_within(events[:limit], MAX_PAGE_BYTES)
        whole = len(shown) == len(events)
        return {"events": shown, "cursor": seen.place.encode(key.session_id) if whole else shown[-1]["cursor"]}

    def _resync_required(self, key: SessionKey, oldest: Cursor) -> JsonObject:
        """Return what tells a viewer that it has missed something for good; what is left of it is in the snapshot."""
        at, cursor = format_time(self._ports.clock.now()), oldest.encode(key.session_id)
        return {"type": "resync_required", "cursor": cursor, "at": at, "payload": {"reason": "deleted"}}

    async def turn_place(self, key: SessionKey, head: Head, turn_id: str | None) -> TurnPlace | None:
        """Return where a turn begins; the running one's if no id is given. None: there is no such turn."""
        if head.turn is not None and turn_id in (None, head.turn.turn_id):
            return _place(head.turn.turn_id, head.turn.opened_version, key.session_id, closed=False)
        number = _number_of(turn_id)
        if turn_id is None or not 1 <= number <= head.turn_count:
            return None
        version = await self._opened(key, head, number)
        return _place(turn_id, version, key.session_id, closed=True) if version is not None else None

    async def _opened(self, key: SessionKey, head: Head, number: int) -> int | None:
        """Return the version of the commit that opened a turn, by halving; None when it is not kept any more."""
        low, high = max(head.deleted_before or 1, 1), head.version
        while low < high:
            middle = (low + high + 1) // 2
            started = await self._next_turn(key, middle)
            low, high = (middle, high) if started is not None and started <= number else (low, middle - 1)
        return low if await self._next_turn(key, low, entries=1) == number else None

    async def _next_turn(self, key: SessionKey, version: int, *, entries: int | None = None) -> int | None:
        """Return the number of the first turn that a commit of this version or a later one opened."""
        while True:
            log = await self._ports.store.read(key, first=version, limit=entries or ENTRIES_PER_LOOK)
            for entry in log.entries:
                for event in entry.events:
                    if event.type == "turn_started":
                        return _number_of(event.turn_id)
            if not log.entries or entries:
                return None
            version = log.entries[-1].version + 1

    async def _wait_for(
        self, key: SessionKey, after: Cursor, limit: int, wait_seconds: float, head: Head | None, *, messages: bool
    ) -> _Seen:
        clock = self._ports.clock
        give_up = clock.now().timestamp() + wait_seconds
        looks = 0
        if head is not None and after.version == head.version + 1 and wait_seconds > 0:
            looks = 1
            await self._more(key, head, after.progress, wait_seconds)
        while True:
            seen = await self._page(key, after, limit, messages=messages)
            left = give_up - clock.now().timestamp()
            if seen.items or left <= 0:
                return seen
            if looks:  # lets others run, too: neither the read nor the wait has to
                await clock.sleep(0 if looks <= QUICK_LOOKS else min(REST_SECONDS, left))
            looks += 1
            await self._more(key, seen.head, seen.place.progress, left)

    async def _more(self, key: SessionKey, head: Head, progress: tuple[StepProgress, ...], seconds: float) -> None:
        """Wait for something that is not in this head, nor in this progress of its steps."""
        seen = sum([number for _, _, number in _of_running(progress, awaited_steps(head))])
        await self._ports.live.wait(key, version=head.version, seen=seen, timeout_seconds=seconds)

    async def _page(self, key: SessionKey, after: Cursor, limit: int, *, messages: bool) -> _Seen:
        """Return what follows, read once for all viewers in this process that stand here."""
        if self._shared is None:
            return await self._now(key, after, limit, messages=messages)
        place = (key, after, limit, messages)
        page = self._shared.find(place, await self._ports.store.peek(key))
        if page is None or await self._goes_on(key, page):
            page = await self._now(key, after, limit, messages=messages)
            self._shared.keep(place, page)
        return page

    async def _goes_on(self, key: SessionKey, page: _Seen) -> bool:
        """Whether there is progress behind a page of the session as it is."""
        for dispatch in awaited_steps(page.head):
            step, attempt = dispatch.step_id, dispatch.attempt
            if await self._ports.live.progress(key, step, attempt, page.place.seen(step, attempt)):
                return True
        return False

    async def _now(self, key: SessionKey, after: Cursor, limit: int, *, messages: bool) -> _Seen:
        log = await self._ports.store.read(key, first=max(after.version, 1), limit=limit)
        if after.version > log.head.version + 1:
            await self._check_reached(key, after)
        running = awaited_steps(log.head)
        progress = _of_running(after.progress, running)
        said = await self._reader.messages_of(key, log.entries, log.head) if messages else {}
        items: list[FeedItem] = []
        place = after
        events = size = 0
        for entry in log.entries:
            place = Cursor(version=entry.version + 1, progress=progress)
            first = after.index if entry.version == after.version else 0
            shown = tuple(
                [
                    public_event(event, entry, index, key.session_id, progress)
                    for index, event in enumerate(entry.events[first:], start=first)
                ]
            )
            told = tuple([_bounded(message) for message in said.get(entry.version, ())])
            if shown or told:
                cursor = place.encode(key.session_id)
                items.append(Commit(version=entry.version, cursor=cursor, messages=told, events=shown))
            events += len(shown)
            if messages:
                size += sum(map(wire_size, (*shown, *told)))
            if events >= limit or size >= FEED_BYTES:
                break
        whole = (place.version > log.head.version or log.head.version == 0) and events < limit
        if whole:
            turn_id = log.head.turn.turn_id if log.head.turn else None
            live, place = await self._progress(key, turn_id, running, after, place, limit - events)
            items += live
            whole = events + len(live) < limit
        return _Seen(items=items, place=place, head=log.head, whole=whole)

    async def _check_reached(self, key: SessionKey, after: Cursor) -> None:
        """Refuse a place that a session has not come to: it was restored, or begun anew. What was read may be old.

        Raises:
            InvalidRequestError: `invalid_cursor`. Whoever waited there would miss all that happens until then.
        """
        head = (await self._ports.store.load(key)).head
        if head.version and after.version > head.version + 1:
            raise InvalidRequestError(
                "this cursor lies ahead of its session, which may have been restored: begin with its snapshot",
                code="invalid_cursor",
            )

    async def _progress(
        self,
        key: SessionKey,
        turn_id: str | None,
        running: Sequence[Dispatch],
        after: Cursor,
        place: Cursor,
        room: int,
    ) -> tuple[list[Live], Cursor]:
        """Return the progress of the steps that still run, all of it from their start unless the cursor saw it."""
        shown: list[Live] = []
        counts: dict[str, tuple[int, int]] = {}
        for dispatch in running:
            step, attempt = dispatch.step_id, dispatch.attempt
            seen = after.seen(step, attempt)
            counts[step] = (attempt, seen)
            for event in await self._ports.live.progress(key, step, attempt, seen):
                if len(shown) >= room:
                    break
                seen += 1
                counts[step] = (attempt, seen)
                cursor = _with_progress(place, counts).encode(key.session_id)
                shown.append(Live(event=_live_event(event, turn_id, step, attempt, seen, cursor)))
        return shown, _with_progress(place, counts)


def events_of(items: Sequence[FeedItem]) -> list[JsonObject]:
    """Return the events of a feed, in order."""
    events: list[JsonObject] = []
    for item in items:
        if isinstance(item, Live):
            events.append(item.event)
        else:
            events += item.events
    return events


def _number_of(turn_id: str | None) -> int:
    """Return which turn of its session an id names, from 1; 0 for what is no turn's id."""
    number = (turn_id or "").removeprefix("turn-")
    return int(number) if number.isascii() and number.isdigit() and len(number) <= 9 else 0


def _place(turn_id: str, version: int, session_id: str, *, closed: bool) -> TurnPlace:
    return TurnPlace(turn_id=turn_id, cursor=Cursor(version=version).encode(session_id), closed=closed)


def _bounded(message: JsonObject) -> JsonObject:
    """Return a message with texts of people and tools cut as elsewhere; an answer stays whole, as its deltas are."""
    return message if message["role"] == "assistant" else shortened(message)


def _of_running(progress: tuple[StepProgress, ...], running: Sequence[Dispatch]) -> tuple[StepProgress, ...]:
    """Return what was seen of the steps that run; what became of others is in the log."""
    if not progress:
        return ()
    open_steps = {(dispatch.step_id, dispatch.attempt) for dispatch in running}
    return tuple([step for step in progress if step[:2] in open_steps])


def _with_progress(place: Cursor, counts: dict[str, tuple[int, int]]) -> Cursor:
    seen = tuple((step, attempt, number) for step, (attempt, number) in counts.items() if number)
    return Cursor(version=place.version, index=place.index, progress=seen)


def _live_event(event: LiveEvent, turn_id: str | None, step: str, attempt: int, number: int, cursor: str) -> JsonObject:
    shown: JsonObject = {"type": event.type, "cursor": cursor}
    if turn_id is not None:
        shown["turn_id"] = turn_id
    shown |= {"step_execution_id": step, "attempt": attempt, "progress_sequence": number}
    return shown | {"at": format_time(event.at), "payload": event.payload}
