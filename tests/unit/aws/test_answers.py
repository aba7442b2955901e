"""AI SDK's frames from a pump: numbered without a gap, from one pump to the next, and what the client makes of them."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from perdure.aws.delivery import ANSWER_TIME, POST_ATTEMPTS
from perdure.aws.subscriptions import PUMP_LEASE, Subscription
from perdure.core.cursor import Cursor
from perdure.core.head import Head
from perdure.feed import Feed, Live
from perdure.streams.chat import ChatAnswer
from perdure.streams.delivery import Attachment
from perdure.streams.parts import MAX_FRAME_BYTES
from perdure.streams.ui_chunks import UIChunks
from tests.unit.aws.builders import KEY, SteppingClock, a_head
from tests.unit.aws.viewers import HOLDER, START, Connections, World
from tests.unit.streams.ui_builders import Log, message_of
from tests.unit.streams.ui_turns import an_answer, tools_and_approvals

JsonObject = dict[str, Any]


class Chat:
    """One request's answer on AWS, out of a feed that a test shows piece by piece, and the client that takes it."""

    def __init__(self, world: World, log: Log, request_id: str = "r-1") -> None:
        self.world = world
        self.log = log
        self.request_id = request_id
        self.shown = 0
        self.subscription: Subscription | None = None
        world.pump._follower.feed = self._feed  # type: ignore[method-assign,assignment]

    async def _feed(self, _key: Any, *, after: Any, **_more: Any) -> Feed:
        """Return what follows: once a commit is there, the progress before it is not."""
        shown = self.log.items[: self.shown]
        commits = [index for index, item in enumerate(shown) if not isinstance(item, Live)]
        last = commits[-1] if commits else -1
        places = [START, *(item.event["cursor"] if isinstance(item, Live) else item.cursor for item in shown)]
        at = places.index(after.encode(KEY.session_id))
        items = [item for i, item in enumerate(shown) if i >= at and not (isinstance(item, Live) and i < last)]
        return Feed(items=tuple(items), cursor=places[-1], head=a_head(1))

    async def show(self, count: int = 1) -> None:
        """Show more of the feed, and let a pump of another process tell the viewer."""
        self.shown += count
        if self.subscription is None:
            answer = ChatAnswer(self.request_id, KEY.session_id, START, UIChunks("turn-1", keep_open=True))
            self.subscription = await self.world.subscriptions.add(
                KEY, "c1", HOLDER, kind="ui", state=answer.state(), name="n1"
            )
        await self.world.pump.deliver(self.subscription)

    @property
    def received(self) -> list[JsonObject]:
        """The chunks as the client takes them: one that it has is ignored, and a gap fails it."""
        taken: list[JsonObject] = []
        for _, frame in self.world.connections.frames:
            assert frame["type"] in ("start", "chunk", "end", "error"), "another frame fails the client"
            if frame["type"] == "chunk" and frame["sequence"] >= len(taken):
                assert frame["sequence"] == len(taken), "a gap"
                taken.append(frame["chunk"])
        return taken

    @property
    def ended(self) -> bool:
        return any(frame["type"] == "end" for _, frame in self.world.connections.frames)


@pytest.mark.parametrize("log", [an_answer(), tools_and_approvals()], ids=["answer", "tools"])
@pytest.mark.parametrize("step", [1, 2, 3])
async def test_an_answer_that_many_pumps_send_is_numbered_without_a_gap_and_the_same_message(
    world: World, log: Log, step: int
) -> None:
    chat = Chat(world, log)
    for _ in range(0, len(log.items), step):
        await chat.show(step)

    whole = UIChunks("turn-1", keep_open=True)
    at_once = [chunk for item in log.items for chunk in whole.take(item)]
    assert chat.ended
    assert message_of(chat.received) == message_of(at_once)
    assert world.connections.closed == []


@pytest.mark.parametrize("status", [0, 503])
@pytest.mark.parametrize("which", [2, 4, 6, 9])
@pytest.mark.parametrize("came", [True, False])
async def test_a_frame_of_which_nobody_knows_whether_it_came_never_costs_a_word(
    world: World, connections: Connections, status: int, which: int, came: bool
) -> None:
    """Its number may be taken: what comes instead would be ignored as a repeat. So the client has to begin anew."""
    chat = Chat(world, an_answer())
    real, posts = connections.post_to_connection, itertools.count(1)

    def post(*, ConnectionId: str, Data: bytes) -> None:  # noqa: N803 - boto3's names
        if next(posts) != which:
            real(ConnectionId=ConnectionId, Data=Data)
            return
        if came:
            connections.frames.append((ConnectionId, json.loads(Data)))
        connections._answers["c1"] = [status]
        real(ConnectionId=ConnectionId, Data=Data)

    connections.post_to_connection = post  # type: ignore[method-assign]
    for _ in chat.log.items:
        await chat.show()

    assert connections.closed == ["c1"] or message_of(chat.received)["parts"][-1]["text"] == "Hello!"
    assert connections.closed == ["c1"], "it was told to come back"


@pytest.mark.parametrize("running", [True, False])
async def test_a_busy_connection_is_sent_the_rest_of_an_answer_while_a_change_will_come_and_else_begins_anew(
    world: World, connections: Connections, monkeypatch: pytest.MonkeyPatch, running: bool
) -> None:
    async def goes_on(_key: Any) -> bool:
        return running

    monkeypatch.setattr(world.pump, "_goes_on", goes_on)
    chat = Chat(world, an_answer())
    await chat.show(2)
    connections._answers["c1"] = [429] * POST_ATTEMPTS
    await chat.show(3)
    await chat.show(len(chat.log.items))

    assert connections.closed == ([] if running else ["c1"])
    assert chat.ended is running
    assert not running or message_of(chat.received)["parts"][-1]["text"] == "Hello!"


async def test_behind_a_pump_that_died_in_mid_answer_the_connection_ends(world: World) -> None:
    chat = Chat(world, an_answer())
    await chat.show(2)
    assert chat.subscription is not None
    assert await world.subscriptions.take(chat.subscription, "dies") is not None
    await chat.show(1)
    blocked = list(world.connections.closed)
    world.clock.advance(PUMP_LEASE + timedelta(seconds=1))
    await chat.show(1)

    assert blocked == []
    assert world.connections.closed == ["c1"]
    assert await world.watching() == []


@pytest.mark.parametrize("running", [True, False])
async def test_a_long_answer_that_takes_a_pump_too_long_is_sent_on_or_begun_anew_and_never_left_in_the_middle(
    world: World, connections: Connections, clock: SteppingClock, monkeypatch: pytest.MonkeyPatch, running: bool
) -> None:
    """AI SDK's client never pings: where nothing runs, nobody would ever send the rest."""
    chat = Chat(world, tools_and_approvals())
    real = chat._feed

    async def one_at_a_time(key: Any, **more: Any) -> Feed:
        feed = await real(key, **more)
        first = feed.items[:1]
        place = first[0].event["cursor"] if first and isinstance(first[0], Live) else None
        place = place or (first[0].cursor if first else feed.cursor)  # type: ignore[union-attr]
        return replace(feed, items=first, cursor=place, whole=len(feed.items) < 2)

    async def goes_on(_key: Any) -> bool:
        return running

    world.pump._follower.feed = one_at_a_time  # type: ignore[method-assign]
    monkeypatch.setattr(world.pump, "_goes_on", goes_on)
    connections.meanwhile = lambda _: clock.advance(ANSWER_TIME / 8)
    await chat.show(len(chat.log.items))
    closed, ended = list(connections.closed), chat.ended
    connections.meanwhile = lambda _: None
    await chat.show(0)

    assert (closed, ended) == ([] if running else ["c1"], False)
    assert chat.ended is running


@pytest.mark.parametrize("request_id", ["x" * 256, "\U0001f600" * 256, '\x01"\\\u2028' * 64])
@pytest.mark.parametrize("words", ["\U0001f600" * 20_000, "\x01" * 40_000, "x" * 100_000])
def test_every_frame_fits_whatever_its_request_is_called_and_says(request_id: str, words: str) -> None:
    long = {"a": words, "b": [words, {"c": 1}]}
    chunks: list[JsonObject] = [
        {"type": "text-delta", "id": "t", "delta": words},
        {"type": "reasoning-delta", "id": "t", "delta": words},
        {"type": "tool-output-available", "toolCallId": "c", "output": words},
        {"type": "tool-output-error", "toolCallId": "c", "errorText": words},
        {"type": "tool-input-available", "toolCallId": "c", "toolName": "t", "input": long, "toolMetadata": long},
        {"type": "tool-input-error", "toolCallId": "c", "toolName": "t", "input": words, "errorText": "no"},
        {"type": "tool-approval-response", "approvalId": "c", "approved": False, "reason": words},
        {"type": "file", "mediaType": "image/png", "url": words, "filename": words},
        {"type": "steering-message", "id": "m", "parts": [{"type": "text", "text": words}] * 9},
        {"type": "data-question", "id": "q", "data": {"question": words, "choices": ["yes", "no"]}},
        {"type": "error", "errorText": words},
        {"type": "data-agent-event", "data": {f"key {n}": n for n in range(9000)}, "transient": True},
    ]
    answer = ChatAnswer(request_id, "s-1", START, UIChunks("turn-1"), first=chunks)

    frames = answer.opened()[1:]

    assert max(len(json.dumps(frame, separators=(",", ":"))) for frame in frames) <= MAX_FRAME_BYTES
    assert [frame["sequence"] for frame in frames] == list(range(len(frames)))
    sent = [frame["chunk"] for frame in frames]
    assert "".join(chunk["delta"] for chunk in sent if chunk["type"] == "text-delta") == words
    assert [next(g)["type"] for _, g in itertools.groupby(sent, lambda c: c["type"])] == [c["type"] for c in chunks]
    (question,) = [chunk["data"] for chunk in sent if chunk["type"] == "data-question"]
    assert question["choices"] == ["yes", "no"], "it is still a question"
    (given,) = [chunk["input"] for chunk in sent if chunk["type"] == "tool-input-available"]
    assert given["b"][1] == {"c": 1}, "it is still an object"


def test_what_was_purged_is_told_once_and_ends_an_answer() -> None:
    """A tombstone has a version and no session: nothing follows it, and nobody may be told of it again and again."""
    gone = Feed(items=(), cursor=START, head=Head(version=9))
    viewer = Attachment("s-1", Cursor(version=3).encode("s-1"))
    answer = ChatAnswer("r-1", "s-1", START, UIChunks("turn-1"))

    told = viewer.take(gone)
    viewer.take_snapshot({"cursor": START})
    again = viewer.take(gone)
    last = answer.take(gone)

    assert [frame["type"] for frame in told] == ["resync_required"]
    assert again == []
    assert [frame["chunk"]["type"] for frame in last[:-1]][-1:] == ["error"]
    assert (last[-1]["type"], answer.ended) == ("end", True)
