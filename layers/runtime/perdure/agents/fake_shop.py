"""A small shop for the example agent. Its books are one file that shows every real call, so a double refund is seen.

The orders are fixed; what happens to them is appended to the books, one JSON object a line, and on disk before the
call returns. Nothing here protects from repetition except the key of an address change: that is the runtime's job.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

JsonObject = dict[str, Any]

BOOKS_VARIABLE = "PERDURE_SHOP_FILE"
DEFAULT_BOOKS = Path(".perdure") / "shop.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One order. `amount` and `refunded` are euros."""

    order_id: str
    items: tuple[str, ...]
    amount: float
    address: str
    status: str
    refunded: float = 0.0


def _seed(order_id: int, item: str, amount: float, address: str, status: str) -> Order:
    return Order(order_id=str(order_id), items=(item,), amount=amount, address=address, status=status)


_ORDERS = {
    order.order_id: order
    for order in (
        _seed(1, "espresso cups", 24.5, "1 Harbour Road, Bristol", "delivered"),
        _seed(2, "desk lamp", 79.0, "22 Mill Lane, Leeds", "delivered"),
        _seed(3, "wool blanket", 64.9, "3 Station Square, York", "on its way"),
        _seed(4, "bread knife", 39.0, "40 Canal Street, Manchester", "in preparation"),
        _seed(5, "bird feeder", 18.75, "5 Orchard Close, Exeter", "delivered"),
        _seed(6, "record player", 189.0, "16 Abbey Terrace, Bath", "on its way"),
        _seed(7, "walking boots", 129.9, "7 Castle Hill, Lincoln", "delivered"),
        _seed(8, "tea towels", 15.0, "81 Park Avenue, Cardiff", "in preparation"),
        _seed(9, "garden hose", 34.2, "9 Fountain Court, Derby", "on its way"),
        _seed(10, "picture frame", 27.0, "10 Quay Side, Newcastle", "delivered"),
    )
}


class UnknownOrderError(LookupError):
    """The shop has no such order."""


def find_order(order_id: str) -> Order:
    """Return an order as the books have it now.

    Raises:
        UnknownOrderError: There is none with this id.
    """
    order = _ORDERS.get(order_id.strip().removeprefix("#"))
    if order is None:
        raise UnknownOrderError(f"there is no order {order_id!r}: known orders are 1 to {len(_ORDERS)}")
    entries = [entry for entry in read_books() if entry["order_id"] == order.order_id]
    addresses = [entry["address"] for entry in _first_of_each_key(entries) if entry["kind"] == "address"]
    refunded = sum(entry["amount"] for entry in entries if entry["kind"] == "refund")
    return replace(order, address=addresses[-1] if addresses else order.address, refunded=round(refunded, 2))


def change_address(order_id: str, address: str, *, idempotency_key: str) -> Order:
    """Send an order elsewhere. A key that the books have already changes nothing, though the call is noted.

    Raises:
        UnknownOrderError: There is no such order. Nothing was noted.
    """
    order = find_order(order_id)
    _append({"kind": "address", "order_id": order.order_id, "address": address, "key": idempotency_key})
    return find_order(order.order_id)


def refund(order_id: str, amount: float, *, idempotency_key: str) -> Order:
    """Pay money back: every call pays again, whatever its key, like a payment service without idempotency.

    Raises:
        UnknownOrderError: There is no such order. Nothing was paid.
        ValueError: The amount is not above zero, or above the order's. Nothing was paid.
    """
    order = find_order(order_id)
    if not 0 < amount <= order.amount:
        raise ValueError(f"order {order.order_id} cost {order.amount:.2f} euros: refund more than zero, up to that")
    _append({"kind": "refund", "order_id": order.order_id, "amount": amount, "key": idempotency_key})
    return find_order(order.order_id)


def count_refunds(order_id: str | None = None) -> int:
    """Return how often money was really paid back: for one order, or for all."""
    return sum(entry["kind"] == "refund" and order_id in (None, entry["order_id"]) for entry in read_books())


def count_address_changes(order_id: str | None = None) -> int:
    """Return how often an address really changed, repeated keys not counted: for one order, or for all."""
    entries = _first_of_each_key(read_books())
    return sum(entry["kind"] == "address" and order_id in (None, entry["order_id"]) for entry in entries)


def read_books() -> list[JsonObject]:
    """Return every call that changed something or tried to, oldest first: `{kind, order_id, key, …}`."""
    try:
        text = books_file().read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.split("\n") if line]


def books_file() -> Path:
    """Return where the books are: `PERDURE_SHOP_FILE`, or `.perdure/shop.jsonl` in the working directory."""
    return Path(os.environ.get(BOOKS_VARIABLE) or DEFAULT_BOOKS)


def _first_of_each_key(entries: list[JsonObject]) -> list[JsonObject]:
    """Leave out repeated calls. The first line of a key counts, so two processes need no lock."""
    first: dict[tuple[str, str], JsonObject] = {}
    for entry in entries:
        first.setdefault((entry["kind"], entry["key"]), entry)
    return list(first.values())


def _append(entry: JsonObject) -> None:
    path = books_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    # One write to a file opened for appending: lines of several processes don't mix.
    books = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(books, (json.dumps(entry) + "\n").encode())
        os.fsync(books)
    finally:
        os.close(books)
