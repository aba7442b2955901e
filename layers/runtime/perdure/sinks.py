"""Sinks: events of committed changes on their way to the application, such as its audit log (spec EVT-10, EVT-11).

At least once, after the commit, in order per session. A sink that fails or is slow fails or delays no turn.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Any

from perdure.core.bounds import wire_size
from perdure.core.entries import Entry
from perdure.core.public import public_event
from perdure.errors import ConfigurationError

JsonObject = dict[str, Any]

MAX_NOTICE_EVENTS = 100
"""Events of one notice. Our own choice."""

MAX_NOTICE_BYTES = 1024 * 1024
"""Size of the events of one notice, in bytes of JSON; a larger event comes alone. Our own choice."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What a sink is given: durable events of one session, in order.

    An event may come again, after a crash or a delivery whose end was not seen: `(session_id, sequence)` tells it.
    """

    tenant: str
    session_id: str
    events: tuple[JsonObject, ...]


@dataclass(frozen=True, slots=True)
class EventSink:
    """Where an application wants to have the events of all sessions.

    Attributes:
        name: `[a-z0-9][a-z0-9_-]{0,63}`. The place that was reached in each session is kept under it, so it stays.
        deliver: Takes a notice; `async` or not. Whatever it raises, or longer than `timeout`: the same comes again.
        events: Types that are wanted; one that ends with a dot stands for all that begin with it. None: all.
        redact: Takes an event as the events route gives it, a copy, and returns what is delivered in its place; None
            to leave it out. When it raises, nothing leaves, and the delivery has failed.
        timeout: How long a delivery may take. A `def` runs on in its thread behind it;
            with 16 threads that hang in one process, a sink gets no more.
        give_up_after: A notice that was not delivered for so long is dropped, so that those behind it come through.
    """

    name: str
    deliver: Callable[[Notice], Awaitable[None] | None]
    _: KW_ONLY
    events: Collection[str] | None = None
    redact: Callable[[JsonObject], JsonObject | None] | None = None
    timeout: timedelta = timedelta(seconds=30)
    give_up_after: timedelta = timedelta(days=1)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(f"{self.name!r} is no name of a sink: use up to 64 of a-z, 0-9, - and _")
        if isinstance(self.events, str):
            raise ConfigurationError(f"events of sink {self.name!r} is a list of types, not a text")
        if self.timeout <= timedelta(0) or self.give_up_after <= timedelta(0):
            raise ConfigurationError(f"timeout and give_up_after of sink {self.name!r} are longer than nothing")

    def wants(self, event_type: str) -> bool:
        """Whether events of a type are delivered."""
        if self.events is None:
            return True
        return any(event_type == w or (w.endswith(".") and event_type.startswith(w)) for w in self.events)


def check_sinks(sinks: Sequence[EventSink]) -> None:
    """Refuse sinks that share a name.

    Raises:
        ConfigurationError: Two do.
    """
    names = [sink.name for sink in sinks]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"two sinks are called {name!r}: the place of each is kept under its name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The next events for a sink.

    Attributes:
        wanted: As the events route gives them, before they are redacted.
        version, index: The place behind them: entry, and how many of its events.
    """

    wanted: tuple[JsonObject, ...]
    version: int
    index: int


def next_batch(sink: EventSink, session_id: str, entries: Iterable[Entry], version: int, index: int) -> Batch:
    """Return what some entries hold for a sink from a place on, within the bounds of a notice."""
    wanted: list[JsonObject] = []
    size = 0
    for entry in entries:
        seen = index if entry.version == version else 0
        for number, event in enumerate(entry.events[seen:], start=seen):
            if not sink.wants(event.type):
                continue
            shown = public_event(event, entry, number, session_id)
            size += wire_size(shown)
            if wanted and (len(wanted) == MAX_NOTICE_EVENTS or size > MAX_NOTICE_BYTES):
                return Batch(wanted=tuple(wanted), version=entry.version, index=number)
            wanted.append(shown)
        version, index = entry.version + 1, 0
    return Batch(wanted=tuple(wanted), version=version, index=index)


def redacted(sink: EventSink, events: Iterable[JsonObject]) -> tuple[JsonObject, ...]:
    """Return what of some events leaves. Whatever the sink's function raises comes out."""
    copies = (copy.deepcopy(event) for event in events)  # theirs to change: ours are the log's own
    if sink.redact is None:
        return tuple(copies)
    shown = (sink.redact(event) for event in copies)
    return tuple(event for event in shown if event is not None)
