"""AI SDK's WebSocket on the deployment: answers that several functions send, and what a client makes of them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from perdure.agents.definition import AgentDefinition, AgentRegistry
from perdure.agents.tools import function_tool
from perdure.aws.subscriptions import PUMP_LEASE
from perdure.core.history import ToolResultItem
from perdure.models import ScriptedModel
from perdure.models.base import ModelRequest
from perdure.models.scripted import Reply, call
from perdure.streams.parts import MAX_FRAME_BYTES
from perdure.streams.ui_reducer import MessageReducer
from perdure.testing.gateway import Connection
from perdure.testing.lambda_harness import Crash, LambdaHarness
from tests.handlers.test_viewers_on_aws import a_viewer, watching

JsonObject = dict[str, Any]

POINTS = (12, 18, 24)
WORDS = "Every word of this has to come once and in its place. \U0001f600 " * 120


@function_tool(effect="read", name="look_up")
def look_up() -> str:
    """Look something up that is long."""
    return "\U0001f600 found" * 12_000


@pytest.fixture
def harness(harness: LambdaHarness) -> LambdaHarness:
    def script(request: ModelRequest) -> Reply:
        found = isinstance(request.messages[-1], ToolResultItem)
        return Reply(text=WORDS) if found else Reply(text="Let me see. " * 400, calls=(call("look_up"),))

    model = ScriptedModel(script, chunk=700)
    harness.agents = AgentRegistry([AgentDefinition(name="test", model=model, tools=[look_up])])
    return harness


def a_send(
    text: str = "hello", request_id: str = "r-1", message_id: str = "m-1", session: str = "case-42"
) -> JsonObject:
    message = {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}
    more = {"trigger": "submit-message", "messages": [message], "headers": {}, "body": {}}
    return {"type": "send", "requestId": request_id, "id": session, **more}


def chunks_of(viewer: Connection, request_id: str = "r-1") -> list[JsonObject]:
    """Return the chunks of a request as its client takes them: repeats are ignored, and a gap fails it."""
    taken: list[JsonObject] = []
    for frame in viewer.frames:
        assert frame["type"] in ("start", "chunk", "end"), frame
        if frame["requestId"] == request_id and frame["type"] == "chunk" and frame["sequence"] >= len(taken):
            assert frame["sequence"] == len(taken)
            taken.append(frame["chunk"])
    return taken


def message_of(chunks: list[JsonObject]) -> JsonObject:
    return MessageReducer().take_all(chunks)


def texts_of(chunks: list[JsonObject]) -> list[str]:
    return [part["text"] for part in message_of(chunks)["parts"] if part["type"] == "text"]


def test_an_answer_that_several_functions_send_is_the_one_message_that_is_read_again_later(
    harness: LambdaHarness,
) -> None:
    viewer = a_viewer(harness)
    harness.gateway.send(viewer, a_send())
    harness.settle()
    later = a_viewer(harness)
    harness.gateway.send(later, a_send(request_id="\U0001f600" * 256))  # the same message again: the same turn

    live, again = message_of(chunks_of(viewer)), message_of(chunks_of(later, "\U0001f600" * 256))
    senders = {done.function for done in harness.invocations if done.error is None}
    assert {"socket", "run_model", "call_tool"} <= senders
    assert texts_of(chunks_of(viewer))[-1] == WORDS
    assert live == again
    frames = [*viewer.frames, *later.frames]
    assert max(len(json.dumps(frame, separators=(",", ":"))) for frame in frames) <= MAX_FRAME_BYTES
    assert [viewer.frames[0]["type"], viewer.frames[-1]["type"]] == ["start", "end"]
    assert sum(chunk["type"] == "text-delta" for chunk in chunks_of(viewer)) > 5, "it was seen as it was written"


def test_two_requests_on_one_socket_are_numbered_each_for_itself_and_one_can_be_aborted(harness: LambdaHarness) -> None:
    viewer = a_viewer(harness)
    harness.gateway.send(viewer, a_send())
    harness.gateway.send(viewer, a_send(request_id="r-2", session="case-43"))
    harness.gateway.send(viewer, {"type": "resume", "requestId": "r-3", "id": "case-42", "headers": {}, "body": {}})
    harness.gateway.send(viewer, {"type": "abort", "requestId": "r-1"})
    before = len(chunks_of(viewer))
    harness.settle()

    assert len(chunks_of(viewer)) == before
    ended = [frame["requestId"] for frame in viewer.frames if frame["type"] == "end"]
    assert sorted(ended) == ["r-2", "r-3"]
    assert texts_of(chunks_of(viewer, "r-2")) == texts_of(chunks_of(viewer, "r-3"))
    assert texts_of(chunks_of(viewer, "r-3"))[-1] == WORDS


@pytest.mark.parametrize("service", ["table", "socket"])
@pytest.mark.parametrize("at", POINTS)
def test_a_function_that_dies_in_mid_answer_leaves_no_half_of_it_with_its_client(
    harness: LambdaHarness, service: str, at: int
) -> None:
    """Whatever call was its last: with the next change the client has all of it, or is sent away to get it anew."""
    viewer = a_viewer(harness)
    calls = 0

    def dies(*_: Any, **__: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == at:
            raise Crash

    events = harness.aws.clients.dynamodb.meta.events
    if service == "socket":
        harness.gateway.during_post = dies
    else:
        events.register("before-call.dynamodb", dies)
    harness.gateway.send(viewer, a_send())
    harness.settle()
    harness.gateway.during_post = lambda _: None
    events.unregister("before-call.dynamodb", dies)
    harness.advance(PUMP_LEASE + timedelta(seconds=1))
    harness.gateway.send(viewer, a_send("And now?", "r-2", "m-2"))
    harness.settle()
    later = a_viewer(harness)
    harness.gateway.send(later, a_send(request_id="r-3"))
    harness.settle()

    assert calls >= at
    whole = message_of(chunks_of(later, "r-3"))
    assert texts_of(chunks_of(later, "r-3"))[-1] == WORDS
    begun = any(frame["requestId"] == "r-1" for frame in viewer.frames)
    ended = {"type": "end", "requestId": "r-1"} in viewer.frames
    assert viewer.closed or not begun or (ended and message_of(chunks_of(viewer)) == whole)


def test_an_ai_sdk_answer_whose_pump_died_is_broken_off_and_read_again(harness: LambdaHarness) -> None:
    """What the dead pump had sent is not known, and a client takes no gap: its connection ends, and it comes back."""
    viewer = a_viewer(harness)
    harness.gateway.send(viewer, a_send())
    (mine,) = watching(harness)
    container = harness._new_container("socket")
    assert container.run(container.subscriptions.take(mine, "a pump that dies")) is not None
    harness.clock.advance(PUMP_LEASE.total_seconds() + 1)
    harness.settle()
    again = a_viewer(harness)
    harness.gateway.send(again, a_send(request_id="r-2"))

    chunks = [frame for frame in again.frames if frame["type"] == "chunk"]
    assert viewer.closed
    assert watching(harness) == []
    assert [frame["sequence"] for frame in chunks] == list(range(len(chunks)))
    assert [again.frames[0]["type"], again.frames[-1]["type"]] == ["start", "end"]
    assert chunks[-1]["chunk"]["finishReason"] == "stop"
