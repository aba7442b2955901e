"""The example support agent, its fake shop and its demo model."""

import json
import multiprocessing
from datetime import timedelta
from pathlib import Path

import pytest

from perdure.agents import fake_shop
from perdure.agents.built_ins import BUILT_IN_TOOLS
from perdure.agents.demo_model import HELLO, HELP, demo_model, reply
from perdure.agents.example import agents, change_address, is_demo, lookup_order, refund_order, support_agent
from perdure.agents.stepwise import StepwiseRunner, requested_calls
from perdure.agents.tools import FunctionTool
from perdure.core import texts
from perdure.core.history import CallItem, HistoryItem, ModelItem, ToolResultItem, UserItem
from perdure.errors import ToolExecutionError
from perdure.models import ModelRequest, Reply, ToolDefinition
from tests.unit.agents.builders import Shown, a_context, a_turn

OFFERED = tuple(
    ToolDefinition(name=name, description="", parameters={})
    for name in ("lookup_order", "change_address", "refund_order", *BUILT_IN_TOOLS)
)


@pytest.fixture(autouse=True)
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test books of its own."""
    path = tmp_path / "new folder" / "shop.jsonl"
    monkeypatch.setenv(fake_shop.BOOKS_VARIABLE, str(path))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    return path


# --- the shop -----------------------------------------------------------------------------------


def test_a_new_shop_has_ten_orders_and_empty_books(books: Path) -> None:
    orders = [fake_shop.find_order(str(number)) for number in range(1, 11)]

    assert [order.order_id for order in orders] == [str(number) for number in range(1, 11)]
    assert fake_shop.find_order(" #7 ").items == ("walking boots",)
    assert (fake_shop.read_books(), fake_shop.count_refunds(), books.exists()) == ([], 0, False)


def test_every_refund_is_counted_even_with_the_same_key() -> None:
    fake_shop.refund("7", 10, idempotency_key="k")
    order = fake_shop.refund("7", 10, idempotency_key="k")
    fake_shop.refund("8", 15, idempotency_key="k")

    assert (fake_shop.count_refunds("7"), fake_shop.count_refunds()) == (2, 3)
    assert order.refunded == 20


def test_an_address_change_is_made_once_for_a_key() -> None:
    fake_shop.change_address("7", "1 First Street", idempotency_key="k-1")
    fake_shop.change_address("7", "2 Second Street", idempotency_key="k-2")
    order = fake_shop.change_address("7", "1 First Street", idempotency_key="k-1")
    fake_shop.change_address("8", "1 First Street", idempotency_key="k-3")
    other = fake_shop.change_address("8", "2 Second Street", idempotency_key="k-3")

    assert (order.address, other.address) == ("2 Second Street", "1 First Street")
    assert fake_shop.count_address_changes("7") == 2
    assert [entry["key"] for entry in fake_shop.read_books()] == ["k-1", "k-2", "k-1", "k-3", "k-3"]


@pytest.mark.parametrize("amount", [0, -1, 129.91])
def test_a_refund_above_the_amount_or_of_nothing_is_refused(amount: float) -> None:
    with pytest.raises(ValueError, match=r"order 7 cost 129\.90 euros"):
        fake_shop.refund("7", amount, idempotency_key="k")

    assert fake_shop.count_refunds() == 0


def test_line_breaks_and_other_characters_stay_in_their_entry() -> None:
    order = fake_shop.change_address("7", "Straße 1\n\u2028\x00", idempotency_key="k")

    assert order.address == "Straße 1\n\u2028\x00"


def test_lines_of_several_processes_do_not_mix() -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_refund_often, args=(str(number),)) for number in (1, 2, 3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert [fake_shop.count_refunds(str(number)) for number in (1, 2, 3)] == [20, 20, 20]


def _refund_often(order_id: str) -> None:
    for n in range(20):
        fake_shop.refund(order_id, 1, idempotency_key=f"{n}")


# --- the agent ----------------------------------------------------------------------------------


def test_the_agent_has_a_tool_of_each_kind() -> None:
    policies = {tool.name: agents[0].policy_of(tool) for tool in agents[0].tools}

    assert {name: (policy.effect, policy.requires_approval) for name, policy in policies.items()} == {
        "lookup_order": ("read", False),
        "change_address": ("idempotent_write", False),
        "refund_order": ("non_idempotent_write", True),
    }


async def test_the_tools_work_on_the_shop_with_the_calls_key() -> None:
    looked_up = json.loads(str(await lookup_order.execute({"order_id": "7"}, a_context())))
    await change_address.execute({"order_id": "7", "address": "5 New Street"}, a_context())
    refunded = await refund_order.execute({"order_id": "7", "amount": 20}, a_context())

    assert (looked_up["order_id"], looked_up["items"], looked_up["amount"]) == ("7", ["walking boots"], 129.9)
    assert refunded == "Refunded 20.00 euros for order 7."
    assert [(entry["kind"], entry["key"]) for entry in fake_shop.read_books()] == [
        ("address", "t/s-1/turn-1/call-2-0"),
        ("refund", "t/s-1/turn-1/call-2-0"),
    ]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (lookup_order, {"order_id": "11"}),
        (change_address, {"order_id": "11", "address": "5 New Street"}),
        (refund_order, {"order_id": "11", "amount": 1}),
        (refund_order, {"order_id": "7", "amount": 1000}),
    ],
)
async def test_what_the_shop_refuses_is_told_to_the_model(tool: FunctionTool, arguments: dict) -> None:
    with pytest.raises(ToolExecutionError):
        await tool.execute(arguments, a_context())

    assert fake_shop.read_books() == []


def test_without_a_key_the_demo_model_answers() -> None:
    assert is_demo(support_agent())


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "OPENAI_BASE_URL"])
def test_with_a_key_or_an_address_a_real_model_answers(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "http://127.0.0.1:9/v1")

    agent = support_agent()

    assert (is_demo(agent), agent.model.model) == (False, "gpt-5-mini")


# --- the demo model -----------------------------------------------------------------------------


def asked(text: str, *results: ToolResultItem, tools: tuple[ToolDefinition, ...] = OFFERED) -> str | Reply:
    """Return what the demo says to a text, once these results are there."""
    calls = tuple(CallItem(call_id=r.call_id, tool_name=r.tool_name, arguments={}) for r in results)
    items: list[HistoryItem] = [UserItem(text=text)]
    if results:
        items += [ModelItem(text="", calls=calls), *results]
    return reply(ModelRequest(messages=tuple(items), tools=tools))


def wanted(said: str | Reply) -> list[tuple[str, dict]]:
    """Return the calls of a reply."""
    return [] if isinstance(said, str) else [(c.tool_name, json.loads(c.arguments_text)) for c in said.calls]


def a_result(tool_name: str, output: str, status: str = "succeeded") -> ToolResultItem:
    return ToolResultItem(call_id="call-2-0", tool_name=tool_name, status=status, output=output)


ORDER_7 = json.dumps({"order_id": "7", "items": ["walking boots"], "amount": 129.9, "address": "7 Castle Hill",
                      "status": "delivered", "refunded": 0.0})  # fmt: skip


REMIND_ME = "Remind me of order 7 in 2 minutes"


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("Where is order 7?", [("lookup_order", {"order_id": "7"})]),
        ("where are orders 7 and 8", [("lookup_order", {"order_id": "7"}), ("lookup_order", {"order_id": "8"})]),
        ("What about #3?", [("lookup_order", {"order_id": "3"})]),
        ("Refund order 7", [("lookup_order", {"order_id": "7"})]),
        ("refund order 7 because it is 3 days late", [("lookup_order", {"order_id": "7"})]),
        ("Refund order 7: 20.50", [("refund_order", {"order_id": "7", "amount": 20.5})]),
        ("Please refund 20 of order 7", [("refund_order", {"order_id": "7", "amount": 20.0})]),
        ("refund €5 for order #7", [("refund_order", {"order_id": "7", "amount": 5.0})]),
        (
            "Change the address of order 7 to 5 New Street, Leeds.",
            [("change_address", {"order_id": "7", "address": "5 New Street, Leeds"})],
        ),
        ("Remind me of order 7 in 2 minutes", [("durable_wait", {"duration_seconds": 120, "reason": REMIND_ME})]),
        ("Where is order 7? I can't wait 3 days", [("lookup_order", {"order_id": "7"})]),
        ("Hello", []),
        ("What is the meaning of life?", []),
        ("", []),
    ],
)
def test_the_demo_asks_for_the_tool_that_a_wish_needs(text: str, calls: list) -> None:
    assert wanted(asked(text)) == calls


@pytest.mark.parametrize("text", ["Where is my order?", "Refund my order", "Ask me something"])
def test_the_demo_asks_which_order_is_meant_and_takes_it_from_the_answer(text: str) -> None:
    ((name, arguments),) = wanted(asked(text))
    answer = json.dumps({"status": "answered", "answer": arguments["choices"][1]})

    assert name == "ask_user"
    assert wanted(asked(text, a_result("ask_user", answer))) == [("lookup_order", {"order_id": "7"})]
    assert "can't find an order" in str(
        asked(text, a_result("ask_user", '{"status": "answered", "answer": "that one"}'))
    )
    assert "leave it at that" in str(asked(text, a_result("ask_user", "The user declined to answer.", "rejected")))


def test_the_demo_does_after_a_wait_what_it_waited_for() -> None:
    over = a_result("durable_wait", json.dumps({"status": "completed", "waited_seconds": 120}))
    skipped = a_result("durable_wait", json.dumps({"status": "skipped", "waited_seconds": 3}))

    assert wanted(asked(REMIND_ME, over)) == [("lookup_order", {"order_id": "7"})]
    assert str(asked(REMIND_ME, over, a_result("lookup_order", ORDER_7))).startswith("Order 7 (walking boots")
    assert asked("Wait 2 min", over) == "The time is over. You wrote: “Wait 2 min”."
    assert asked("Wait 2 min", skipped) == "The wait was cut short. You wrote: “Wait 2 min”."


def test_the_demo_greets_and_says_what_it_is() -> None:
    assert asked("Good morning!") == HELLO
    assert "scripted demo" in HELLO


def test_a_refund_without_an_amount_is_for_what_the_order_cost() -> None:
    said = asked("Refund order 7", a_result("lookup_order", ORDER_7))

    assert wanted(said) == [("refund_order", {"order_id": "7", "amount": 129.9})]


@pytest.mark.parametrize(
    ("text", "result", "told"),
    [
        ("Where is order 7?", a_result("lookup_order", ORDER_7), "is delivered"),
        ("Where is order 99?", a_result("lookup_order", "there is no order '99'", "failed"), "no order '99'"),
        ("Refund order 99", a_result("lookup_order", "there is no order '99'", "failed"), "no order '99'"),
        ("Change address of order 7 to a", a_result("change_address", ORDER_7), "now goes to 7 Castle Hill"),
        ("Refund order 7", a_result("refund_order", "Refunded 1.00 euros."), "Refunded 1.00 euros. The money"),
        (
            "Refund order 7",
            a_result("refund_order", f"Refunded.\n\n{texts.NOTE} They wrote: ok"),
            "Refunded. The money",
        ),
        ("Refund order 7", a_result("refund_order", texts.denied(None), "rejected"), "declined"),
        ("Refund order 7", a_result("refund_order", texts.denied("too late"), "rejected"), "too late"),
        ("Refund order 7", a_result("refund_order", texts.OUTCOME_UNKNOWN, "outcome_unknown"), "not try it again"),
    ],
)
def test_the_demo_tells_what_became_of_a_call(text: str, result: ToolResultItem, told: str) -> None:
    said = asked(text, result)

    assert isinstance(said, str)
    assert told in said
    assert texts.NOTE not in said
    assert said.count(". ") + said.count("! ") >= 1


def test_without_tools_the_demo_answers() -> None:
    assert asked("Where is order 7?", tools=()) == f"I am afraid I did not get that. {HELP}"
    assert str(asked("Refund order 7", a_result("lookup_order", ORDER_7), tools=())).startswith(
        "Order 7 (walking boots"
    )


async def test_the_agent_refunds_once_through_runner_calls_and_shop() -> None:
    agent = support_agent(demo_model(delay=timedelta(0)))
    history: tuple[HistoryItem, ...] = (UserItem(text="Refund order 7"),)
    shown = Shown()
    for number in range(2):
        outcome = await StepwiseRunner().run_model_step(agent, a_turn(shown, history=history))
        (requested,) = requested_calls(agent, outcome.calls)
        assert requested.arguments is not None
        call_id = f"call-{number}-0"
        context = a_context(tool_name=requested.tool_name, tool_call_id=call_id)
        output = await StepwiseRunner().execute_tool(agent, context, requested.arguments)
        call = CallItem(call_id=call_id, tool_name=requested.tool_name, arguments=requested.arguments)
        result = ToolResultItem(call_id=call_id, tool_name=requested.tool_name, status="succeeded", output=str(output))
        history = (*history, ModelItem(text=outcome.text, calls=(call,)), result)

    answer = await StepwiseRunner().run_model_step(agent, a_turn(shown, history=history))

    assert answer.ending == "answer"
    assert "Refunded 129.90 euros for order 7." in answer.text
    assert fake_shop.count_refunds("7") == 1
    assert len(shown.deltas) > 10
