"""The provider that fails on demand: what it refuses, what it says by itself, and that it runs as a program."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.core.history import UserItem
from perdure.models import OpenAIChatModel
from perdure.testing.conversation import converse
from perdure.testing.provider_rules import violations
from perdure.testing.providers import FaultProvider, answer
from tests.unit.models.builders import a_request, failure_of, respond

REFUND = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}, "amount": {"type": "number"}, "note": {"type": "string"}},
    "required": ["order_id", "amount"],
}


def user(text="hello") -> dict:
    return {"role": "user", "content": text}


def calling(*ids, content="", name="lookup", arguments="{}", **extra) -> dict:
    function = {"name": name, "arguments": arguments}
    calls = [{"id": id_, "type": "function", "function": function} | extra for id_ in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def result(id_="a", content="x") -> dict:
    return {"role": "tool", "tool_call_id": id_, "content": content}


def tool(name="lookup", parameters=None) -> dict:
    schema = {"type": "object", "properties": {}} if parameters is None else parameters
    return {"type": "function", "function": {"name": name, "parameters": schema}}


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "messages is empty"),
        ([{"role": "robot", "content": "x"}], "unknown role"),
        ([user(""), user()], "content is empty"),
        ([user([])], "content is empty"),
        ([user([{"type": "video", "video": {}}])], "of no known kind"),
        ([user([{"type": "text", "text": "x", "name": "y"}])], "unknown fields"),
        ([user([{"type": "text", "text": ""}])], "kind text is empty"),
        ([user([{"type": "input_audio", "input_audio": {"data": "x"}}])], "missing or unknown fields"),
        ([user(), {"role": "assistant", "content": [{"type": "text", "text": "x"}]}], "content is no text"),
        ([user(), {"role": "assistant", "content": "x", "reasoning": "y"}], "unknown fields"),
        ([user(), result()], "a result without its call"),
        ([user(), calling("a"), user()], "no result directly behind"),
        ([user(), calling("a", "b"), result("a")], "have no result"),
        ([user(), calling("a"), result("a"), result("a")], "a result without its call"),
        ([user(), calling("a", content=None), result("a")], "content is no text"),
        ([user(), calling("a"), result("a"), calling("a"), result("a")], "is repeated"),
        ([user(), calling("a|b"), result("a|b")], "id of a tool call is illegal"),
        ([user(), calling("a", name="x y"), result("a")], "name of a tool call is illegal"),
        ([user(), calling("a", arguments=""), result("a")], "no JSON object"),
        ([user(), calling("a", arguments="[]"), result("a")], "no JSON object"),
        ([user(), calling("a", extra_content={}), result("a")], "missing or unknown fields"),
    ],
)
def test_a_conversation_that_strict_providers_refuse_is_refused(messages: list, reason: str) -> None:
    assert any(reason in problem for problem in violations({"messages": messages}))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"tools": []}, "tools is empty"),
        ({"tool_choice": "auto"}, "without tools"),
        ({"tools": [tool("x y")]}, "name is illegal"),
        ({"tools": [tool(), tool()]}, "name is repeated"),
        ({"tools": [tool(parameters={"type": "string"})]}, "no object schema"),
        ({"tools": [tool(parameters={"type": "object"})]}, "without properties"),
        (
            {"tools": [tool(parameters={"type": "object", "properties": {"l": {"type": "array"}}})]},
            "array schema without items",
        ),
    ],
)
def test_tools_that_strict_providers_refuse_are_refused(fields: dict, reason: str) -> None:
    assert any(reason in problem for problem in violations({"messages": [user()]} | fields))


def test_a_good_request_is_not_refused() -> None:
    messages = [user(), calling("a", "b"), result("b"), result("a"), user()]

    assert violations({"messages": messages, "tools": [tool()]}) == []


async def test_a_refused_request_is_recorded_and_uses_up_no_plan() -> None:
    async with FaultProvider([answer("fine")]) as provider:
        model = OpenAIChatModel("m", base_url=provider.base_url)

        with pytest.raises(Exception, match="HTTP 400"):
            await respond(model, a_request(UserItem(text="")))
        response = await respond(model)
        with pytest.raises(Exception, match="HTTP 599"):
            await respond(model)
        await model.aclose()

        assert response.text == "fine"
        assert len(provider.requests) == 3
        assert provider.refusals == ["messages[0]: content is empty"]


# --- conversations --------------------------------------------------------------------------------


def said(*messages, tools=()) -> "tuple[str, list]":
    """Return the text and the calls of the stub's answer."""
    deltas = [
        json.loads(event)["choices"][0]["delta"]
        for event in converse({"messages": list(messages), "tools": list(tools)}).events
    ]
    text = "".join(delta.get("content", "") for delta in deltas)
    fragments = [fragment for delta in deltas for fragment in delta.get("tool_calls", ())]
    calls = [
        (first["function"]["name"], json.loads(first["function"]["arguments"] + rest["function"]["arguments"]))
        for first, rest in zip(fragments[::2], fragments[1::2], strict=True)
    ]
    return text, calls


def test_without_tools_the_stub_repeats_what_was_said() -> None:
    assert said(user("hello there")) == ("You said: hello there", [])


def test_a_message_calls_the_tool_whose_name_it_shares_most_words_with() -> None:
    tools = [tool("lookup_order"), tool("refund_order", REFUND)]

    text, calls = said(user("Please refund order 7 with 12.5"), tools=tools)

    assert (text, calls) == ("", [("refund_order", {"order_id": "7", "amount": 12.5})])


def test_a_message_may_name_its_calls() -> None:
    _, calls = said(user('call lookup {"q": 1}\ncall other'), tools=[tool()])

    assert calls == [("lookup", {"q": 1}), ("other", {})]


def test_behind_results_the_stub_tells_them() -> None:
    text, calls = said(user("order"), calling("a", "b"), result("a", "one"), result("b", "two"), tools=[tool("order")])

    assert (text, calls) == ("I did that: one; two", [])


@pytest.mark.processes
def test_the_program_serves_another_process_and_records_what_it_was_asked(tmp_path: Path) -> None:
    record = tmp_path / "requests.jsonl"
    command = [sys.executable, "-m", "perdure.testing.providers", "--record", str(record), "--cut-every", "2"]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    try:
        assert program.stdout is not None
        ready, base_url = program.stdout.readline().split()
        model = OpenAIChatModel("m", base_url=base_url)

        response = asyncio.run(respond(model))
        error = asyncio.run(failure_of(model))
    finally:
        program.send_signal(signal.SIGINT)
        program.wait(10)

    assert (ready, response.text) == ("ready", "You said: hello")
    assert error.kind == "malformed"
    assert len(record.read_text().splitlines()) == 2
    assert program.returncode == 0


@pytest.mark.parametrize("before", [[user("hello")], [user("order"), calling("a"), result("a", "one")]])
def test_after_a_cut_the_stub_answers_as_it_would_have(before: list) -> None:
    note = user("[turn_retried]\nThe connection broke.\n[/turn_retried]")

    assert said(*before, note, tools=[tool("order")]) == said(*before, tools=[tool("order")])
