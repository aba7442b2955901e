"""The races of people who control a running session, call by call, on the real adapters (spec U-1..U-6, U-13)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import ToolContext, function_tool
from perdure.errors import RequestConflictError
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results
from perdure.service import LOCAL_CALLER
from perdure.steps.call_tool import call_tool
from perdure.steps.run_model import run_model
from perdure.testing.barriers import Order
from tests.races.rig import Rig, open_rig
from tests.unit.steps.builders import an_agent, asking_for, failing

pytestmark = pytest.mark.slow


def paying(ran: list[str]) -> Any:
    @function_tool(effect="non_idempotent_write", requires_approval=False)
    async def pay(context: ToolContext) -> str:
        """Pay."""
        ran.append(context.tool_call_id)
        return "paid"

    return pay


async def said(rig: Rig) -> list[str]:
    """Return what the user said, each message once."""
    messages = (await rig.stage.snapshot())["messages"]
    shown = [m for m in messages if m["role"] == "user" and m.get("status") != "rehomed"]
    return [m["parts"][0]["text"] for m in shown]


@pytest.mark.parametrize("delivery", ["inject", "steer", "interrupt", "interrupt_next", "supersede", "passive"])
async def test_a_message_and_the_final_answer_each_count_once_whoever_comes_first(
    adapter: str, order: Order, delivery: str
) -> None:
    async with open_rig(adapter, an_agent()) as rig:
        await rig.stage.send("hello")
        message = rig.stage.taken()

        rig.race.start("worker", run_model(rig.worker("worker"), message))
        send = rig.service("anna").send_input(LOCAL_CALLER, "s-1", text="and now?", delivery=delivery)
        rig.race.start("anna", send)
        outcomes = await rig.race.run(order)
        await rig.finish()

        assert not [outcome for outcome in outcomes.values() if isinstance(outcome, Exception)]
        if delivery == "passive":
            assert [m.delivery for m in (await rig.stage.head()).inbox] == ["passive"]
        else:
            assert await said(rig) == ["hello", "and now?"]
            assert (await rig.stage.event_types()).count("turn_completed") >= 1


async def test_a_steer_and_the_start_of_a_write_never_both_come_first(adapter: str, order: Order) -> None:
    ran: list[str] = []
    async with open_rig(adapter, an_agent(paying(ran), model=paying_once())) as rig:
        await rig.stage.send("pay")
        await rig.stage.run_next()
        message = rig.stage.taken()

        rig.race.start("worker", call_tool(rig.worker("worker"), message))
        rig.race.start("anna", rig.service("anna").send_input(LOCAL_CALLER, "s-1", text="no", delivery="steer"))
        outcomes = await rig.race.run(order)
        await rig.finish()

        assert not [outcome for outcome in outcomes.values() if isinstance(outcome, Exception)]
        (first,) = [part for e in await rig.stage.entries() for m in e.messages for part in m.parts if _is_result(part)]
        assert first["status"] == ("succeeded" if ran else "rejected")
        assert await said(rig) == ["pay", "no"]


def paying_once() -> ScriptedModel:
    """A model that asks to pay in its first turn and answers everything else."""
    asked: list[int] = []

    def script(request: Any) -> Reply | str:
        if tool_results(request) or asked:
            return "done"
        asked.append(1)
        return Reply(calls=(call("pay"),))

    return ScriptedModel(script)


def _is_result(part: dict[str, Any]) -> bool:
    return part["type"] == "tool_result"


async def test_a_pause_and_the_start_of_a_write_never_both_come_first(adapter: str, order: Order) -> None:
    ran: list[str] = []
    async with open_rig(adapter, an_agent(paying(ran), model=asking_for("pay"))) as rig:
        await rig.stage.send("pay")
        await rig.stage.run_next()
        message = rig.stage.taken()

        rig.race.start("worker", call_tool(rig.worker("worker"), message))
        rig.race.start("anna", rig.service("anna").pause(LOCAL_CALLER, "s-1"))
        outcomes = await rig.race.run(order)
        await rig.race.free()
        started = len(ran)
        await rig.stage.run_all()
        assert len(ran) == started, "a tool began in the pause"
        await rig.stage.service.resume(LOCAL_CALLER, "s-1")
        await rig.finish()

        assert outcomes["anna"] == {"result": "recorded"}
        assert len(ran) == 1
        assert (await rig.stage.results())["pay"] == ("succeeded", "paid")


async def test_two_retries_of_one_failed_turn_run_it_once(adapter: str, order: Order) -> None:
    failures = iter([failing("invalid", retryable=False)])

    def script(_: Any) -> str:
        for failure in failures:
            raise failure
        return "Here I am again."

    async with open_rig(adapter, an_agent(model=ScriptedModel(script))) as rig:
        await rig.stage.send("hello")
        await rig.stage.run_all()

        for name in ("anna", "bert"):
            rig.race.start(name, rig.service(name).retry(LOCAL_CALLER, "s-1", retry_id=name))
        rig.race.start("same", rig.service("same").retry(LOCAL_CALLER, "s-1", retry_id="anna"))
        outcomes = await rig.race.run(order)
        await rig.finish()

        refused = [o for o in outcomes.values() if isinstance(o, RequestConflictError)]
        assert {error.code for error in refused} <= {"not_failed"}
        assert (await rig.stage.head()).turn_count == 2
        assert (await rig.stage.transcript())[-1] == ("assistant", "Here I am again.")
        assert len([e for e in await rig.stage.events() if e["type"] == "turn_started"]) == 2


async def test_a_dismissal_and_a_retry_of_one_failed_turn_both_leave_the_next_message_answered(
    adapter: str, order: Order
) -> None:
    failures = iter([failing("invalid", retryable=False)])

    def script(_: Any) -> str:
        for failure in failures:
            raise failure
        return "done"

    async with open_rig(adapter, an_agent(model=ScriptedModel(script))) as rig:
        await rig.stage.send("one")
        await rig.stage.run_all()
        await rig.stage.send("two")

        rig.race.start("anna", rig.service("anna").retry(LOCAL_CALLER, "s-1", retry_id="r"))
        rig.race.start("bert", rig.service("bert").stop(LOCAL_CALLER, "s-1"))
        await rig.race.run(order)
        await rig.finish()

        assert await said(rig) == ["one", "two"]
        assert (await rig.stage.head()).hold is None


async def test_of_an_edit_a_recall_and_the_turn_that_takes_the_message_exactly_one_story_is_told(
    adapter: str, order: Order
) -> None:
    async with open_rig(adapter, an_agent()) as rig:
        await rig.stage.send("hello")
        second = (await rig.stage.send("second"))["message_id"]
        message = rig.stage.taken()

        rig.race.start("worker", run_model(rig.worker("worker"), message))
        rig.race.start("anna", rig.service("anna").edit(LOCAL_CALLER, "s-1", second, text="edited"))
        rig.race.start("bert", rig.service("bert").remove(LOCAL_CALLER, "s-1", second))
        outcomes = await rig.race.run(order)
        await rig.finish()

        edited, removed = outcomes["anna"], outcomes["bert"]
        codes = {o.code for o in (edited, removed) if isinstance(o, RequestConflictError)}
        assert codes <= {"already_delivered", "not_pending"}
        if isinstance(removed, RequestConflictError):
            text = "second" if isinstance(edited, RequestConflictError) else "edited"
            assert await said(rig) == ["hello", text]
        else:
            assert removed["text"] == ("second" if isinstance(edited, RequestConflictError) else "edited")
            assert await said(rig) == ["hello"]


async def test_a_stop_and_a_steer_at_once_leave_no_message_behind(adapter: str, order: Order) -> None:
    async with open_rig(adapter, an_agent()) as rig:
        await rig.stage.send("hello")
        message = rig.stage.taken()

        rig.race.start("worker", run_model(rig.worker("worker"), message))
        rig.race.start("anna", rig.service("anna").stop(LOCAL_CALLER, "s-1"))
        rig.race.start("bert", rig.service("bert").send_input(LOCAL_CALLER, "s-1", text="other", delivery="steer"))
        await rig.race.run(order)
        await rig.finish()

        assert await said(rig) == ["hello", "other"]
