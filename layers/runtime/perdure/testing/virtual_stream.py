"""The stream of the sessions table in virtual time: moto keeps the records, this module makes batches of them.

As the event source mapping of `template.yaml` does: filtered, in order, a second after the first record of a batch, and
the same batch again for as long as it is not taken.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from perdure.aws.clients import Clients
from perdure.aws.keys import HEAD
from perdure.testing.virtual_time import LoopClock

JsonObject = dict[str, Any]

BATCH = 100
WINDOW = timedelta(seconds=1)
"""Records of one batch, and how long one is gathered; as in `template.yaml`, and a test keeps them equal."""

AGAIN = timedelta(seconds=1)
"""How soon a batch comes again that was not taken."""


class VirtualStream:
    """The stream of one table, from now on.

    Attributes:
        due_at: When the next batch is handed over. None: there is nothing.
    """

    def __init__(self, clients: Clients, table: str, clock: LoopClock) -> None:
        from moto.core.models import DEFAULT_ACCOUNT_ID
        from moto.dynamodb.models import dynamodb_backends

        specification: Any = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
        made = clients.dynamodb.update_table(TableName=table, StreamSpecification=specification)
        self._arn = made["TableDescription"]["LatestStreamArn"]
        # Its own list, because the way through the service's client is most of what a look would cost.
        region = clients.dynamodb.meta.region_name
        self._shard: Any = dynamodb_backends[DEFAULT_ACCOUNT_ID][region].tables[table].stream_shard
        self._seen = 0
        self._clock = clock
        self._records: list[JsonObject] = []
        self.due_at: datetime | None = None

    def collect(self) -> None:
        """Take over what was written since the last look."""
        came = [record.to_json() for record in self._shard.items[self._seen :]]
        self._seen += len(came)
        self._records += [self._handed(record) for record in came if _is_wanted(record)]
        if self._records and self.due_at is None:
            self.due_at = self._clock.now() + WINDOW

    def event(self) -> JsonObject:
        """Return the event that Lambda makes of the next batch."""
        return {"Records": self._records[:BATCH]}

    def answered(self, *, ok: bool) -> None:
        """Go on behind the batch, or stay with it."""
        if ok:
            del self._records[:BATCH]
        self.due_at = self._clock.now() + (WINDOW if ok else AGAIN) if self._records else None

    def _handed(self, record: JsonObject) -> JsonObject:
        """Return a record as Lambda hands it over: only keys, and the time in whole seconds."""
        change = record["dynamodb"]
        return {
            "eventID": record["eventID"],
            "eventName": record["eventName"],
            "eventVersion": "1.1",
            "eventSource": "aws:dynamodb",
            "awsRegion": "us-east-1",
            "dynamodb": {
                "ApproximateCreationDateTime": float(int(self._clock.now().timestamp())),
                "Keys": change["Keys"],
                "SequenceNumber": change["SequenceNumber"],
                "SizeBytes": change["SizeBytes"],
                "StreamViewType": "KEYS_ONLY",
            },
            "eventSourceARN": self._arn,
        }


def _is_wanted(record: JsonObject) -> bool:
    sort_key: str = record["dynamodb"]["Keys"]["sk"]["S"]
    return record["eventName"] != "REMOVE" and sort_key == HEAD
