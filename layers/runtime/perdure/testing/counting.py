"""What AWS would charge: calls, units and bytes, counted at the client by DynamoDB's own rules.

moto reports no consumed capacity, so sizes are added up here: 1 write unit per started KB of the larger of the item
before and after; a read unit per started 4 KB, half of it when eventually consistent; each index entry that appears,
goes or moves costs writes of its own; a failed condition costs as if it had held (developer guide, "Read and write
operations"). Only the expressions that `perdure.aws.table` writes are understood.
"""

from __future__ import annotations

import math
import re
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

Item = dict[str, Any]

INDEXES = {"by-owner": ("owner_key", "last_activity"), "by-due": ("due_bucket", "due_at")}
"""Keys of the table's indexes; both are keys only."""

_WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem"})
_SET = re.compile(r"#(\w+) = (:\w+)")
_NAME = re.compile(r"#(\w+)")
_CONTEXT = "perdure_counted"


@dataclass(slots=True)
class Usage:
    """What was used.

    Attributes:
        calls: By `service.Operation`, an SDK's silent repetitions not included.
        write_units: Of the table itself.
        write_units_of: The same, by kind of item: `HEAD`, `LOG`, `KEY`, `LEASE`, `PROG`, ….
        index_write_units: Of its indexes.
        read_units: Of table and indexes.
        bytes_sent: Of request bodies, repetitions included.
    """

    calls: Counter[str] = field(default_factory=Counter)
    write_units: int = 0
    write_units_of: Counter[str] = field(default_factory=Counter)
    index_write_units: int = 0
    read_units: float = 0.0
    bytes_sent: int = 0

    @property
    def all_write_units(self) -> int:
        return self.write_units + self.index_write_units


class AwsCounter:
    """Counts what goes through the clients that it is attached to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._usage = Usage()

    def attach(self, client: Any) -> None:
        """Count this client's calls from now on."""
        client.meta.events.register("provide-client-params.*", self._ask_for_the_old_item)
        client.meta.events.register("after-call.*", self._count)
        client.meta.events.register("before-send.*", self._count_bytes)

    def take(self) -> Usage:
        """Return what was used since the last time, and start anew."""
        with self._lock:
            usage, self._usage = self._usage, Usage()
        return usage

    def _ask_for_the_old_item(self, params: Item, model: Any, context: Item, **_: Any) -> Item:
        # Who looks at the answer of a write that held, the pump of a viewer, finds there what the write left alone.
        if model.name in _WRITES:
            params = {**params, "ReturnValues": "ALL_OLD"}
        context[_CONTEXT] = params
        return params

    def _count_bytes(self, request: Any, **_: Any) -> None:
        body = request.body or b""
        with self._lock:
            self._usage.bytes_sent += len(body.encode() if isinstance(body, str) else bytes(body))

    def _count(self, parsed: Item, model: Any, context: Item, **_: Any) -> None:
        service = model.service_model.service_name
        params = context.get(_CONTEXT, {})
        with self._lock:
            self._usage.calls[f"{service}.{model.name}"] += 1
            if service != "dynamodb":
                return
            if model.name in _WRITES:
                self._count_write(model.name, params, parsed)
            else:
                self._usage.read_units += _read_units(model.name, params, parsed)

    def _count_write(self, operation: str, params: Item, parsed: Item) -> None:
        failed = "Error" in parsed
        old = parsed.get("Item") if failed else parsed.get("Attributes")
        new = old if failed else _after(operation, params, old)
        sizes = [item_size(item) for item in (old, new) if item]
        units = max(math.ceil(max(sizes, default=1) / 1024), 1)
        self._usage.write_units += units
        self._usage.write_units_of[_kind_of(params)] += units
        if not failed:
            self._usage.index_write_units += sum(_index_writes(names, old, new) for names in INDEXES.values())


def item_size(item: Item) -> int:
    """Return an item's size in bytes: names and values, text in UTF-8, numbers at two digits a byte."""
    return sum(len(name) + _value_size(value) for name, value in item.items())


def _value_size(value: Item) -> int:
    if "S" in value:
        return len(value["S"].encode("utf-8", "surrogatepass"))
    if "N" in value:
        return math.ceil(len(value["N"]) / 2) + 1
    if "B" in value:
        return len(value["B"])
    return 1


def _kind_of(params: Item) -> str:
    sort_key: str = (params.get("Key") or params["Item"])["sk"]["S"]
    return sort_key.partition("#")[0]


def _after(operation: str, params: Item, old: Item | None) -> Item | None:
    if operation == "DeleteItem":
        return None
    if operation == "PutItem":
        return dict(params["Item"])
    setting, _, removing = params["UpdateExpression"].partition(" REMOVE ")
    new = {**(old or {}), **params["Key"]}
    for name, placeholder in _SET.findall(setting):
        new[name] = params["ExpressionAttributeValues"][placeholder]
    for name in _NAME.findall(removing):
        new.pop(name, None)
    return new


def _index_writes(names: tuple[str, ...], old: Item | None, new: Item | None) -> int:
    before, after = (_index_key(names, item) for item in (old, new))
    if before == after:
        return 0
    return (before is not None) + (after is not None)


def _index_key(names: tuple[str, ...], item: Item | None) -> tuple[Any, ...] | None:
    if item is None or any(name not in item for name in names):
        return None
    return tuple(str(item[name]) for name in names)


def _read_units(operation: str, params: Item, parsed: Item) -> float:
    if operation == "GetItem":
        return _units([parsed.get("Item") or {}], together=True, strong=params.get("ConsistentRead", False))
    if operation == "Query":
        return _units(parsed.get("Items", []), together=True, strong=params.get("ConsistentRead", False))
    if operation == "BatchGetItem":
        return sum(
            _units(
                parsed.get("Responses", {}).get(table, []), together=False, strong=asked.get("ConsistentRead", False)
            )
            for table, asked in params["RequestItems"].items()
        )
    return 0.0


def _units(items: list[Item], *, together: bool, strong: bool) -> float:
    sizes = [item_size(item) for item in items]
    pieces = [sum(sizes)] if together else sizes
    whole = sum(max(math.ceil(size / 4096), 1) for size in pieces)
    return whole if strong else whole / 2
