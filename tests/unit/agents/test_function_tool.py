"""`function_tool`: what the model is told, which arguments it may send, and what the body gets."""

import dataclasses
import enum
import json
import re
import warnings
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from perdure import ToolContext, function_tool
from perdure.errors import ConfigurationError, ToolExecutionError
from tests.unit.agents.builders import a_context


class Lock:
    """Nothing that pydantic knows."""


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Line(BaseModel):
    """One line of an order."""

    title: str
    quantity: int = 1


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


@dataclasses.dataclass
class Parcel:
    weight: float
    lines: list[Line]


# --- the schema ---------------------------------------------------------------------------------


def test_name_description_and_schema_come_from_the_function() -> None:
    @function_tool
    def lookup_order(order_id: str, limit: int = 5) -> str:
        """Look up an order
        by its id.

        This paragraph is for developers.
        """
        return order_id

    assert lookup_order.name == "lookup_order"
    assert lookup_order.description == "Look up an order by its id."
    assert lookup_order.parameters == {
        "type": "object",
        "properties": {"order_id": {"type": "string"}, "limit": {"type": "integer", "default": 5}},
        "required": ["order_id"],
        "additionalProperties": False,
    }
    assert (lookup_order.effect, lookup_order.requires_approval) == (None, None)


def test_name_description_and_policy_can_be_given() -> None:
    @function_tool(effect="read", requires_approval=True, name="find", description="Finds.")
    def lookup(order_id: str) -> str:
        """Something else."""
        return order_id

    assert (lookup.name, lookup.description, lookup.effect, lookup.requires_approval) == (
        "find",
        "Finds.",
        "read",
        True,
    )


def test_a_tool_without_parameters_has_an_empty_object_of_properties() -> None:
    @function_tool
    def ping(context: ToolContext) -> str:
        return "pong"

    assert ping.parameters == {"type": "object", "properties": {}, "additionalProperties": False}


def test_no_title_is_left_but_a_property_of_that_name_is() -> None:
    @function_tool
    def add(parcel: Parcel, title: Annotated[str, Field(title="Title")] = "title") -> str:
        return title

    text = json.dumps(add.parameters)

    assert '"title": "' not in text
    assert add.parameters["properties"]["title"] == {"type": "string", "default": "title"}
    assert "title" in add.parameters["$defs"]["Line"]["properties"]


def test_every_reference_of_a_recursive_model_can_be_resolved() -> None:
    @function_tool
    def plant(tree: Tree) -> str:
        return tree.name

    references = set(find_references(plant.parameters))

    assert references == {"#/$defs/Tree"}
    assert "Tree" in plant.parameters["$defs"]


def find_references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [found for inner in schema for found in find_references(inner)]
    if isinstance(schema, dict):
        own = [schema["$ref"]] if "$ref" in schema else []
        return own + [found for inner in schema.values() for found in find_references(inner)]
    return []


def test_literals_optionals_and_field_constraints_are_told() -> None:
    @function_tool
    def book(
        kind: Literal["a", "b"], note: str | None, seats: Annotated[int, Field(gt=0, description="How many.")]
    ) -> str:
        return kind

    assert book.parameters["properties"] == {
        "kind": {"enum": ["a", "b"], "type": "string"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "seats": {"description": "How many.", "exclusiveMinimum": 0, "type": "integer"},
    }
    assert book.parameters["required"] == ["kind", "note", "seats"]


def test_parameters_may_have_names_that_pydantic_uses_itself() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        @function_tool
        def odd(schema: str, copy: int, _x: bool, model_config: str = "m") -> str:
            return f"{schema}{copy}{_x}{model_config}"

    assert list(odd.parameters["properties"]) == ["schema", "copy", "_x", "model_config"]
    assert odd.validate({"schema": "s", "copy": 1, "_x": True}) == {"schema": "s", "copy": 1, "_x": True}


def test_a_default_that_json_can_not_hold_is_applied_but_not_told() -> None:
    nothing = object()

    with warnings.catch_warnings():
        warnings.simplefilter("error")

        @function_tool
        def search(text: str, after: Any = nothing) -> str:
            return text

    assert search.parameters["properties"]["after"] == {}
    assert search.parameters["required"] == ["text"]


# --- what is refused at definition --------------------------------------------------------------


def no_annotation(order_id):
    return order_id


def any_names(**names: str) -> str:
    return ""


def any_values(*values: str) -> str:
    return ""


def no_such_name(value: "ToolContext | object | threading.Lock") -> str:  # type: ignore[name-defined]  # noqa: F821
    return ""


def no_json(value: Lock) -> str:
    return ""


def a_generator(text: str):
    yield text


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (no_annotation, "order_id"),
        (any_names, "names"),
        (any_values, "values"),
        (no_such_name, "threading"),
        (no_json, "Lock"),
        (a_generator, "generator"),
    ],
)
def test_a_function_that_no_model_could_call_is_refused_and_named(function: Any, named: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        function_tool(function)

    assert repr(function.__name__) in raised.value.message
    assert named in raised.value.message


def test_an_unknown_effect_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="tool 'ping' has the effect 'rea'"):

        @function_tool(effect="rea")  # type: ignore[call-overload]
        def ping() -> str:
            return "pong"


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
