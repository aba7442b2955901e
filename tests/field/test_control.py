"""Field cases of people who stop, steer and take back (docs/field-cases.md)."""

from __future__ import annotations

import asyncio

import pytest

from perdure.agents.tools import function_tool
from perdure.core import texts
from perdure.core.history import ToolResultItem
from perdure.errors import NotFoundError, RequestConflictError
from perdure.models.base import ModelRequest, TextDelta
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results, user_texts
from perdure.service import LOCAL_CALLER
from perdure.steps.call_tool import call_tool
from perdure.steps.run_model import run_model
from perdure.testing.fixtures import open_stage
from tests.unit.steps.builders import HangingModel, an_agent, asking_for


async def test_f031_a_queued_message_is_taken_back_without_a_model_call_and_its_neighbours_run() -> None:
    model = HangingModel(TextDelta("One"))
    async with open_stage(an_agent(model=model)) as stage:
        await stage.send("one")
        step = asyncio.create_task(run_model(stage.deps, stage.taken()))
        await model.waiting.wait()
        second = (await stage.send("two"))["message_id"]
        await stage.send("three")

        assert await stage.stop(message_id=second) == {"result": "recorded"}
        assert await stage.stop(message_id=second) == {"result": "already_recorded"}
        with pytest.raises(NotFoundError) as unknown:
            await stage.stop(message_id="message-99-0")
        assert unknown.value.code == "message_not_found"
        assert not step.done()
        await stage.stop()
        await stage.clock.run(asyncio.wait({step}))

        said = [m["parts"][0]["text"] for m in (await stage.snapshot())["messages"] if m["role"] == "user"]
        assert said == ["one", "three"]


async def test_f031_a_message_that_a_turn_has_is_stopped_with_its_turn() -> None:
    async with open_stage(an_agent()) as stage:
        first = (await stage.send("one"))["message_id"]

        assert await stage.stop(message_id=first) == {"result": "recorded"}
        await stage.run_all()

        assert (await stage.event_types())[-1] == "turn_cancelled"


async def test_what_was_taken_back_and_what_was_delivered_are_told_apart() -> None:
    """INBOX-12, INBOX-13."""
    async with open_stage(an_agent()) as stage:
        first = (await stage.send("one", message_id="mine"))["message_id"]
        second = (await stage.send("two", metadata={"n": 2}))["message_id"]

        recalled = await stage.service.remove(LOCAL_CALLER, "s-1", second)
        again = await stage.service.remove(LOCAL_CALLER, "s-1", second)
        assert recalled == again == {"result": "removed", "message_id": second, "text": "two", "metadata": {"n": 2}}
        for message_id, code in ((second, "not_pending"), (first, "already_delivered")):
            with pytest.raises(RequestConflictError) as refused:
                await stage.service.edit(LOCAL_CALLER, "s-1", message_id, text="other")
            assert refused.value.code == code


async def test_f028_interrupted_declined_and_blocked_by_policy_are_three_things() -> None:
    running, go_on = asyncio.Event(), asyncio.Event()

    @function_tool(effect="non_idempotent_write", requires_approval=False)
    async def transfer() -> str:
        """Transfer."""
        running.set()
        await go_on.wait()
        return "transferred"

    async with open_stage(an_agent(transfer, model=asking_for("transfer"))) as stage:
        await stage.send("go")
        await stage.run_next()
        step = asyncio.create_task(call_tool(stage.deps, stage.taken()))
        await running.wait()
        await stage.stop()
        go_on.set()
        await stage.clock.run(asyncio.wait({step}))
        assert (await stage.results())["transfer"] == ("succeeded", "transferred")  # it ran, and that is told

        await stage.service.update_settings(LOCAL_CALLER, "s-1", {"approval_mode": "read_only"})
        await stage.send("again")
        await stage.run_all()
        assert (await stage.results())["transfer"] == ("rejected", texts.BLOCKED_BY_MODE.format(mode="read_only"))
        reasons = [
            e["payload"].get("cancellation_reason") for e in await stage.events() if e["type"] == "tool_call_finished"
        ]
        assert reasons == [None, "policy"]

        await stage.service.update_settings(LOCAL_CALLER, "s-1", {"approval_mode": "always_ask"})
        await stage.send("once more")
        await stage.run_all()
        (interrupt,) = (await stage.snapshot())["pending_interrupts"]
        await stage.approve(interrupt["interrupt_id"], approved=False, message="not today")
        await stage.run_all()
        assert (await stage.results())["transfer"] == ("rejected", texts.denied("not today"))


async def test_f052_a_question_beside_an_open_approval_sees_a_whole_history_and_real_tools() -> None:
    """A message that redirects the turn ends the wait first: the call is told as not run, and nothing is made up."""

    @function_tool(effect="non_idempotent_write")
    async def delete() -> str:
        """Delete."""
        raise AssertionError("nobody approved it")

    @function_tool(effect="read")
    async def total() -> str:
        """Add up."""
        return "7"

    def script(request: ModelRequest) -> Reply | str:
        asked = user_texts(request)[-1]
        if asked == "What is the total?":
            return "It is 7." if tool_results(request) else Reply(calls=(call("total"),))
        return Reply(calls=(call("delete"),)) if asked == "Delete it." else "As quick as I can."

    model = ScriptedModel(script)
    async with open_stage(an_agent(delete, total, model=model)) as stage:
        await stage.send("Delete it.")
        await stage.run_all()
        assert (await stage.send("And hurry.", delivery="inject"))["delivered_as"] == "inject"
        assert stage.queue.take() is None  # no model is asked while the approval is open

        await stage.send("What is the total?", delivery="steer")
        await stage.run_all()

        asked = next(r for r in reversed(model.requests) if user_texts(r)[-1] == "What is the total?")
        results = [item for item in asked.messages if isinstance(item, ToolResultItem)]
        assert [(r.tool_name, r.status) for r in results] == [("delete", "rejected"), ("total", "succeeded")]
        assert results[0].output == texts.STEERED_BEFORE_START
        said = [m["parts"][0]["text"] for m in (await stage.snapshot())["messages"] if m["role"] == "user"]
        assert said == ["Delete it.", "What is the total?", "And hurry."]


async def test_f153_steered_urgent_and_queued_messages_each_have_one_turn_in_that_order() -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("first")
        for text, delivery in (("plain", "queue"), ("urgent", "interrupt_next"), ("also plain", "queue")):
            await stage.send(text, delivery=delivery)
        await stage.run_all()

        said = [m["parts"][0]["text"] for m in (await stage.snapshot())["messages"] if m["role"] == "user"]
        assert said == ["first", "urgent", "plain", "also plain"]
        assert (await stage.head()).inbox == ()
