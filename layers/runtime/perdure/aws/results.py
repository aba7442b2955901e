"""Outcomes on their way to a common commit: `RESULT#<turn>#<call>#<attempt>` beside the session, for 24 hours."""

from __future__ import annotations

import json
from collections.abc import Sequence

from perdure.aws import keys
from perdure.aws.items import to_json
from perdure.aws.limits import RESULT_TTL
from perdure.aws.table import Table, number, text
from perdure.core.codec import decode, encode, to_millis
from perdure.core.commands import ToolFinished
from perdure.ports import Clock, SessionKey


class DynamoDBResults:
    """`Results` in the table of sessions."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def put(self, key: SessionKey, result: ToolFinished) -> None:
        """See `Results.put`."""
        await self._table.put_once(
            {
                "pk": keys.partition_key(key),
                "sk": keys.result_key(result.turn_id, result.call_id, result.attempt),
                "result": to_json(encode(result)),
                "ttl": to_millis(self._clock.now() + RESULT_TTL) // 1000,
            }
        )

    async def of_turn(self, key: SessionKey, turn_id: str) -> Sequence[ToolFinished]:
        """See `Results.of_turn`. Expired ones count as absent; no turn waits that long for a call."""
        items = await self._table.query(
            "#pk = :pk AND begins_with(#sk, :prefix)",
            {"pk": keys.partition_key(key), "prefix": keys.result_key(turn_id)},
            strong=True,
        )
        now = to_millis(self._clock.now()) // 1000
        return [decode(ToolFinished, json.loads(text(item, "result"))) for item in items if number(item, "ttl") > now]
