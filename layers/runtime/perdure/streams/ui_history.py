"""A session's stored messages as UI messages, for a page that loads (spec UI-11).

One assistant message per turn, made by the very mapping that streams it, so that a reload shows what following showed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from perdure.core.bounds import MAX_PAGE_BYTES, wire_size
from perdure.core.cursor import Cursor
from perdure.core.seeding import SEED_TURN
from perdure.errors import InvalidRequestError
from perdure.feed import Commit, Feed
from perdure.streams.ui_chunks import UIChunks
from perdure.streams.ui_files import ui_parts
from perdure.streams.ui_reducer import MessageReducer
from perdure.streams.ui_token import resume_token

if TYPE_CHECKING:
    from perdure.service import Caller, Service

JsonObject = dict[str, Any]

TURNS = 20
"""Turns that are returned at a time. Our own choice: more than a page shows at once."""

MOST_TURNS = 100

_NO_LAST = 10**9

_TURN_ID = re.compile(r"turn-([1-9][0-9]{0,8})")


class _Turn:
    """One turn: the messages that it began with, and its answer as far as it has come."""

    def __init__(self, turn_id: str) -> None:
        self.mapping = UIChunks(turn_id)
        self.begun_with: list[JsonObject] = []
        self._reducer = MessageReducer()

    def take(self, commit: Commit) -> None:
        turn_id = self.mapping.turn_id
        joined = {e["payload"]["message_id"] for e in commit.events if e["type"] == "inbox.joined"}
        for message in commit.messages:
            if message["role"] == "user" and message["turn_id"] == turn_id and message["message_id"] not in joined:
                self.begun_with.append(_user(message))
        for chunk in self.mapping.take(commit):
            self._reducer.take(chunk)

    @property
    def messages(self) -> list[JsonObject]:
        answer = [self._reducer.message] if self._reducer.parts else []
        return [*self.begun_with, *answer]


async def ui_page(
    service: Service, caller: Caller, session_id: str, *, before: str | None = None, limit: int = TURNS
) -> JsonObject:
    """Return `{session_id, messages, resume_token, next_before?}`: the newest turns, or those before one, oldest first.

    `resume_token` is null while no turn runs. The page takes at most 4 MiB, but at least one turn.

    Args:
        before: The id of a turn, as `next_before` names it.
        limit: Turns, 1 to `MOST_TURNS`, clamped.
    """
    feed = await service.feed(caller, session_id, limit=1)
    last = feed.head.turn_count if before is None else _number(before) - 1
    if before is not None and last < 1:
        return {"session_id": session_id, "messages": [], "resume_token": None}
    first = max(last - max(1, min(limit, MOST_TURNS)) + 1, 1)
    place = await service.turn_place(caller, session_id, f"turn-{first}") if first > 1 else None
    cursor = place.cursor if place is not None else None
    wanted = range(first, last + 1) if before is not None else range(first, _NO_LAST)
    seeded: list[JsonObject] = []
    turns: dict[int, _Turn] = {}
    while True:
        feed = await service.feed(caller, session_id, after=cursor)
        for commit in feed.items:
            if isinstance(commit, Commit):
                _take(commit, wanted, turns, seeded)
        cursor = feed.cursor
        if not feed.items or _is_past(feed, session_id) or (last in turns and before and turns[last].mapping.ended):
            break
    token = None
    if before is None and feed.head.turn is not None:
        running = turns.get(_number(feed.head.turn.turn_id))
        token = resume_token(cursor, feed.head.turn.turn_id, running.mapping.steps if running else 0)
    return {"session_id": session_id, "resume_token": token, **_page(turns, first, seeded)}


def _take(commit: Commit, wanted: range, turns: dict[int, _Turn], seeded: list[JsonObject]) -> None:
    named = [item["turn_id"] for item in (*commit.messages, *commit.events) if "turn_id" in item]
    for turn_id in dict.fromkeys(named):
        found = _TURN_ID.fullmatch(turn_id)
        if found is not None and int(found[1]) in wanted:
            turns.setdefault(int(found[1]), _Turn(turn_id)).take(commit)
        elif turn_id == SEED_TURN and 1 in wanted:
            seeded += [_seeded(message) for message in commit.messages if message["turn_id"] == SEED_TURN]


def _page(turns: dict[int, _Turn], first: int, seeded: list[JsonObject]) -> JsonObject:
    """Return as many of the newest turns as a page takes."""
    room = MAX_PAGE_BYTES
    kept: list[JsonObject] = []
    for number in sorted(turns, reverse=True):
        messages = turns[number].messages
        room -= sum(map(wire_size, messages))
        if room < 0 and kept:
            return {"messages": kept, "next_before": f"turn-{number + 1}"}
        kept = [*messages, *kept]
    if first > 1:
        return {"messages": kept, "next_before": f"turn-{first}"}
    return {"messages": [*seeded, *kept]}


def _is_past(feed: Feed, session_id: str) -> bool:
    """Whether all that is committed was read."""
    return Cursor.decode(feed.cursor, session_id).version > feed.head.version


def _number(turn_id: str) -> int:
    found = _TURN_ID.fullmatch(turn_id)
    if found is None:
        raise InvalidRequestError("`before` is the id of a turn, as `next_before` gave it", code="invalid_cursor")
    return int(found[1])


def _user(message: JsonObject) -> JsonObject:
    shown: JsonObject = {"id": message["message_id"], "role": "user", "parts": ui_parts(message)}
    return shown | {"metadata": message["metadata"]} if "metadata" in message else shown


def _seeded(message: JsonObject) -> JsonObject:
    """Return an imported message, which is text alone."""
    if message["role"] == "user":
        return _user(message)
    texts = [{"type": "text", "text": part["text"], "state": "done"} for part in message["parts"]]
    return {"id": message["message_id"], "role": "assistant", "parts": [{"type": "step-start"}, *texts]}
