"""From the table's stream to the notices queue: one message for each session of a batch in which something changed.

The stream tells of every commit, whoever made it and however it ended, so that none has to be told of by its maker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from perdure.aws import keys
from perdure.aws.bootstrap import Runtime
from perdure.aws.handlers import Handler
from perdure.aws.messages import NoticeMessage

JsonObject = dict[str, Any]


def relay_handler(runtime: Callable[[], Runtime]) -> Handler:
    """Return the handler of the table's stream. When it raises, the same batch comes again, and nothing passes it."""

    def handler(event: JsonObject, _context: Any) -> JsonObject:
        container = runtime()

        async def send_all() -> int:
            messages = changed_sessions(event["Records"])
            await asyncio.gather(*map(container.send_notice, messages))
            return len(messages)

        return {"sessions": container.run(send_all())}

    return handler


def changed_sessions(records: Iterable[JsonObject]) -> list[NoticeMessage]:
    """Return what to send for a batch of stream records, with the time of each session's first change among them."""
    changed: dict[str, int] = {}
    for record in records:
        change = record["dynamodb"]
        partition, sort = (change["Keys"][name]["S"] for name in ("pk", "sk"))
        if sort == keys.HEAD and record["eventName"] != "REMOVE":
            changed.setdefault(partition, int(change["ApproximateCreationDateTime"] * 1000))
    return [
        NoticeMessage(tenant=key.tenant, session_id=key.session_id, committed_at_ms=at)
        for key, at in ((keys.session_key(partition), at) for partition, at in changed.items())
    ]
