"""One DynamoDB table: its calls in threads, its errors as ours, its items in the wire form `{"name": {"S": "text"}}`.

The wire form keeps floats, decimals and sets out by itself: we store text, whole numbers, booleans and bytes only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from perdure.aws.clients import in_thread
from perdure.aws.limits import MAX_BATCH_GET
from perdure.errors import StoreUnavailableError

Item = dict[str, Any]
Value = str | int | bool | bytes

_NAME = re.compile(r"#(\w+)")
_BATCH_ROUNDS = 5


class ConditionNotMetError(Exception):
    """A conditional write did not hold; `item` is what was there, None for nothing."""

    def __init__(self, item: Item | None) -> None:
        super().__init__("the condition of a write did not hold")
        self.item = item


def wire(value: Value) -> dict[str, Any]:
    """Return an attribute value in the wire form."""
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int):
        return {"N": str(value)}
    if isinstance(value, bytes):
        return {"B": value}
    return {"S": value}


def text(item: Item, name: str, default: str = "") -> str:
    return str(item[name]["S"]) if name in item else default


def number(item: Item, name: str, default: int = 0) -> int:
    return int(item[name]["N"]) if name in item else default


def flag(item: Item, name: str) -> bool:
    return bool(item[name]["BOOL"]) if name in item else False


class Table:
    """Calls of one table. Every method raises what `aws.errors.translated` returns."""

    def __init__(self, client: Any, name: str) -> None:
        self.client = client
        self.name = name

    async def get(self, pk: str, sk: str, *, strong: bool) -> Item | None:
        """Return one item, or None."""
        answer: dict[str, Item] = await self._call(
            "get_item", f"read {sk}", Key={"pk": wire(pk), "sk": wire(sk)}, ConsistentRead=strong
        )
        return answer.get("Item")

    async def batch_get(self, keys: Sequence[tuple[str, str]], *, strong: bool) -> list[Item]:
        """Return those of these items that exist, in no order. Any number of keys, no two the same."""
        items: list[Item] = []
        for start in range(0, len(keys), MAX_BATCH_GET):
            wanted: Any = {
                self.name: {
                    "Keys": [{"pk": wire(pk), "sk": wire(sk)} for pk, sk in keys[start : start + MAX_BATCH_GET]],
                    "ConsistentRead": strong,
                }
            }
            for _ in range(_BATCH_ROUNDS):
                answer = await self._call("batch_get_item", "read items", of_table=False, RequestItems=wanted)
                items += answer.get("Responses", {}).get(self.name, [])
                wanted = answer.get("UnprocessedKeys")
                if not wanted:
                    break
            else:
                raise StoreUnavailableError("the table left keys of a batch unread; the same call may be sent again")
        return items

    async def put(
        self, item: Mapping[str, Value], *, condition: str | None = None, values: Mapping[str, Value] | None = None
    ) -> None:
        """Write a whole item, if the condition holds.

        Raises:
            ConditionNotMetError: It does not; nothing was written.
        """
        parameters: dict[str, Any] = {"Item": {name: wire(value) for name, value in item.items()}}
        sk = item["sk"]
        assert isinstance(sk, str)
        await self._call("put_item", f"write {sk}", **parameters, **_conditional(condition, values))

    async def put_once(self, item: Mapping[str, Value]) -> bool:
        """Create an item. False: it was there already, and was left as it is."""
        try:
            await self.put(item, condition="attribute_not_exists(#sk)")
        except ConditionNotMetError:
            return False
        return True

    async def update(
        self,
        pk: str,
        sk: str,
        *,
        put: Mapping[str, Value],
        remove: Sequence[str] = (),
        add: Mapping[str, int] | None = None,
        condition: str,
        values: Mapping[str, Value] | None = None,
        returning: Literal["NONE", "ALL_OLD", "ALL_NEW"] = "NONE",
    ) -> Item:
        """Set, remove and count attributes of one item, if the condition holds.

        Returns:
            The item as it was or is, as `returning` says; else nothing.

        Raises:
            ConditionNotMetError: It does not; nothing was written.
        """
        expression = " ".join(_actions(put, remove, add or {}))
        parameters = _conditional(condition, {**put, **(add or {}), **(values or {})})
        parameters["ExpressionAttributeNames"] = _names(f"{expression} {condition}")
        if returning != "NONE":
            parameters["ReturnValues"] = returning
        answer: dict[str, Item] = await self._call(
            "update_item",
            f"write {sk}",
            Key={"pk": wire(pk), "sk": wire(sk)},
            UpdateExpression=expression,
            **parameters,
        )
        return answer.get("Attributes", {})

    async def delete(
        self, pk: str, sk: str, *, condition: str | None = None, values: Mapping[str, Value] | None = None
    ) -> None:
        """Delete an item, if the condition holds; one that is not there counts as deleted.

        Raises:
            ConditionNotMetError: It does not; nothing was deleted.
        """
        await self._call(
            "delete_item", f"delete {sk}", Key={"pk": wire(pk), "sk": wire(sk)}, **_conditional(condition, values)
        )

    async def query(
        self,
        condition: str,
        values: Mapping[str, Value],
        *,
        index: str | None = None,
        strong: bool = False,
        limit: int | None = None,
        newest: bool = False,
        after: Mapping[str, Value] | None = None,
    ) -> list[Item]:
        """Return all items that match, or the first `limit` of them, in the order of their sort keys.

        Args:
            newest: From the other end.
            after: Keys of the item to go on after.
        """
        parameters: dict[str, Any] = {
            "KeyConditionExpression": condition,
            "ExpressionAttributeNames": _names(condition),
            "ExpressionAttributeValues": {f":{name}": wire(value) for name, value in values.items()},
            "ScanIndexForward": not newest,
        }
        if index is None:
            parameters["ConsistentRead"] = strong
        else:
            parameters["IndexName"] = index
        if after is not None:
            parameters["ExclusiveStartKey"] = {name: wire(value) for name, value in after.items()}

        items: list[Item] = []
        while True:
            if limit is not None:
                parameters["Limit"] = limit - len(items)
            answer = await self._call("query", "read items", **parameters)
            items += answer.get("Items", [])
            last = answer.get("LastEvaluatedKey")
            if not last or (limit is not None and len(items) >= limit):
                return items
            parameters["ExclusiveStartKey"] = last

    async def _call(self, method: str, doing: str, *, of_table: bool = True, **parameters: Any) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        from perdure.aws.errors import CONDITION_FAILED, code_of, translated

        if of_table:
            parameters["TableName"] = self.name
        try:
            return await in_thread(getattr(self.client, method), **parameters)
        except (BotoCoreError, ClientError) as error:
            if code_of(error) in CONDITION_FAILED:
                raise ConditionNotMetError(getattr(error, "response", {}).get("Item")) from None
            raise translated(error, f"{doing} of table {self.name}") from error


def _actions(put: Mapping[str, Value], remove: Sequence[str], add: Mapping[str, int]) -> Iterator[str]:
    if put:
        yield "SET " + ", ".join(f"#{name} = :{name}" for name in put)
    if remove:
        yield "REMOVE " + ", ".join(f"#{name}" for name in remove)
    if add:
        yield "ADD " + ", ".join(f"#{name} :{name}" for name in add)


def _conditional(condition: str | None, values: Mapping[str, Value] | None) -> dict[str, Any]:
    if condition is None:
        return {}
    parameters: dict[str, Any] = {
        "ConditionExpression": condition,
        "ExpressionAttributeNames": _names(condition),
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    if values:  # the service refuses an empty map, moto takes it (field case F098)
        parameters["ExpressionAttributeValues"] = {f":{name}": wire(value) for name, value in values.items()}
    return parameters


def _names(expression: str) -> dict[str, str]:
    # Every name goes through a placeholder, so that no reserved word of DynamoDB can bite.
    return {f"#{name}": name for name in _NAME.findall(expression)}
