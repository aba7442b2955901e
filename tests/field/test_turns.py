"""Rows of the specification that only a whole turn shows: the order and shape of events, text, usage, failures."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from perdure import ToolContext, ToolExecutionError, function_tool
from perdure.agents.tools import FunctionTool
from perdure.core.history import UserItem
from perdure.core.usage import CallUsage
from perdure.models.base import ModelRequest
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results, user_texts
from perdure.ports import SessionKey
from perdure.service import LOCAL_CALLER
from perdure.steps.base import StepMessage
from perdure.steps.run_model import run_model
from perdure.testing.clock import VirtualClock
from perdure.testing.fixtures import SESSION, STEPS, Stage, open_stage
from tests.unit.steps.builders import HangingModel, an_agent, asking_for, failing

PAYLOADS = {
    "turn_started": {"sequence", "message_id"},
    "turn_completed": {"message_count", "usage"},
    "turn_failed": {"error", "message_count", "usage"},
    "turn_stopping": {"actor", "disposition"},
    "turn_cancelled": {"message_count", "usage"},
    "model_started": set(),
    "model_retry_scheduled": {"retry_in_ms", "attempt", "reason"},
    "attempt_reset": {"reason"},
    "usage_recorded": {"recorded", "session"},
    "model_finished": {"status"},
    "tool_call_deferred": {"tool_call_id", "tool_name", "effect", "requires_approval"},
    "tool_call_started": {"tool_call_id", "tool_name"},
    "tool_call_finished": {"tool_call_id", "tool_name", "status"},
    "interrupt_raised": {"interrupt_id", "kind", "tool_call_id", "tool_name", "arguments_hash"},
    "interrupt_resolved": {"interrupt_id", "kind"},
    "message_queued": {"message_id", "delivery"},
}
"""What each durable event tells at least (spec EVT-01, appendix A.3)."""


@function_tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


@function_tool(effect="non_idempotent_write")
async def pay() -> str:
    """Pay."""
    return "paid"


async def the_pending(stage: Stage) -> str:
    (interrupt,) = (await stage.snapshot())["pending_interrupts"]
    return str(interrupt["interrupt_id"])


# --- events ---------------------------------------------------------------------------------------------------------


async def test_every_durable_event_tells_what_its_readers_hold_on_to() -> None:
    def script(request: ModelRequest) -> Reply | str:
        wish = user_texts(request)[-1]
        if wish == "fail":
            raise failing("auth", retryable=False)
        if wish == "stumble" and len(model.requests) < 7:
            raise failing("timeout", partial_text="Hal")
        return "done" if tool_results(request) or wish == "stumble" else Reply(calls=(call("look"), call("pay")))

    model = ScriptedModel(script)
    async with open_stage(an_agent(look, pay, model=model)) as stage:
        for decision in (True, False):
            await stage.send("both")
            await stage.run_all()
            await stage.approve(await the_pending(stage), approved=decision)
            await stage.run_all()
        await stage.send("both")
        await stage.send("stumble")
        await stage.run_all()
        await stage.stop()
        await stage.run_all()
        await stage.send("fail")
        await stage.run_all()

        events = await stage.events()

    assert {event["type"] for event in events} == set(PAYLOADS)
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    for event in events:
        missing = PAYLOADS[event["type"]] - set(event["payload"])
        assert not missing, f"{event['type']} does not tell {missing}"
    of_steps = [event for event in events if event["type"].startswith(("model_", "tool_", "attempt_"))]
    assert all(event.keys() >= {"turn_id", "step_execution_id", "attempt"} for event in of_steps)


async def test_a_decision_stands_behind_its_call_and_before_its_output() -> None:
    async with open_stage(an_agent(pay, model=asking_for("pay"))) as stage:
        await stage.send("pay")
        await stage.run_all()
        await stage.approve(await the_pending(stage))
        await stage.run_all()

        types = [t for t in await stage.event_types() if t.startswith(("tool_call", "interrupt"))]

    assert types == [
        "tool_call_deferred",
        "interrupt_raised",
        "interrupt_resolved",
        "tool_call_started",
        "tool_call_finished",
    ]


async def test_outputs_come_in_the_order_in_which_the_calls_end() -> None:
    clock = VirtualClock()
    agent = an_agent(_sleeping(clock, "slow", 2), _sleeping(clock, "fast", 1), model=asking_for("slow", "fast"))
    async with open_stage(agent, clock=clock) as stage:
        await stage.send("both")
        await stage.run_next()
        slow, fast = stage.taken(), stage.taken()
        await clock.run(_together(stage, slow, fast))
        await stage.run_all()

        finished = [e["payload"]["tool_name"] for e in await stage.events() if e["type"] == "tool_call_finished"]

    assert finished == ["fast", "slow"]


def _sleeping(clock: VirtualClock, name: str, seconds: float) -> FunctionTool:
    async def body() -> str:
        await clock.sleep(seconds)
        return "slept"

    return function_tool(effect="read", name=name)(body)


async def _together(stage: Stage, *messages: StepMessage) -> None:
    await asyncio.gather(*(STEPS[message.kind](stage.deps, message) for message in messages))


# --- the model's text ------------------------------------------------------------------------------------------------


async def test_the_stored_message_is_what_the_deltas_of_its_step_said() -> None:
    clock = VirtualClock()
    said = Reply(text="It is on its way, and it arrives on Monday. \U0001f69a", reasoning="Order 7 was sent.")
    model = ScriptedModel(lambda _: said, chunk=5, delay=timedelta(seconds=1), clock=clock)
    async with open_stage(an_agent(model=model), clock=clock) as stage:
        await stage.send("Where is it?")
        viewer = asyncio.ensure_future(_watched(stage))
        await stage.run(stage.taken())
        shown = await viewer
        (answer,) = [m for m in (await stage.snapshot())["messages"] if m["role"] == "assistant"]
        later = await stage.event_types()

    streamed = {
        kind: "".join(e["payload"]["text"] for e in shown if e["type"] == f"{kind}_delta")
        for kind in ("reasoning", "text")
    }
    assert {part["type"]: part["text"] for part in answer["parts"]} == streamed
    assert streamed == {"text": said.text, "reasoning": said.reasoning}
    assert "text_delta" not in later


async def _watched(stage: Stage) -> list[dict[str, Any]]:
    """Follow the events until the turn is over."""
    shown: list[dict[str, Any]] = []
    cursor: str | None = None
    while not shown or shown[-1]["type"] != "turn_completed":
        page = await stage.service.events(LOCAL_CALLER, "s-1", after=cursor, wait_seconds=20)
        shown, cursor = shown + page["events"], page["cursor"]
    return shown


async def test_the_claim_of_a_model_step_is_on_record_before_its_provider_is_called() -> None:
    model = HangingModel()
    async with open_stage(an_agent(model=model)) as stage:
        await stage.send("Think.")
        message = stage.taken()
        running = asyncio.ensure_future(run_model(stage.deps, message))
        await model.waiting.wait()

        lease = await stage.leases.read_lease(SESSION, message.step_id)
        live = [event for event in await stage.events() if "sequence" not in event]
        state = (await stage.snapshot())["state"]
        running.cancel()
        await asyncio.wait({running})

    assert lease is not None
    assert lease.claimed
    assert [(e["type"], e["step_execution_id"], e["attempt"]) for e in live] == [("model_started", message.step_id, 1)]
    assert state["status"] == "running_model"


# --- how turns end ---------------------------------------------------------------------------------------------------


async def test_a_turn_that_failed_behind_its_tools_is_told_to_the_next_one_and_repeats_nothing() -> None:
    def script(request: ModelRequest) -> Reply | str:
        if user_texts(request)[-1] == "And now?":
            return "All is well."
        if tool_results(request):
            raise failing("invalid", retryable=False, status=400)
        return Reply(calls=(call("look"),))

    model = ScriptedModel(script)
    async with open_stage(an_agent(look, model=model)) as stage:
        await stage.send("Look.")
        await stage.run_all()
        failed = await stage.snapshot()

        await stage.send("And now?")
        await stage.stop()
        await stage.run_all()

        state = (await stage.snapshot())["state"]
    texts = [item.text for item in model.requests[-1].messages if isinstance(item, UserItem)]
    assert failed["state"]["last_turn_error"]["code"] == "provider"
    assert [m["role"] for m in failed["messages"]] == ["user", "assistant", "tool"]
    assert texts[0] == "Look."
    assert "look (succeeded)" in texts[1]
    assert texts[1].endswith("Do not repeat these tool calls unless the user asks again.")
    assert texts[2] == "And now?"
    assert "last_turn_error" not in state


async def test_usage_is_told_per_call_added_up_per_session_and_unknown_where_nothing_was_reported() -> None:
    figures = [CallUsage(input_tokens=10, output_tokens=2), CallUsage(), CallUsage(input_tokens=5, output_tokens=1)]
    model = ScriptedModel(lambda request: Reply(text="hi", usage=figures[len(user_texts(request)) - 1]))
    async with open_stage(an_agent(model=model)) as stage:
        for _ in figures:
            await stage.send("hi")
            await stage.run_all()

        told = [e["payload"] for e in await stage.events() if e["type"] == "usage_recorded"]
        usage = (await stage.snapshot())["usage"]

    assert [payload["recorded"]["input_tokens"] for payload in told] == [
        {"value": 10, "provenance": "reported"},
        {"provenance": "unavailable"},
        {"value": 5, "provenance": "reported"},
    ]
    assert [payload["session"]["model_calls"] for payload in told] == [1, 2, 3]
    assert told[-1]["session"] == usage
    assert usage["input_tokens"] == {"value": 15, "provenance": "computed", "partial": True}


async def test_a_call_keeps_its_place_and_key_whatever_became_of_its_siblings() -> None:
    keys: list[str] = []

    @function_tool(effect="read")
    async def ask(context: ToolContext) -> str:
        keys.append(context.idempotency_key)
        raise ToolExecutionError("no such order") if context.attempt > 1 else ConnectionError

    async with open_stage(an_agent(ask, look, model=asking_for("ask", "look"))) as stage:
        await stage.send("Ask.")
        await stage.run_all()

        shown = [(c["tool_name"], c["status"]) for c in (await stage.snapshot())["tool_calls"]]

    assert keys == ["local/s-1/turn-1/call-2-0"] * 2
    assert shown == [("ask", "failed"), ("look", "succeeded")]


async def test_two_sessions_with_the_same_turns_have_the_same_ids_and_never_meet() -> None:
    async with open_stage(an_agent(look, model=asking_for("look"))) as stage:
        for session_id in ("s-1", "s-2"):
            await stage.send("Look.", session_id)
        await stage.run_all()

        logs = [(await stage.store.read(SessionKey("local", name))).entries for name in ("s-1", "s-2")]

    assert [[e.kind for e in log] for log in logs] == [
        ["send_input", "model_finished", "tool_finished", "model_finished"]
    ] * 2
    assert [m.message_id for e in logs[0] for m in e.messages] == [m.message_id for e in logs[1] for m in e.messages]
