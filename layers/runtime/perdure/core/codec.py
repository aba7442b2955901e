"""Dataclasses to JSON objects and back: fields at their default are left out, times are epoch milliseconds.

Leaving defaults out keeps HEAD small and lets a newer version read what an older one wrote.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_T = TypeVar("_T")


def to_millis(moment: datetime) -> int:
    """Return whole milliseconds since 1970-01-01T00:00Z."""
    return (moment - EPOCH) // _MILLISECOND


def from_millis(millis: int) -> datetime:
    """Return the moment that lies `millis` milliseconds after 1970-01-01T00:00Z."""
    return EPOCH + timedelta(milliseconds=millis)


def format_time(moment: datetime) -> str:
    """Return a moment as users see it: RFC 3339 in UTC with milliseconds."""
    in_utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return in_utc.isoformat("T", "milliseconds")[: -len("+00:00")] + "Z"


def encode(value: Any) -> dict[str, Any]:
    """Turn a dataclass into a JSON object, with the dataclasses, tuples and times inside it.

    What is a JSON object already stays as it is.
    """
    if isinstance(value, dict):
        return value
    data = {
        name: item if encoder is None else encoder(item)
        for name, default, encoder in _encoders(type(value))
        if (item := getattr(value, name)) is not default and item != default
    }
    if (compact := getattr(value, "compact", None)) is not None:
        compact(data)
    return data


def decode(cls: type[_T], data: dict[str, Any]) -> _T:
    """Build a dataclass from what `encode` made; keys that this version doesn't know are ignored.

    A class with `compact` and `expand` has its own short form of the object; `expand` may change `data`.
    """
    if (expand := getattr(cls, "expand", None)) is not None:
        expand(data)
    fields = {
        name: data[name] if decoder is None else decoder(data[name]) for name, decoder in _decoders(cls) if name in data
    }
    return cls(**fields)


_Convert = Callable[[Any], Any]
_EncodePlan = tuple[tuple[str, Any, _Convert | None], ...]
_DecodePlan = tuple[tuple[str, _Convert | None], ...]
_encode_plans: dict[type[Any], _EncodePlan] = {}
_decode_plans: dict[type[Any], _DecodePlan] = {}


def _encoders(cls: type[Any]) -> _EncodePlan:
    plan = _encode_plans.get(cls)
    if plan is None:
        hints = typing.get_type_hints(cls)
        plan = tuple(
            (field.name, _default(field), _converter(hints[field.name], to_millis, lambda _: encode))
            for field in dataclasses.fields(cls)
        )
        _encode_plans[cls] = plan
    return plan


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default  # MISSING equals nothing, so a required field is always written


def _decoders(cls: type[Any]) -> _DecodePlan:
    plan = _decode_plans.get(cls)
    if plan is None:
        hints = typing.get_type_hints(cls)
        plan = tuple(
            (field.name, _converter(hints[field.name], from_millis, _decoder_of)) for field in dataclasses.fields(cls)
        )
        _decode_plans[cls] = plan
    return plan


def _decoder_of(cls: type[Any]) -> _Convert:
    return lambda data: decode(cls, data)


def _converter(hint: Any, of_time: _Convert, of_dataclass: Callable[[type[Any]], _Convert]) -> _Convert | None:
    """Return what converts a field's value, or None when it is the same in both forms."""
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        options = [option for option in typing.get_args(hint) if option is not type(None)]
        inner = _converter(options[0], of_time, of_dataclass) if len(options) == 1 else None
        return inner and (lambda value: None if value is None else inner(value))
    if origin is tuple:
        each = _converter(typing.get_args(hint)[0], of_time, of_dataclass)
        container = tuple if of_time is from_millis else list
        return container if each is None else (lambda values: container(each(value) for value in values))
    if hint is datetime:
        return of_time
    return of_dataclass(typing.cast(type[Any], hint)) if dataclasses.is_dataclass(hint) else None
