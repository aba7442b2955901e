"""`function_tool`: which arguments a model may send, and what the body gets."""

import dataclasses
import enum
import json
import re
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from perdure import ToolContext, function_tool
from perdure.errors import ToolExecutionError
from tests.unit.agents.builders import a_context


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Line(BaseModel):
    """One line of an order."""

    title: str
    quantity: int = 1


@dataclasses.dataclass
class Parcel:
    weight: float
    lines: list[Line]


# --- which arguments are taken ------------------------------------------------------------------


@function_tool
def ship(
    order_id: str,
    amount: float = 0.0,
    count: int = 1,
    express: bool = False,
    day: date | None = None,
    colour: Colour = Colour.RED,
    parcel: Parcel | None = None,
    level: Literal[1, 2] = 1,
) -> str:
    """Ship an order."""
    return ""


@pytest.mark.parametrize(
    "arguments",
    [
        {"order_id": "7"},
        {"order_id": "7", "amount": 3},
        {"order_id": "7", "day": "2026-01-31", "colour": "blue"},
        {"order_id": "7", "parcel": {"weight": 1.5, "lines": [{"title": "a"}]}},
        {"order_id": "7", "level": True},  # in an enum, true equals 1, as in Python
    ],
)
def test_fitting_arguments_are_returned_as_they_came(arguments: dict[str, Any]) -> None:
    assert ship.validate(arguments) == arguments
    assert json.loads(json.dumps(ship.validate(arguments))) == arguments


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "order_id: is required"),
        ({"order_id": 7}, "order_id: Input should be a valid string"),
        ({"order_id": "7", "amount": "12.50"}, "amount: Input should be a valid number"),
        ({"order_id": "7", "amount": True}, "amount: Input should be a valid number"),
        ({"order_id": "7", "count": 1.5}, "count: Input should be a valid integer"),
        ({"order_id": "7", "express": "yes"}, "express: Input should be a valid boolean"),
        ({"order_id": "7", "express": 1}, "express: Input should be a valid boolean"),
        ({"order_id": "7", "level": 3}, "level: Input should be 1 or 2"),
        ({"order_id": "7", "order": "8"}, "order: is no parameter of this tool"),
        ({"order_id": "7", "parcel": {"weight": 1, "lines": [{}]}}, "parcel.lines.0.title: is required"),
    ],
)
def test_arguments_of_another_type_are_refused_with_field_and_reason(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=rf"^{re.escape(reason)}$"):
        ship.validate(arguments)


def test_a_reason_repeats_no_value_and_stays_short() -> None:
    arguments = {"order_id": {"secret": "hunter2"}} | {f"{n}{'x' * 500}": "hunter2" for n in range(50)}

    with pytest.raises(ValueError, match=r"^order_id: ") as raised:
        ship.validate(arguments)

    assert "hunter2" not in str(raised.value)
    assert len(str(raised.value)) <= 300


def test_a_long_name_leaves_room_for_the_reason() -> None:
    with pytest.raises(ValueError, match=r"x: is no parameter of this tool$"):
        ship.validate({"order_id": "7", "x" * 5000: 1})


def test_a_reason_does_not_repeat_the_tag_of_an_unknown_variant() -> None:
    class Card(BaseModel):
        kind: Literal["card"]

    class Cash(BaseModel):
        kind: Literal["cash"]

    @function_tool
    def pay(means: Annotated[Card | Cash, Field(discriminator="kind")]) -> str:
        return means.kind

    with pytest.raises(ValueError, match=r"^means: names none of the possible variants$"):
        pay.validate({"means": {"kind": "hunter2"}})


# --- what the body gets, and what becomes of its result -----------------------------------------


async def test_models_arrive_as_models_and_the_rest_as_annotated() -> None:
    seen: dict[str, Any] = {}

    @function_tool
    def take(parcel: Parcel, day: date, price: Decimal, colour: Colour, tags: set[str], count: int = 3) -> str:
        seen.update(locals())
        return "taken"

    arguments = take.validate(
        {
            "parcel": {"weight": 1, "lines": [{"title": "a"}]},
            "day": "2026-01-31",
            "price": "1.10",
            "colour": "blue",
            "tags": ["x", "x"],
        }
    )
    output = await take.execute(json.loads(json.dumps(arguments)), a_context())

    assert output == "taken"
    assert seen["parcel"] == Parcel(weight=1.0, lines=[Line(title="a", quantity=1)])
    assert (seen["day"], seen["price"], seen["colour"]) == (date(2026, 1, 31), Decimal("1.10"), Colour.BLUE)
    assert (seen["tags"], seen["count"]) == ({"x"}, 3)


async def test_a_mutable_default_is_fresh_for_every_call() -> None:
    @function_tool
    def collect(item: str, items: list[str] = []) -> list[str]:  # noqa: B006
        items.append(item)
        return items

    await collect.execute({"item": "a"}, a_context())

    assert await collect.execute({"item": "b"}, a_context()) == '["b"]'


async def test_a_field_may_be_the_default() -> None:
    @function_tool
    def page(
        limit: int = Field(5, ge=1, description="How many."),
        tags: list[str] = Field(default_factory=list),  # noqa: B008
    ) -> str:
        return f"{limit} {tags}"

    assert page.parameters["properties"]["limit"]["default"] == 5
    assert "required" not in page.parameters
    assert await page.execute({}, a_context()) == "5 []"


async def test_the_context_reaches_the_parameter_that_is_annotated_with_it() -> None:
    @function_tool
    async def show(text: str, *, how: ToolContext | None = None) -> str:
        assert how is not None
        return f"{text} {how.idempotency_key}"

    assert list(show.parameters["properties"]) == ["text"]
    assert await show.execute({"text": "key"}, a_context()) == "key t/s-1/turn-1/call-2-0"


async def test_stored_arguments_that_no_longer_fit_are_a_failure_that_the_model_sees() -> None:
    with pytest.raises(ToolExecutionError, match="invalid ship arguments: order_id: is required"):
        await ship.execute({}, a_context())


def test_the_tool_is_still_the_plain_function_for_unit_tests() -> None:
    @function_tool(effect="read")
    def double(number: int) -> int:
        return 2 * number

    assert double(21) == 42
    assert double(number=1) == 2


def test_classes_of_the_defining_function_are_found_behind_postponed_annotations() -> None:
    namespace: dict[str, Any] = {}
    source = """
from __future__ import annotations
from pydantic import BaseModel
from perdure import ToolContext, function_tool
def define():
    class Local(BaseModel):
        x: int
    @function_tool
    def use(value: Local, context: ToolContext) -> str:
        return str(value.x)
    return use
"""
    exec(compile(source, "defined.py", "exec"), namespace)

    tool = namespace["define"]()

    assert list(tool.parameters["properties"]) == ["value"]
    assert tool.validate({"value": {"x": 1}}) == {"value": {"x": 1}}


async def test_a_method_and_a_callable_object_can_be_tools() -> None:
    class Desk:
        def answer(self, text: str) -> str:
            return f"desk: {text}"

        async def __call__(self, text: str) -> str:
            return f"called: {text}"

    desk = Desk()

    assert await function_tool(desk.answer).execute({"text": "a"}, a_context()) == "desk: a"
    assert await function_tool(name="desk")(desk).execute({"text": "b"}, a_context()) == "called: b"
