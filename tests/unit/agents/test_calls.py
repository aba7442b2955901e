"""What a model asked for becomes calls that can be stored."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from perdure import ToolPolicy, function_tool
from perdure.agents.stepwise import requested_calls
from tests.unit.agents.builders import a_call, an_agent


@function_tool(effect="read")
def lookup(q: str) -> str:
    return q


@function_tool(effect="read")
def take_snapshot() -> str:
    return "taken"


@function_tool(effect="non_idempotent_write")
def refund(amount: float) -> str:
    return f"refunded {amount}"


@function_tool
def anything(value: Any) -> str:
    return "done"


AGENT = an_agent(lookup, take_snapshot, refund, anything)


def test_calls_keep_the_models_order_their_ids_and_their_policy() -> None:
    calls = requested_calls(
        AGENT, (a_call("lookup", '{"q": "a"}', "c1"), a_call("refund", '{"amount": 3}'), a_call("lookup", '{"q": "b"}'))
    )

    assert [(c.tool_name, c.arguments, c.effect, c.requires_approval, c.provider_call_id) for c in calls] == [
        ("lookup", {"q": "a"}, "read", False, "c1"),
        ("refund", {"amount": 3}, "non_idempotent_write", True, None),
        ("lookup", {"q": "b"}, "read", False, None),
    ]
    assert all(call.settled is None and call.arguments_text is None for call in calls)


@pytest.mark.parametrize("text", ["", "  ", "{}"])
def test_no_argument_bytes_at_all_are_no_arguments(text: str) -> None:
    (call,) = requested_calls(AGENT, (a_call("take_snapshot", text),))

    assert (call.arguments, call.settled) == ({}, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"q": "a"', "not valid JSON"),
        ("hello", "not valid JSON"),
        ('["a"]', "not a JSON object"),
        ('"a"', "not a JSON object"),
        ("null", "not a JSON object"),
        ("[" * 100_000, "nested too deeply"),
        ('{"n": ' + "1" * 5000 + "}", "not valid JSON"),
        ('{"value": NaN}', "NaN and Infinity are no JSON numbers"),
        ('{"value": [-Infinity]}', "NaN and Infinity are no JSON numbers"),
        ('{"value": 1e400}', "a number is out of range"),
        ('{"value": "\\ud83d"}', "a text holds half of a surrogate pair"),
        ('{"\\ud83d": 1}', "a text holds half of a surrogate pair"),
        ('{"value": ' + "[" * 101 + "]" * 101 + "}", "nested too deeply"),
    ],
)
def test_arguments_that_are_no_json_object_settle_the_call_and_are_kept_as_text(text: str, reason: str) -> None:
    (call,) = requested_calls(AGENT, (a_call("anything", text),))

    assert call.settled == ("failed", f"invalid anything arguments: {reason}")
    assert (call.arguments, call.arguments_text, call.requires_approval) == (None, text, False)


def test_arguments_that_the_tool_refuses_settle_the_call_and_are_kept_as_they_came() -> None:
    (call,) = requested_calls(AGENT, (a_call("refund", '{"amount": "all"}'),))

    assert call.settled == ("failed", "invalid refund arguments: amount: Input should be a valid number")
    assert (call.arguments, call.requires_approval, call.effect) == ({"amount": "all"}, False, "non_idempotent_write")


def test_an_emoji_in_two_escapes_is_one_character() -> None:
    (call,) = requested_calls(AGENT, (a_call("lookup", '{"q": "\\ud83d\\ude00"}'),))

    assert (call.arguments, call.settled) == ({"q": "😀"}, None)


def test_half_a_character_in_broken_arguments_can_be_stored() -> None:
    (call,) = requested_calls(AGENT, (a_call("lookup", '{"q": "\ud83d'),))

    assert call.arguments_text == '{"q": "\ufffd'


# --- unknown tools ------------------------------------------------------------------------------


def test_an_unknown_tool_is_told_which_there_are() -> None:
    (call,) = requested_calls(AGENT, (a_call("lokup", '{"q": "a"}'),))

    assert call.settled == ("failed", "unknown tool lokup; available tools: lookup, take_snapshot, refund, anything")
    assert (call.tool_name, call.arguments) == ("lokup", {"q": "a"})
    assert (call.effect, call.requires_approval) == ("read", False)


def test_an_agent_without_tools_says_so() -> None:
    (call,) = requested_calls(an_agent(), (a_call("lookup"),))

    assert call.settled == ("failed", "unknown tool lookup; available tools: none")


@pytest.mark.parametrize(
    ("name", "stored"), [("../x y", "___x_y"), ("", "_"), ("é" * 500, "_" * 64), ("a\ud83d", "a_")]
)
def test_an_illegal_name_is_stored_as_every_provider_takes_it(name: str, stored: str) -> None:
    (call,) = requested_calls(AGENT, (a_call(name),))

    assert call.tool_name == stored
    assert call.settled is not None
    assert call.settled[1].startswith(f"unknown tool {name[:60]}".removesuffix("\ud83d"))
    assert len(call.settled[1].encode()) < 500


# --- policies -----------------------------------------------------------------------------------


def test_a_policy_overrides_the_tools_own_word() -> None:
    agent = an_agent(
        lookup,
        refund,
        tool_policies={
            "lookup": ToolPolicy(requires_approval=True, approval_deadline=timedelta(hours=1)),
            "refund": ToolPolicy(effect="idempotent_write"),
        },
    )

    looked_up, refunded = requested_calls(agent, (a_call("lookup", '{"q": "a"}'), a_call("refund", '{"amount": 1}')))

    assert (looked_up.effect, looked_up.requires_approval) == ("read", True)
    assert looked_up.approval_deadline == timedelta(hours=1)
    assert (refunded.effect, refunded.requires_approval, refunded.approval_deadline) == (
        "idempotent_write",
        False,
        None,
    )


def test_a_tool_that_says_nothing_takes_the_safest_route() -> None:
    (call,) = requested_calls(AGENT, (a_call("anything", '{"value": 1}'),))

    assert (call.effect, call.requires_approval) == ("unclassified", True)


def test_an_approval_function_is_asked_once_with_the_checked_arguments() -> None:
    asked: list[Mapping[str, Any]] = []

    def small(arguments: Mapping[str, Any]) -> Any:
        asked.append(dict(arguments))
        return "approved" if arguments["amount"] < 50 else "ask"

    agent = an_agent(refund, tool_policies={"refund": ToolPolicy(requires_approval=small)})

    calls = requested_calls(
        agent, (a_call("refund", '{"amount": 49}'), a_call("refund", '{"amount": 50}'), a_call("refund", "{}"))
    )

    assert [call.requires_approval for call in calls] == [False, True, False]
    assert asked == [{"amount": 49}, {"amount": 50}]


@pytest.mark.parametrize("said", ["ask", "yes", None, True])
def test_only_the_word_approved_lets_a_call_pass(said: Any) -> None:
    agent = an_agent(refund, tool_policies={"refund": ToolPolicy(requires_approval=lambda _: said)})

    (call,) = requested_calls(agent, (a_call("refund", '{"amount": 1}'),))

    assert call.requires_approval


def test_an_approval_function_that_fails_asks_a_person() -> None:
    agent = an_agent(lookup, tool_policies={"lookup": ToolPolicy(requires_approval=lambda a: a["missing"])})

    (call,) = requested_calls(agent, (a_call("lookup", '{"q": "a"}'),))

    assert (call.requires_approval, call.settled) == (True, None)


def test_an_approval_function_can_not_change_what_is_run() -> None:
    def careless(arguments: Any) -> Any:
        arguments["amount"] = 1_000_000
        return "approved"

    agent = an_agent(refund, tool_policies={"refund": ToolPolicy(requires_approval=careless)})

    (call,) = requested_calls(agent, (a_call("refund", '{"amount": 1}'),))

    assert call.arguments == {"amount": 1}
