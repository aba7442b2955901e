"""A function's parameters as JSON Schema, and raw JSON arguments checked and converted by them.

Imports pydantic, so only what defines or runs a tool imports this module.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from perdure.errors import ConfigurationError

JsonObject = dict[str, Any]

MAX_REASON_CHARACTERS = 300
"""Length of a reason that the model is shown, in characters. Our own choice: room for three problems."""

_MAX_PROBLEMS = 3
_SCHEMA_MAPS = ("properties", "$defs", "patternProperties", "dependentSchemas")
_SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMAS = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a function takes from a model.

    Attributes:
        schema: JSON Schema of the arguments: an object that allows nothing else, without titles.
        context_parameter: The parameter that receives the running call's context, if there is one.
    """

    schema: JsonObject
    context_parameter: str | None
    _model: type[BaseModel]
    _fields: Mapping[str, str]

    def convert(self, raw: JsonObject) -> dict[str, Any]:
        """Return the keyword arguments as the annotations say: models as models, dates as dates, defaults filled in.

        JSON types count: `"7"` and `true` are no numbers, `1` is no boolean. An integer is a float, and a text
        that the annotation reads (a date, a UUID, an enum's value) is taken.

        Raises:
            ValueError: The arguments don't fit. Names field and reason and repeats no value of the arguments.
        """
        try:
            text = json.dumps(raw, allow_nan=False)
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError("the arguments are no JSON object") from error
        try:
            model = self._model.model_validate_json(text, strict=True)
        except ValidationError as error:
            raise ValueError(_reason(error)) from error
        return {name: getattr(model, field) for name, field in self._fields.items()}


def parameters_of(
    function: Callable[..., Any], tool_name: str, context_class: type, names_in_scope: Mapping[str, Any]
) -> Parameters:
    """Read a function's signature.

    Args:
        context_class: A parameter annotated with it gets the context and is no part of the schema.
        names_in_scope: Local names where the function was defined, for annotations that are strings.

    Raises:
        ConfigurationError: A parameter that no JSON object could fill; the message names tool and parameter.
    """
    hints = _hints(function, tool_name, names_in_scope)
    context_parameter: str | None = None
    fields: dict[str, str] = {}
    definitions: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        annotation = hints.get(name, inspect.Parameter.empty)
        if _is_context(annotation, context_class):
            context_parameter = name
            continue
        _check(tool_name, parameter, annotation)
        # Own field names, with the parameter as alias: `schema`, `copy` and `_x` would clash with pydantic's.
        fields[name] = f"p{len(fields)}"
        required = parameter.default is inspect.Parameter.empty
        definitions[fields[name]] = (
            Annotated[annotation, Field(alias=name)],
            ... if required else parameter.default,
        )
    try:
        model = create_model("Arguments", __config__=ConfigDict(extra="forbid"), **definitions)
        schema = _clean(model.model_json_schema(schema_generator=_QuietSchema))
    except (PydanticUserError, TypeError) as error:
        raise ConfigurationError(f"tool {tool_name!r} has a parameter with no JSON Schema: {error}") from error
    return Parameters(schema | {"properties": schema.get("properties", {})}, context_parameter, model, fields)


class _QuietSchema(GenerateJsonSchema):
    """Leaves out a default that JSON can't hold, without a warning: the function still applies it."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's own shape


def _hints(function: Callable[..., Any], tool_name: str, names_in_scope: Mapping[str, Any]) -> dict[str, Any]:
    target = function
    while hasattr(target, "func"):  # functools.partial
        target = target.func
    if not inspect.isroutine(target):
        target = type(target).__call__
    try:
        return typing.get_type_hints(target, localns=dict(names_in_scope), include_extras=True)
    except NameError as error:
        raise ConfigurationError(
            f"an annotation of tool {tool_name!r} can't be read: {error}; import the name at run time, too"
        ) from error


def _is_context(annotation: Any, context_class: type) -> bool:
    return annotation is context_class or context_class in typing.get_args(annotation)


def _check(tool_name: str, parameter: inspect.Parameter, annotation: Any) -> None:
    if parameter.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
        raise ConfigurationError(
            f"tool {tool_name!r} takes {str(parameter)!r}: a model fills named parameters only, so name them"
        )
    if annotation is inspect.Parameter.empty:
        raise ConfigurationError(
            f"parameter {parameter.name!r} of tool {tool_name!r} has no annotation: a model needs to know its type"
        )


def _clean(schema: Any) -> Any:
    """Return a schema without titles. A property, default or example that is called `title` stays."""
    if not isinstance(schema, dict):
        return schema
    cleaned: JsonObject = {}
    for key, value in schema.items():
        if key == "title":
            continue
        if key in _SCHEMA_MAPS and isinstance(value, dict):
            value = {name: _clean(inner) for name, inner in value.items()}
        elif key in _SCHEMA_LISTS and isinstance(value, list):
            value = [_clean(inner) for inner in value]
        elif key in _SCHEMAS:
            value = _clean(value)
        cleaned[key] = value
    return cleaned


def _reason(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    told = [_problem(problem["type"], problem["loc"], problem["msg"]) for problem in problems[:_MAX_PROBLEMS]]
    if len(problems) > _MAX_PROBLEMS:
        told.append(f"and {len(problems) - _MAX_PROBLEMS} more")
    text = "; ".join(told)
    return text if len(text) <= MAX_REASON_CHARACTERS else f"{text[: MAX_REASON_CHARACTERS - 1]}…"


def _problem(kind: str, location: tuple[int | str, ...], message: str) -> str:
    where = ".".join(str(part) for part in location)[:100]
    what = {
        "missing": "is required",
        "extra_forbidden": "is no parameter of this tool",
        "union_tag_invalid": "names none of the possible variants",  # pydantic's own text repeats the value
    }.get(kind, message.removeprefix("Value error, "))
    return f"{where}: {what}" if where else what
