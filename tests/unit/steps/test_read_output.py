"""`read_tool_output` as a step: it reads what an earlier call of its own session put on record, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perdure import function_tool
from perdure.core.entries import Entry
from perdure.core.outputs import StoredOutput, output_hash
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError
from perdure.models import ModelRequest, Reply, ScriptedModel, call
from perdure.models.scripted import tool_results
from perdure.ports import LogSlice, SessionKey, SessionStore
from perdure.steps.outputs import ENTRIES_PER_READ, DamagedOutputError, find_output
from perdure.testing.fixtures import SESSION, Stage, open_stage, redeployed
from tests.unit.steps.builders import an_agent

LISTED = "".join(f"item {n:05d} is {'lost' if n == 7_000 else 'there'}\n" for n in range(8_000))
OTHER = SessionKey("local", "s-2")


@function_tool(effect="read")
async def list_items() -> str:
    """List all items."""
    return LISTED


def reading(*answers: Reply) -> ScriptedModel:
    """A model that lists the items, gives these answers and then says what it has read last."""

    def reply(request: ModelRequest) -> str | Reply:
        results = tool_results(request)
        if not results:
            return Reply(calls=(call("list_items"),))
        return answers[len(results) - 1] if len(results) <= len(answers) else "read"

    return ScriptedModel(reply)


def a_reader(model: Any, **changes: Any) -> Any:
    return an_agent(list_items, model=model, built_in_tools=["read_tool_output"], **changes)


def read(call_id: str = "call-2-0", **arguments: Any) -> Reply:
    return Reply(calls=(call("read_tool_output", tool_call_id=call_id, **arguments),))


async def last_result(stage: Stage) -> tuple[str, str]:
    result = next(
        part
        for entry in reversed(await stage.entries())
        for m in entry.messages
        for part in m.parts
        if part["type"] == "tool_result"
    )
    return result["status"], result["output"]


async def test_a_model_reads_on_where_its_prompt_was_cut_as_an_ordinary_read() -> None:
    model = reading(read(offset=12_000, limit=42), read(search="is lost"))
    async with open_stage(a_reader(model)) as stage:
        await stage.send("what is lost?")
        ran = await stage.run_all()

        assert [message.kind for message in ran] == ["run_model", "call_tool"] * 3 + ["run_model"]
        listed, piece, found = tool_results(model.requests[-1])
        assert 'tool_call_id "call-2-0", offset 12000' in listed.output
        assert piece.output.split("\n\n", 1)[1] == LISTED[12_000:12_042]
        assert found.output.endswith("\n\noffset 140011, line 7001: item 07000 is lost")
        assert [(item.status, item.tool_name) for item in (piece, found)] == [("succeeded", "read_tool_output")] * 2
        assert "interrupt_raised" not in await stage.event_types()


async def test_a_later_turn_and_another_process_read_it_too() -> None:
    async with open_stage(a_reader(reading()), in_process=False) as stage:
        await stage.send("list them")
        await stage.run_all()
        for _ in range(ENTRIES_PER_READ):
            await stage.send("go on")
            await stage.run_all()

        assert await find_output(stage.store, SESSION, "call-2-0") == StoredOutput(
            "call-2-0", "list_items", "succeeded", LISTED, output_hash(LISTED)
        )


async def test_a_result_is_found_however_far_behind_its_call_it_stands() -> None:
    many = ENTRIES_PER_READ * 2 + 2
    model = ScriptedModel(lambda r: "done" if tool_results(r) else Reply(calls=(call("list_items"),) * many))
    async with open_stage(an_agent(list_items, model=model)) as stage:
        await stage.send("list them")
        await stage.run_all()

        assert {entry.version for entry in await stage.entries()} >= set(range(1, many + 3))
        assert (await find_output(stage.store, SESSION, f"call-2-{many - 1}")).text == LISTED


@pytest.mark.parametrize("call_id", ["call-2-1", "call-1-0", "call-99-0", "model-2-0", "abc", "../s-2", "call-3-0"])
async def test_an_id_of_no_call_of_this_session_leads_nowhere(call_id: str) -> None:
    async with open_stage(a_reader(reading(read(call_id)))) as stage:
        await stage.send("list them", "s-2")
        await stage.send("list them")
        await stage.run_all()

        status, output = await last_result(stage)
        assert status == "failed"
        assert call_id in output
        with pytest.raises(NotFoundError) as refused:
            await find_output(stage.store, SESSION, call_id)
        assert refused.value.code == "tool_call_not_found"


async def test_a_call_of_another_session_is_none_of_this_one() -> None:
    async with open_stage(an_agent(list_items, model=reading())) as stage:
        await stage.send("list them", "s-2")
        await stage.run_all()

        assert (await find_output(stage.store, OTHER, "call-2-0")).text == LISTED
        with pytest.raises(NotFoundError):
            await find_output(stage.store, SESSION, "call-2-0")
        with pytest.raises(NotFoundError):
            await find_output(stage.store, SessionKey("other", "s-2"), "call-2-0")


async def test_a_call_without_a_result_has_no_output_yet() -> None:
    async with open_stage(an_agent(list_items, model=reading())) as stage:
        await stage.send("list them")
        await stage.run_next()

        with pytest.raises(RequestConflictError) as refused:
            await find_output(stage.store, SESSION, "call-2-0")
        assert refused.value.code == "not_finished"


class DamagedStore:
    """A store that gives every output with another letter at its end than was put in."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def read(self, *args: Any, **more: Any) -> LogSlice:
        log = await self._store.read(*args, **more)
        return replace(log, entries=tuple(map(_damaged, log.entries)))


def _damaged(entry: Entry) -> Entry:
    messages = tuple(
        replace(
            message,
            parts=tuple(p | {"output": f"{p['output'][:-1]}?"} if "output" in p else p for p in message.parts),
        )
        for message in entry.messages
    )
    return replace(entry, messages=messages)


async def test_an_output_that_was_damaged_is_told_of_and_not_read() -> None:
    async with open_stage(a_reader(reading()), wrap_store=DamagedStore) as stage:
        await stage.send("list them")
        await stage.run_all()

        with pytest.raises(DamagedOutputError, match="the stored output of call-2-0 is damaged"):
            await find_output(stage.store, SESSION, "call-2-0")


async def test_the_answer_is_never_longer_than_what_a_prompt_shows() -> None:
    model = reading(read(limit=16_000))
    async with open_stage(a_reader(model, tool_output_limit=1_000)) as stage:
        await stage.send("list them")
        await stage.run_all()

        _, piece = tool_results(model.requests[-1])
        assert len(piece.output) <= 1_000
        assert "too long" not in piece.output
        assert "characters 0 to 600 of" in piece.output


async def test_where_people_want_to_be_asked_of_everything_they_are_asked_of_this_too() -> None:
    async with open_stage(a_reader(reading(read(offset=12_000)))) as stage:
        await stage.send("list them", settings={"approval_mode": "always_ask"})
        for tool_name in ("list_items", "read_tool_output"):
            await stage.run_all()
            (interrupt,) = (await stage.snapshot())["pending_interrupts"]
            assert (interrupt["tool_name"], "blocked" in interrupt) == (tool_name, False)
            if tool_name == "list_items":
                await stage.approve(interrupt["interrupt_id"])
        shown = {"interrupt_id": interrupt["interrupt_id"], "arguments_hash": interrupt["arguments_hash"]}
        with pytest.raises(InvalidRequestError, match="offset: must be from 0"):
            await stage.approve(**shown, arguments={"tool_call_id": "call-2-0", "offset": -1})
        await stage.approve(**shown, arguments={"tool_call_id": "call-2-0", "offset": 15_000})
        await stage.run_all()

        status, output = await last_result(stage)
        assert status == "succeeded"
        assert output.endswith(LISTED[15_000:30_600])


async def test_an_agent_whose_deployment_took_the_tool_away_says_so() -> None:
    async with open_stage(a_reader(reading(read()))) as stage:
        await stage.send("list them")
        for _ in range(3):
            await stage.run_next()
        stage = redeployed(stage, an_agent(list_items, model=ScriptedModel(lambda _: "read")))
        await stage.run_all()

        assert (await last_result(stage))[1] == "unknown tool read_tool_output; available tools: list_items"
