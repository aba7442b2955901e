"""A turn of the real runtime, recorded as its feed came, cut and gone on with everywhere."""

from collections.abc import Sequence
from typing import Any

from perdure.agents.definition import AgentDefinition
from perdure.agents.tools import function_tool
from perdure.core.history import ToolResultItem
from perdure.errors import ModelCallError
from perdure.feed import Commit, FeedItem, Live
from perdure.models.base import ModelRequest
from perdure.models.scripted import Reply, ScriptedModel, call
from perdure.ports import LiveEvent, SessionKey
from perdure.service import LOCAL_CALLER
from perdure.streams.ui_chunks import UIChunks
from perdure.streams.ui_reducer import MessageReducer
from perdure.testing.clock import VirtualClock
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.streams.ui_builders import mapped, message_of, through_json


class Recorder:
    """Reads a session's feed whenever something happens."""

    def __init__(self, stage: Stage) -> None:
        self.items: list[FeedItem] = []
        self._stage = stage
        self._cursor: str | None = None
        self._publish = stage.live.publish
        stage.live.publish = self._publish_and_read  # type: ignore[method-assign]

    async def _publish_and_read(
        self, key: SessionKey, turn_id: str, step_id: str, attempt: int, events: Sequence[LiveEvent]
    ) -> None:
        await self._publish(key, turn_id, step_id, attempt, events)
        await self.read()

    async def read(self) -> None:
        feed = await self._stage.service.feed(LOCAL_CALLER, "s-1", after=self._cursor)
        self.items += feed.items
        self._cursor = feed.cursor


def an_agent(clock: VirtualClock) -> AgentDefinition:
    @function_tool(effect="read")
    def look_up(order_id: str) -> str:
        """Look up an order."""
        return f"order {order_id} is here"

    @function_tool(effect="non_idempotent_write")
    def refund(order_id: str) -> str:
        """Refund an order."""
        return f"order {order_id} is refunded"

    cuts = iter([True])

    def reply(request: ModelRequest) -> Reply:
        done = sum(isinstance(item, ToolResultItem) for item in request.messages)
        if done == 0:
            if next(cuts, False):
                raise ModelCallError("cut", kind="malformed", retryable=True, partial_text="Let me have a look at wh")
            calls = (call("look_up", order_id="7"), call("refund", order_id="7"), call("ask_user", question="Sure?"))
            return Reply("Let me look it up for you, one moment.", reasoning="An order, so I look it up.", calls=calls)
        return Reply(f"I have {done} results, and that is all there is to say.", reasoning="Enough of it.")

    return AgentDefinition(
        name="support",
        instructions="Help.",
        model=ScriptedModel(reply, clock=clock),
        tools=[look_up, refund],
        built_in_tools=["ask_user"],
    )


async def recorded() -> list[FeedItem]:
    clock = VirtualClock()
    async with open_stage(an_agent(clock), clock=clock) as stage:
        recorder = Recorder(stage)
        await stage.send("Refund order 7")
        await recorder.read()
        for _ in range(20):
            if (await stage.head()).turn is None:
                break
            if stage.queue.sent:
                await stage.run_next()
            else:
                await decide(stage)
            await recorder.read()
        return recorder.items


async def decide(stage: Stage) -> None:
    """Answer the first that waits: the question by a text, the approval with a message that joins."""
    pending = (await stage.snapshot())["pending_interrupts"]
    if pending[0]["kind"] == "question":
        await stage.service.resolve_interrupt(LOCAL_CALLER, "s-1", pending[0]["interrupt_id"], answer="yes")
    else:
        await stage.send("and be quick", message_id="m-2", delivery="inject")
        await stage.approve(pending[0]["interrupt_id"])


async def test_a_recorded_turn_is_the_same_live_replayed_and_moved_at_every_item() -> None:
    items = await recorded()
    commits = [item for item in items if isinstance(item, Commit)]
    live = [item.event["type"] for item in items if isinstance(item, Live)]
    assert {"text_delta", "reasoning_delta", "attempt_reset", "model_retry_scheduled"} <= set(live)

    mapping = UIChunks("turn-1")
    whole = [mapping.take(item) for item in items]
    moved, chunks = UIChunks("turn-1"), []
    for item in items:
        moved = through_json(moved)
        chunks.append(moved.take(item))

    assert chunks == whole
    replayed = UIChunks("turn-1")
    message = message_of(mapped(items))
    assert message == message_of(mapped(commits, replayed))
    assert replayed.steps == mapping.steps
    kinds = [part["type"] for part in message["parts"]]
    calls = ["dynamic-tool"] * 3
    assert kinds == [
        *("step-start", "reasoning", "text", *calls, "data-question"),
        "steering-message",
        *("step-start", "reasoning", "text"),
    ]


async def test_a_client_of_a_recorded_turn_may_be_cut_off_anywhere() -> None:
    items = await recorded()
    commits = [item for item in items if isinstance(item, Commit)]
    whole: dict[str, Any] = message_of(mapped(commits))

    for cut in range(1, len(items)):
        client, had = UIChunks("turn-1"), MessageReducer()
        had.take_all(mapped(items[:cut], client))
        again = [*[item for item in items[:cut] if item in commits], *items[cut:]]

        assert message_of(mapped(again)) == whole, cut
        if client.steps:
            exactly = mapped(again, UIChunks("turn-1", from_step=client.steps))
            assert MessageReducer(had.message).take_all(exactly) == whole, cut
