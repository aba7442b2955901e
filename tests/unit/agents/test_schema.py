"""`function_tool`: what the model is told, and which functions it refuses."""

import dataclasses
import json
import warnings
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from perdure import ToolContext, function_tool
from perdure.errors import ConfigurationError


class Lock:
    """Nothing that pydantic knows."""


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
