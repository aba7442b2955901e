"""A turn as an iterator: the same in the process of the runtime and over HTTP (spec API-07)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure import AgentDefinition, Decision, Fragment, RunMessage, function_tool
from perdure.embedded.runtime import EmbeddedRuntime
from perdure.errors import InvalidRequestError, NotFoundError
from perdure.models.base import ModelRequest, StreamItem, TextDelta
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results
from perdure.run import NOBODY_ANSWERS, NOBODY_APPROVES, Run
from perdure.session import Session, SessionEvent
from perdure.testing.processes import poll_until
from tests.unit.api.builders import Desk


def words(items: list[Any]) -> str:
    """Put the text together that fragments bring, as a reader would."""
    text = ""
    for item in items:
        if isinstance(item, Fragment) and item.type == "text":
            text = item.text if item.restart else text + item.text
    return text


def outline(items: list[Any]) -> list[str]:
    """Return messages by their role and events by their type, without progress."""
    return [
        item.message["role"] if isinstance(item, RunMessage) else item.type
        for item in items
        if isinstance(item, RunMessage) or (isinstance(item, SessionEvent) and item.sequence is not None)
    ]


async def all_of(run: Run) -> list[Any]:
    async with asyncio.timeout(20):
        return [item async for item in run]


async def test_a_turn_gives_its_fragments_its_messages_and_its_events_and_then_ends(runtime: Any) -> None:
    session: Session = runtime.session("s-1")

    run = session.run("hello there")
    items = await all_of(run)

    assert words(items) == "You said: hello there"
    shown = outline(items)
    assert (shown[0], shown[-1]) == ("turn_started", "turn_completed")
    assert [name for name in shown if name in ("user", "assistant")] == ["user", "assistant"]
    assert shown.index("assistant") < shown.index("model_finished")
    assert run.turn_id == "turn-1"
    assert [event async for event in session.events(after=run.receipt.cursor)][-1].cursor == run.cursor  # type: ignore[union-attr]


async def test_an_approval_is_decided_by_a_plain_function_on_a_thread_of_its_own(runtime: Any, desk: Desk) -> None:
    asked: list[Any] = []

    def approve(interrupt: dict[str, Any]) -> bool:
        asked.append((threading.current_thread(), interrupt["tool_name"], interrupt["arguments"]))
        return True

    items = await all_of(runtime.session("s-1").run("refund order 7", approve=approve))

    assert [(name, arguments) for _, name, arguments in asked] == [("refund_order", {"order_id": "7"})]
    assert asked[0][0] is not threading.main_thread()
    assert desk.refunds == ["7"]
    assert [name for name in outline(items) if name in ("user", "assistant", "tool")] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


async def test_without_anybody_to_ask_an_approval_is_refused_and_the_model_is_told(runtime: Any, desk: Desk) -> None:
    session: Session = runtime.session("s-1")

    shown = await session.run("refund order 7").result()

    assert desk.refunds == []
    assert (shown["status"], shown["tool_calls"]["rejected"]) == ("completed", 1)
    results = [m for m in (await session.messages())["messages"] if m["role"] == "tool"]
    assert NOBODY_APPROVES in results[0]["parts"][0]["output"]


async def test_a_decision_of_an_async_function_carries_a_word_and_other_arguments(runtime: Any, desk: Desk) -> None:
    async def approve(interrupt: dict[str, Any]) -> Decision:
        return Decision(approved=True, message="order 8, that is", arguments={"order_id": "8"})

    shown = await runtime.session("s-1").run("refund order 7", approve=approve).result()

    assert shown["tool_calls"]["succeeded"] == 1
    assert desk.refunds == ["8"]


async def test_what_a_callback_leaves_open_is_decided_by_somebody_else(runtime: Any, desk: Desk) -> None:
    session: Session = runtime.session("s-1")

    async for item in session.run("refund order 7", approve=lambda interrupt: None):
        if item.type == "interrupt_raised":
            assert isinstance(item, SessionEvent)
            await session.resolve(item.payload["interrupt_id"], approved=True)

    assert desk.refunds == ["7"]


async def test_a_decision_made_elsewhere_withdraws_the_question(runtime: Any, desk: Desk) -> None:
    session: Session = runtime.session("s-1")
    asked, withdrawn = asyncio.Event(), asyncio.Event()

    async def approve(interrupt: dict[str, Any]) -> bool:
        asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            withdrawn.set()
            raise
        return False

    reading = asyncio.create_task(all_of(session.run("refund order 7", approve=approve)))
    await asked.wait()
    await session.resolve((await session.snapshot())["pending_interrupts"][0]["interrupt_id"], approved=True)
    await reading

    assert withdrawn.is_set()
    assert desk.refunds == ["7"]


async def test_an_error_of_a_callback_rises_from_the_loop_and_leaves_the_question_open(
    runtime: Any, desk: Desk
) -> None:
    session: Session = runtime.session("s-1")

    def approve(interrupt: dict[str, Any]) -> bool:
        raise LookupError("the phone book is gone")

    with pytest.raises(LookupError, match="phone book"):
        await all_of(session.run("refund order 7", approve=approve))

    assert len((await session.snapshot())["pending_interrupts"]) == 1
    assert desk.refunds == []


async def test_leaving_the_loop_stops_nothing(runtime: Any, desk: Desk) -> None:
    session: Session = runtime.session("s-1")
    async for item in session.run("think"):
        if item.type == "turn_started":
            break
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await session.run("think again").result()

    assert "stopping" not in (await session.snapshot())["state"]
    desk.gate.set()
    again = await session.run("the last one").result()

    assert again["turn_id"] == "turn-3"
    assert [(await session.turn(f"turn-{n}"))["status"] for n in (1, 2)] == ["completed", "completed"]


async def test_an_abort_stops_the_turn_and_the_items_go_on_to_its_end(runtime: Any) -> None:
    abort = asyncio.Event()
    run = runtime.session("s-1").run("think", abort=abort)
    items = []
    async with asyncio.timeout(20):
        async for item in run:
            items.append(item)
            abort.set()

    assert items[-1].type == "turn_cancelled"
    assert (await run.result())["status"] == "cancelled"


async def test_a_waiting_message_has_its_own_turn_run_and_no_other(runtime: Any, desk: Desk) -> None:
    session: Session = runtime.session("s-1")
    await session.send("think")
    run = session.run("second")
    reading = asyncio.create_task(all_of(run))
    await poll_until(lambda: run.receipt is not None)
    await session.update_settings({"approval_mode": "ask"})
    desk.gate.set()

    items = await reading

    assert outline(items)[:2] == ["message_queued", "turn_started"]
    assert {item.turn_id for item in items[1:] if isinstance(item, SessionEvent) and item.turn_id} == {"turn-2"}
    assert [item.text for item in items if isinstance(item, RunMessage)] == ["second", "You said: second"]


async def test_what_happens_to_the_session_while_the_turn_runs_is_told_too(runtime: Any, desk: Desk) -> None:
    session: Session = runtime.session("s-1")
    items = []
    async with asyncio.timeout(20):
        async for item in session.run("think"):
            items.append(item)
            if item.type == "turn_started":
                await session.update_settings({"approval_mode": "ask"})
                desk.gate.set()

    assert "settings.changed" in outline(items)


async def test_a_waiting_message_that_is_aborted_is_taken_back(runtime: Any) -> None:
    session: Session = runtime.session("s-1")
    await session.send("think")
    run = session.run("second")
    reading = asyncio.create_task(run.result())
    await poll_until(lambda: run.receipt is not None)

    await run.stop()

    with pytest.raises(NotFoundError, match="taken back"):
        await reading
    assert (await session.snapshot())["state"]["turn_id"] == "turn-1"
    assert "stopping" not in (await session.snapshot())["state"]


async def test_the_same_key_runs_the_same_turn_once_more(runtime: Any, desk: Desk) -> None:
    session: Session = runtime.session("s-1")
    for _ in range(3):
        await session.run("hello", idempotency_key="k-1").result()
    await session.run("something else").result()

    items = await all_of(session.run("hello", idempotency_key="k-1"))

    assert words(items) == "You said: hello"
    assert outline(items)[0] == "turn_started"
    assert [item.text for item in items if isinstance(item, RunMessage)] == ["hello", "You said: hello"]
    assert (await session.snapshot())["state"]["turn_count"] == 2


async def test_a_passive_message_has_nothing_to_run(runtime: Any) -> None:
    with pytest.raises(InvalidRequestError, match="starts no turn"):
        runtime.session("s-1").run("note", delivery="passive")


# --- with an agent of its own --------------------------------------------------------------------------------------


@function_tool(effect="read")
def look(what: str) -> str:
    """Look."""
    return f"there is {what}"


async def _run_of(folder: Path, model: Any, text: str, **more: Any) -> tuple[list[Any], Session]:
    agent = AgentDefinition(name="a", model=model, tools=[look], built_in_tools=["ask_user"])
    async with EmbeddedRuntime(folder / "s.db", [agent], grace_seconds=0) as runtime:
        session = runtime.session("s-1")
        return await all_of(session.run(text, **more)), session


async def test_questions_are_answered_and_absent_an_answerer_declined(tmp_path: Path) -> None:
    def reply(request: ModelRequest) -> Reply:
        if results := tool_results(request):
            return Reply(f"so {results[-1].output}")
        return Reply(calls=(call("ask_user", question="Which colour?", choices=["red", "blue"]),))

    asked = []

    def answer(interrupt: dict[str, Any]) -> str:
        asked.append((interrupt["question"], interrupt["choices"]))
        return "red"

    (tmp_path / "1").mkdir()
    answered, _ = await _run_of(tmp_path / "1", ScriptedModel(reply), "ask", answer=answer)
    declined, _ = await _run_of(tmp_path, ScriptedModel(reply), "ask")

    assert asked == [("Which colour?", ["red", "blue"])]
    assert "red" in words(answered)
    assert NOBODY_ANSWERS in words(declined)


async def test_a_thinking_level_is_a_setting_of_this_turn_alone(tmp_path: Path) -> None:
    seen = []

    def reply(request: ModelRequest) -> str:
        seen.append((request.settings.reasoning_effort, request.settings.temperature))
        return "ok"

    agent = AgentDefinition(name="a", model=ScriptedModel(reply))
    async with EmbeddedRuntime(tmp_path / "s.db", [agent], grace_seconds=0) as runtime:
        session = runtime.session("s-1")
        given = {"model_settings": {"temperature": 0.5}}
        await session.run("one", thinking_level="high", run_settings=given).result()
        await session.run("two").result()

    assert seen == [("high", 0.5), (None, None)]
    assert given == {"model_settings": {"temperature": 0.5}}


async def test_an_answer_that_begins_again_is_marked_where_it_begins(tmp_path: Path) -> None:
    """The first call of the provider is cut off in its middle; what it said is void."""
    calls = iter([True, False])
    heard = asyncio.Event()

    class CutOnce:
        provider, model = "scripted", "cut"

        async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
            if next(calls):
                yield TextDelta("this is cut of")
                await heard.wait()
                raise ConnectionResetError
            async for item in ScriptedModel(lambda _: "This is whole.").stream(request):
                yield item

    items: list[Any] = []
    agent = AgentDefinition(name="a", model=CutOnce())
    async with EmbeddedRuntime(tmp_path / "s.db", [agent], grace_seconds=0) as runtime:
        async for item in runtime.session("s-1").run("go"):
            items.append(item)
            if isinstance(item, Fragment):
                heard.set()

    fragments = [item for item in items if isinstance(item, Fragment)]
    assert (fragments[0].text, fragments[0].restart) == ("this is cut of", False)
    assert [item.text.split()[0] for item in fragments if item.restart] == ["This"]
    assert all(item.step_execution_id for item in fragments), "none of it was missed"
    assert words(items) == "This is whole."
    assert [item.text for item in items if isinstance(item, RunMessage)] == ["go", "This is whole."]
