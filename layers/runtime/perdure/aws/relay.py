"""From the table's stream to the notices queue: one message for each session of a batch that changed, and each sink.

The stream tells of every commit, whoever made it and however it ended, so that none has to be told of by its maker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from perdure.aws import keys
from perdure.aws.bootstrap import Runtime
from perdure.aws.handlers import Handler
from perdure.aws.messages import NoticeMessage
from perdure.aws.notices import check_deployed
from perdure.sinks import EventSink

JsonObject = dict[str, Any]


def relay_handler(runtime: Callable[[], Runtime]) -> Handler:
    """Return the handler of the table's stream. When it raises, the same batch comes again, and nothing passes it."""

    def handler(event: JsonObject, _context: Any) -> JsonObject:
        container = runtime()
        check_deployed(container.sinks)  # here, where a mistake is an error of the function that an alarm tells of

        async def send_all() -> int:
            messages = notices_of(event["Records"], container.sinks)
            await asyncio.gather(*map(container.send_notice, messages))
            return len(messages)

        return {"messages": container.run(send_all())}

    return handler


def notices_of(records: Iterable[JsonObject], sinks: Sequence[EventSink]) -> list[NoticeMessage]:
    """Return what to send for a batch of stream records, with the time of each session's first change among them."""
    changed: dict[str, int] = {}
    for record in records:
        change = record["dynamodb"]
        partition, sort = (change["Keys"][name]["S"] for name in ("pk", "sk"))
        if sort == keys.HEAD and record["eventName"] != "REMOVE":
            changed.setdefault(partition, int(change["ApproximateCreationDateTime"] * 1000))
    sessions = [(keys.session_key(partition), at) for partition, at in changed.items()]
    return [
        NoticeMessage(tenant=key.tenant, session_id=key.session_id, sink=sink.name, told_at_ms=at)
        for key, at in sessions
        for sink in sinks
    ]
