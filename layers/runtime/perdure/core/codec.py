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
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def encode(value: Any) -> Any:
    """Turn a dataclass (or a tuple, time or JSON value inside one) into JSON values."""
    if dataclasses.is_dataclass(value):
        plan = _encoders(type(value))
        return {
            name: encode(item)
            for name, default in plan
            if (item := getattr(value, name)) is not default and item != default
        }
    if isinstance(value, datetime):
        return to_millis(value)
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    return value


def decode(cls: type[_T], data: dict[str, Any]) -> _T:
    """Build a dataclass from what `encode` made; keys that this version doesn't know are ignored."""
    fields = {name: convert(data[name]) for name, convert in _decoders(cls) if name in data}
    return cls(**fields)


_EncodePlan = tuple[tuple[str, Any], ...]
_DecodePlan = tuple[tuple[str, Callable[[Any], Any]], ...]
_encode_plans: dict[type[Any], _EncodePlan] = {}
_decode_plans: dict[type[Any], _DecodePlan] = {}


def _encoders(cls: type[Any]) -> _EncodePlan:
    plan = _encode_plans.get(cls)
    if plan is None:
        plan = _encode_plans[cls] = tuple((field.name, _default(field)) for field in dataclasses.fields(cls))
    return plan


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default  # MISSING equals nothing, so a required field is always written


def _decoders(cls: type[Any]) -> _DecodePlan:
    plan = _decode_plans.get(cls)
    if plan is None:
        hints = typing.get_type_hints(cls)
        plan = tuple((field.name, _decoder(hints[field.name])) for field in dataclasses.fields(cls))
        _decode_plans[cls] = plan
    return plan


def _decoder(hint: Any) -> Callable[[Any], Any]:
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        inner = [_decoder(option) for option in typing.get_args(hint) if option is not type(None)]
        return lambda value: None if value is None else inner[0](value)
    if origin is tuple:
        item = _decoder(typing.get_args(hint)[0])
        return lambda value: tuple(item(element) for element in value)
    if hint is datetime:
        return from_millis
    if dataclasses.is_dataclass(hint):
        target = typing.cast(type[Any], hint)
        return lambda value: decode(target, value)
    return lambda value: value
