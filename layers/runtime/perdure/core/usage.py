"""Token and cost figures with provenance: what a provider reported, what was added up, what is not known.

A figure that a provider left out stays unknown; it is never taken for zero (spec USE-02, CLIENT-11).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

TOKEN_FIGURES = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallUsage:
    """What one provider call used, as its provider reported it.

    Attributes:
        input_tokens: All input tokens, cached ones included. None: not reported.
        output_tokens: All output tokens, reasoning included. None: not reported.
        cached_input_tokens: The part of the input that was read from a cache. None: not reported.
        reasoning_tokens: The part of the output that was reasoning. None: not reported.
        cost: Decimal text in `currency`, only when the provider reported a price. Never estimated.
        currency: ISO 4217 code; never converted.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: str | None = None
    currency: str | None = None


NO_USAGE = CallUsage()
"""A call whose provider reported nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTotals:
    """Sums over provider calls. A sum that lacks a call is a floor, and `missing` names its figure (spec USE-04).

    `cost` is None once any call lacked its cost or came in another currency, and never recovers.
    """

    model_calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    missing: tuple[str, ...] = ()
    cost: str | None = None
    currency: str | None = None

    @staticmethod
    def compact(data: JsonObject) -> None:
        """Write the counts as one list: totals are in every entry of a model step (see `codec.encode`)."""
        counts = [data.pop("model_calls", 0), *(data.pop(name, None) for name in TOKEN_FIGURES)]
        while counts[-1] is None:
            counts.pop()
        if counts != [0]:
            data["counts"] = counts

    @staticmethod
    def expand(data: JsonObject) -> None:
        """Put back what `compact` made short."""
        data.update(zip(("model_calls", *TOKEN_FIGURES), data.pop("counts", ()), strict=False))

    def plus(self, calls: Iterable[CallUsage]) -> UsageTotals:
        """Return the totals with more calls added."""
        totals = self
        for call in calls:
            totals = _added(totals, call)
        return totals


NO_TOTALS = UsageTotals()
"""Nothing used so far."""


def _added(totals: UsageTotals, call: CallUsage) -> UsageTotals:
    sums: dict[str, int | None] = {}
    missing = list(totals.missing)
    for name in TOKEN_FIGURES:
        so_far, reported = getattr(totals, name), getattr(call, name)
        if reported is None and name not in missing:
            missing.append(name)
        sums[name] = so_far if reported is None else (so_far or 0) + reported
    first = totals.model_calls == 0
    price = _price(call.cost)
    fits = price is not None and (first or (totals.cost is not None and call.currency == totals.currency))
    cost = format(Decimal(totals.cost or "0") + price, "f") if fits and price is not None else None
    return UsageTotals(
        model_calls=totals.model_calls + 1,
        missing=tuple(missing),
        cost=cost,
        currency=call.currency if fits else None,
        **sums,
    )


def _price(text: str | None) -> Decimal | None:
    """Return a reported cost, or None for one that is missing or no finite number: usage never fails a step."""
    try:
        price = Decimal(text) if text is not None else None
    except InvalidOperation:
        return None
    return price if price is not None and price.is_finite() else None


def call_figures(usage: CallUsage) -> JsonObject:
    """Return one call's figures in public form: `{name: {value?, provenance}}`."""
    figures = {name: _figure(getattr(usage, name), "reported") for name in TOKEN_FIGURES}
    if usage.cost is not None:
        figures["cost"] = {"value": usage.cost, "currency": usage.currency, "provenance": "reported"}
    return figures


def total_figures(totals: UsageTotals) -> JsonObject:
    """Return totals in public form; a floor says `partial: true`, and `model_calls` is a plain number."""
    figures: JsonObject = {}
    for name in TOKEN_FIGURES:
        figure = _figure(getattr(totals, name), "computed")
        if name in totals.missing and "value" in figure:
            figure["partial"] = True
        figures[name] = figure
    if totals.cost is not None:
        figures["cost"] = {"value": totals.cost, "currency": totals.currency, "provenance": "computed"}
    figures["model_calls"] = totals.model_calls
    return figures


def _figure(value: int | None, provenance: str) -> JsonObject:
    return {"provenance": "unavailable"} if value is None else {"value": value, "provenance": provenance}


def whole_number(value: object) -> int | None:
    """Return a reported token count, or None for anything that isn't a whole number of zero or more."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value) if value >= 0 else None
