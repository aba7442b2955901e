"""What a chat-completions provider is sent."""

import json

import pytest

from perdure.core.history import UserItem
from perdure.models.chat_request import chat_messages, chat_request, complete_schema
from perdure.testing.provider_rules import violations
from tests.unit.models.builders import a_call, a_request, a_result, a_tool, an_output

PROVIDER = "openai-chat"


def body_of(request, provider=PROVIDER, **settings) -> dict:
    return chat_request(request, model="m", provider=provider, settings=settings)


def wire_calls(*messages, provider=PROVIDER) -> list[dict]:
    sent = chat_messages(a_request(*messages), provider)
    return [call for message in sent for call in message.get("tool_calls", ())]


def test_a_request_streams_and_asks_for_its_usage() -> None:
    body = body_of(a_request(instructions="Be kind."), temperature=0.5)

    assert body == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
    }


def test_a_setting_of_none_is_left_out() -> None:
    assert "stream_options" not in body_of(a_request(), stream_options=None)


def test_settings_about_tools_are_sent_only_with_tools() -> None:
    settings = {"tool_choice": "auto", "parallel_tool_calls": False}

    without, offered = body_of(a_request(), **settings), body_of(a_request(tools=(a_tool(),)), **settings)

    assert settings.keys().isdisjoint(without)
    assert settings.items() <= offered.items()


def test_a_conversation_with_tools_is_what_a_strict_provider_takes() -> None:
    request = a_request(
        UserItem(text="Where are they?"),
        an_output(a_call("call-1-0", arguments={"q": "ü"}), a_call("call-1-1", name="../x y"), reasoning="hm"),
        a_result("call-1-0"),
        a_result("call-1-1", "unknown tool"),
        an_output(text="There."),
        an_output(),
        UserItem(text="Thanks"),
        tools=(a_tool(), a_tool("other", {"type": "object", "properties": {"l": {"type": "array"}}})),
        instructions="Be kind.",
    )

    body = body_of(request)

    assert violations(body) == []
    assert body["messages"][2] == {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "call-1-0", "type": "function", "function": {"name": "lookup", "arguments": '{"q": "ü"}'}},
            {"id": "call-1-1", "type": "function", "function": {"name": "___x_y", "arguments": "{}"}},
        ],
    }
    assert body["messages"][3] == {"role": "tool", "tool_call_id": "call-1-0", "content": "found"}
    assert [message["role"] for message in body["messages"][5:]] == ["assistant", "user"]


@pytest.mark.parametrize("name", ["", "a" * 65, "naïve.tool/x", "line\n"])
def test_a_made_up_name_is_replayed_as_a_legal_one(name: str) -> None:
    request = a_request(UserItem(text="x"), an_output(a_call(name=name)), a_result(name=name))

    assert violations(body_of(request)) == []


def test_arguments_that_were_no_object_are_replayed_as_an_empty_one() -> None:
    call = a_call()
    broken = type(call)(call_id=call.call_id, tool_name="lookup", arguments=None, arguments_text='{"q": ')

    assert wire_calls(an_output(broken), a_result())[0]["function"]["arguments"] == "{}"


def test_a_provider_gets_its_own_ids_back_on_calls_and_results() -> None:
    request = a_request(an_output(a_call(provider_call_id="g1|x"), provider=PROVIDER), a_result())

    call, result = chat_messages(request, PROVIDER)

    assert (call["tool_calls"][0]["id"], result["tool_call_id"]) == ("g1|x", "g1|x")


def test_another_provider_gets_ours_and_nothing_that_was_opaque() -> None:
    signature = {"calls": [{"extra_content": {"google": {"thought_signature": "S"}}}]}
    output = an_output(a_call(provider_call_id="g1|x"), provider="other", item=signature, reasoning="secret thought")

    call, result = chat_messages(a_request(output, a_result()), PROVIDER)

    assert (call["tool_calls"][0]["id"], result["tool_call_id"]) == ("call-1-0", "call-1-0")
    assert "S" not in json.dumps(call)
    assert "secret thought" not in json.dumps(call)


def test_what_was_opaque_goes_back_to_its_own_provider_beside_its_own_call() -> None:
    signature = {"google": {"thought_signature": "S"}}
    item = {"calls": [{}, {"extra_content": signature}]}
    output = an_output(a_call("call-1-0"), a_call("call-1-1"), provider=PROVIDER, item=item)

    first, second = wire_calls(output, a_result("call-1-0"), a_result("call-1-1"))

    assert "extra_content" not in first
    assert second["extra_content"] == signature


def test_an_opaque_item_that_does_not_fit_its_calls_is_left_out() -> None:
    output = an_output(a_call(), provider=PROVIDER, item={"calls": []})

    assert "extra_content" not in wire_calls(output, a_result())[0]


@pytest.mark.parametrize(
    ("schema", "completed"),
    [
        ({"type": "object"}, {"type": "object", "properties": {}}),
        ({"type": "object", "properties": None}, {"type": "object", "properties": {}}),
        ({"type": ["object", "null"]}, {"type": ["object", "null"], "properties": {}}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "array", "prefixItems": []}, {"type": "array", "prefixItems": []}),
        ({"anyOf": [{"type": "array"}]}, {"anyOf": [{"type": "array", "items": {}}]}),
        ({"items": {"type": "object"}}, {"items": {"type": "object", "properties": {}}}),
        ({"$defs": {"N": {"type": "object"}}}, {"$defs": {"N": {"type": "object", "properties": {}}}}),
        ({"additionalProperties": False}, {"additionalProperties": False}),
        # a property, a constant and an example are no schemas, whatever they are called
        ({"properties": {"type": {"type": "string"}}}, {"properties": {"type": {"type": "string"}}}),
        ({"const": {"type": "object"}}, {"const": {"type": "object"}}),
    ],
)
def test_schemas_are_completed_where_providers_insist(schema: dict, completed: dict) -> None:
    assert complete_schema(schema) == completed


def test_a_tool_without_a_schema_takes_an_empty_object() -> None:
    tool = a_tool()

    body = body_of(a_request(tools=(type(tool)(name="now", description="", parameters={}),)))

    assert body["tools"] == [
        {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
    ]
