"""One ordered delivery: where a viewer stands in a session, and the frames of what follows.

A delivery is pure. Whoever drives it reads the feed behind its cursor and sends what it returns, one after the other:
a task beside the socket in one process, a pump with a lease on AWS. `state` is all that another process needs to go on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

from perdure.core.cursor import Cursor
from perdure.feed import Feed, events_of
from perdure.streams.parts import SharedFrame

JsonObject = dict[str, Any]

EVENTS_BYTES = 24 * 1024
"""Events in one frame, in bytes of JSON: with its head it stays below a WebSocket's frame."""


class Delivery(Protocol):
    """What one viewer is sent of one session.

    Attributes:
        kind: Names the mapping, for whoever restores it.
        session_id: Whose feed it reads.
        cursor: Where it stands. None: it needs the session's snapshot first.
        messages: Whether its feed has messages.
        ended: There is nothing more to send, ever.
        may_repeat: Its viewer recognises what it is sent twice, so a pump may go on from an earlier place.
    """

    @property
    def kind(self) -> str: ...
    @property
    def session_id(self) -> str: ...
    @property
    def cursor(self) -> str | None: ...
    @property
    def messages(self) -> bool: ...
    @property
    def ended(self) -> bool: ...
    @property
    def may_repeat(self) -> bool: ...

    def opened(self) -> list[JsonObject]:
        """Return the frames before everything else."""
        ...

    def take(self, feed: Feed) -> list[JsonObject]:
        """Return the frames of what follows the cursor, and move it."""
        ...

    def take_snapshot(self, snapshot: JsonObject) -> list[JsonObject]:
        """Return the frames of the session as it is, and stand behind it."""
        ...

    def refused(self, code: str, message: str) -> list[JsonObject]:
        """Return the last frames for a viewer who may see this no more."""
        ...

    def state(self) -> JsonObject:
        """Return what another process needs to go on."""
        ...

    def state_behind(self, frame: JsonObject) -> JsonObject | None:
        """Return the state of a delivery that has sent no more than up to this frame; None: that can't be told."""
        ...


class Attachment:
    """A viewer of our own protocol: the events of a session as `GET …/events` gives them, from a cursor on."""

    kind = "events"
    messages = False
    ended = False
    may_repeat = True

    def __init__(self, session_id: str, cursor: str | None, *, opened: bool = False) -> None:
        self.session_id = session_id
        self.cursor = cursor
        self._opened = opened

    @classmethod
    def restored(cls, session_id: str, state: JsonObject) -> Attachment:
        return cls(session_id, state["cursor"], opened=state["opened"])

    def state(self) -> JsonObject:
        return {"cursor": self.cursor, "opened": self._opened}

    def state_behind(self, frame: JsonObject) -> JsonObject | None:
        if frame["type"] == "snapshot":
            return {"cursor": frame["snapshot"]["cursor"], "opened": True}
        return {"cursor": frame.get("cursor"), "opened": True}

    def opened(self) -> list[JsonObject]:
        if self._opened or self.cursor is None:
            return []
        self._opened = True
        return [{"type": "attached", "session_id": self.session_id, "cursor": self.cursor}]

    def take_snapshot(self, snapshot: JsonObject) -> list[JsonObject]:
        self.cursor = snapshot["cursor"]
        return [*self.opened(), {"type": "snapshot", "session_id": self.session_id, "snapshot": snapshot}]

    def take(self, feed: Feed) -> list[JsonObject]:
        if (reason := self._gap(feed)) is not None:
            self.cursor = None  # what was deleted is told by a snapshot only
            return [{"type": "resync_required", "session_id": self.session_id, "reason": reason}]
        self.cursor = feed.cursor
        if self.kind not in feed.made:
            feed.made[self.kind] = self._frames(feed)
        frames: list[SharedFrame] = feed.made[self.kind]
        return list(frames)

    def refused(self, code: str, message: str) -> list[JsonObject]:
        return [{"type": "access_denied", "session_id": self.session_id, "code": code, "message": message}]

    def _gap(self, feed: Feed) -> str | None:
        assert self.cursor is not None
        if feed.head.exists and feed.head.deleted_before is None:
            return None
        place = Cursor.decode(self.cursor, self.session_id)
        if not feed.head.exists and feed.head.version:
            return "purged" if place != Cursor() else None  # at its start it was told already
        return "deleted" if place.version < (feed.head.deleted_before or 0) else None

    def _frames(self, feed: Feed) -> list[SharedFrame]:
        """Return the frames of a page: the same for everybody who stands before it."""
        head = {"type": "events", "session_id": self.session_id}
        groups = _groups(events_of(feed.items))
        frames = [SharedFrame(head | {"events": group, "cursor": group[-1]["cursor"]}) for group in groups]
        if frames:
            frames[-1]["cursor"] = feed.cursor
        return frames


def _groups(events: Sequence[JsonObject]) -> list[list[JsonObject]]:
    """Return events in groups that fit a frame; one that is too large alone is alone."""
    groups: list[list[JsonObject]] = []
    size = 0
    for event in events:
        more = len(json.dumps(event)) + 1
        if not groups or size + more > EVENTS_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(event)
        size += more
    return groups
