"""Reads requests strictly: media type, size, JSON, fields and query parameters. Everything wrong is named."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError

from perdure.errors import InvalidRequestError, TooLargeError, UnsupportedMediaTypeError

MAX_BODY_BYTES = 1024 * 1024
"""Largest request body, in bytes (surface §4.1)."""

MAX_DEPTH = 64
"""Deepest nesting of a body's JSON. Our own choice: far above any sensible metadata, far below any stack."""

MAX_WAIT_SECONDS = 20
"""Longest wait of the events route, in seconds (surface §4.1); API Gateway gives up after 30."""

NOT_BUILT = frozenset({"plan_mode"})
"""Fields of the surface that this version does not know yet."""

_MEDIA_TYPE = re.compile(r"application/json\s*(?:;\s*charset\s*=\s*\"?utf-8\"?\s*)?;?\s*", re.IGNORECASE)
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}(?:\.[0-9]{0,18})?")

ModelT = TypeVar("ModelT", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryParam:
    """One query parameter.

    `cursor` is opaque text, `integer` a whole number, `seconds` 0 to `MAX_WAIT_SECONDS`, `text` a text that the service
    checks, `choice` one of `choices`.
    """

    name: str
    kind: Literal["cursor", "integer", "seconds", "text", "choice"]
    doc: str
    choices: tuple[str, ...] = ()


def require_json(headers: Mapping[str, str]) -> None:
    """Refuse any body but plain JSON, so that no web page can post a form at us.

    Raises:
        UnsupportedMediaTypeError: The content type is not `application/json` in UTF-8, or the body is compressed.
    """
    content_type = headers.get("content-type", "")
    if not _MEDIA_TYPE.fullmatch(content_type.strip()):
        raise UnsupportedMediaTypeError(
            f"the content type is {content_type[:100]!r}: send JSON in UTF-8 with `content-type: application/json`"
        )
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise UnsupportedMediaTypeError("a compressed body is not read: send it without `content-encoding`")


def read_body(body: bytes, model: type[ModelT]) -> ModelT:
    """Read a JSON object into a strict model. An empty body is an empty object.

    Raises:
        TooLargeError: The body is larger than `MAX_BODY_BYTES`.
        InvalidRequestError: It is no JSON object, or one with other fields or types than the model's;
            `invalid_text` when it holds a lone surrogate.
    """
    if len(body) > MAX_BODY_BYTES:
        raise TooLargeError(f"the request body is larger than {MAX_BODY_BYTES} bytes: send less")
    value = _parse(body) if body else {}
    _check_values(value)
    if not isinstance(value, dict):
        raise InvalidRequestError("the request body must be a JSON object")
    try:
        return model.model_validate(value, strict=True)
    except ValidationError as error:
        raise InvalidRequestError(_describe(error)) from None


def read_query(query: str, params: Sequence[QueryParam]) -> dict[str, Any]:
    """Read the query parameters of a route; absent ones are left out.

    Raises:
        InvalidRequestError: A parameter is unknown, repeated or malformed; `invalid_cursor` for an empty cursor.
    """
    known = {param.name: param for param in params}
    values: dict[str, Any] = {}
    for name, text in parse_qsl(query, keep_blank_values=True, errors="replace"):
        if name not in known:
            raise InvalidRequestError(f"unknown query parameter {_shown(name)}")
        if name in values:
            raise InvalidRequestError(f"query parameter {_shown(name)} is given twice")
        values[name] = _read_param(known[name], text)
    return values


def _read_param(param: QueryParam, text: str) -> Any:
    if param.kind == "integer":
        if not _INTEGER.fullmatch(text):
            raise InvalidRequestError(f"`{param.name}` must be a whole number")
        return int(text)
    if param.kind == "seconds":
        if not _NUMBER.fullmatch(text) or not 0 <= float(text) <= MAX_WAIT_SECONDS:
            raise InvalidRequestError(f"`{param.name}` must be a number from 0 to {MAX_WAIT_SECONDS}")
        return float(text)
    if param.kind == "text":
        return text
    if param.kind == "choice":
        if text not in param.choices:
            raise InvalidRequestError(f"`{param.name}` must be one of {', '.join(param.choices)}")
        return text
    if not text:
        raise InvalidRequestError(f"`{param.name}` is empty: leave it out to start without it", code="invalid_cursor")
    return text


def _parse(body: bytes) -> Any:
    try:
        # Surrogates pass here and are refused below, with the code that says so.
        text = body.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise InvalidRequestError("the request body is not UTF-8") from None
    try:
        return json.loads(
            text, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_whole
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise InvalidRequestError(f"the request body is not valid JSON: {error.msg} at {where}") from None
    except RecursionError:
        raise InvalidRequestError(_TOO_DEEP) from None


_TOO_DEEP = f"the request body is nested deeper than {MAX_DEPTH} levels"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidRequestError(f"the request body has the field {_shown(twice)} twice")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidRequestError(f"the request body is not valid JSON: {name} is no JSON value")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise InvalidRequestError("the request body has a number that is too large to keep")
    return number


def _whole(text: str) -> int:
    # Python refuses to read very long integers, and other readers of this JSON lose digits much earlier.
    if len(text) > 400:
        raise InvalidRequestError("the request body has a number that is too large to keep")
    return int(text)


def _check_values(value: Any) -> None:
    """Refuse lone surrogates and deep nesting, without recursion."""
    open_values: list[tuple[Any, int]] = [(value, 1)]
    while open_values:
        item, depth = open_values.pop()
        if isinstance(item, str):
            _check_text(item)
        elif isinstance(item, (dict, list)):
            if depth > MAX_DEPTH:
                raise InvalidRequestError(_TOO_DEEP)
            open_values += [(child, depth + 1) for child in _children(item)]


def _children(item: dict[str, Any] | list[Any]) -> Iterator[Any]:
    if isinstance(item, dict):
        yield from item
        yield from item.values()
    else:
        yield from item


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequestError(
            "the request body holds a lone surrogate, which is no character: send whole Unicode characters",
            code="invalid_text",
        ) from None


def _describe(error: ValidationError) -> str:
    """Return what is wrong with a body, field by field; never the values, which may be large or secret."""
    problems = []
    for detail in error.errors(include_url=False, include_input=False, include_context=False)[:3]:
        field = _shown(".".join(str(part) for part in detail["loc"]))
        if detail["type"] == "extra_forbidden":
            problems.append(
                f"{field} is not supported yet" if detail["loc"][-1] in NOT_BUILT else f"unknown field {field}"
            )
        elif detail["type"] == "missing":
            problems.append(f"{field} is missing")
        elif not detail["loc"]:
            problems.append(detail["msg"].removeprefix("Value error, "))
        elif detail["type"] in ("dict_type", "model_type"):  # pydantic names them as Python does
            problems.append(f"{field} has to be a JSON object, {{…}}, not another value")
        else:
            problems.append(f"{field}: {detail['msg'][0].lower()}{detail['msg'][1:]}")
    return "; ".join(problems)


def _shown(name: str) -> str:
    return f"`{name if len(name) <= 60 else name[:60] + '…'}`"
