"""Steps and timers on SQS standard queues: one queue per function, ids only, delays of up to 15 minutes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from perdure.aws import keys
from perdure.aws.clients import in_thread
from perdure.aws.limits import MAX_DELAY
from perdure.aws.messages import QueueMessage, StepQueueMessage
from perdure.core.expected import Dispatch
from perdure.errors import ConfigurationError
from perdure.ports import Clock, SessionKey


class Sender:
    """Sends one message to one queue."""

    def __init__(self, sqs: Any, clock: Clock) -> None:
        self._sqs = sqs
        self._clock = clock

    async def send(self, queue_url: str, message: QueueMessage, *, tenant: str, not_before: datetime | None) -> None:
        """Send a message that is to be received not before a time, as far as the longest delay reaches.

        Raises:
            StoreUnavailableError: No answer came; the message may have been sent.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        from perdure.aws.errors import translated

        try:
            await in_thread(
                self._sqs.send_message,
                QueueUrl=queue_url,
                MessageBody=message.body(),
                MessageGroupId=group_id(tenant),
                DelaySeconds=delay_seconds(not_before, self._clock.now()),
            )
        except (BotoCoreError, ClientError) as error:
            raise translated(error, f"send to {queue_url}") from error


class SqsStepQueue:
    """`StepQueue` on one queue per kind of step.

    A step that is not ready for longer than 15 minutes arrives early, and whoever receives it sends it again.

    Args:
        queue_urls: By kind of step.
    """

    def __init__(self, sqs: Any, queue_urls: Mapping[str, str], clock: Clock) -> None:
        self._sender = Sender(sqs, clock)
        self._queue_urls = dict(queue_urls)

    async def send(self, key: SessionKey, dispatch: Dispatch) -> None:
        """Have a step's attempt run, not before `dispatch.not_before`."""
        queue_url = self._queue_urls.get(dispatch.kind)
        if queue_url is None:
            raise ConfigurationError(f"there is no queue for steps of kind {dispatch.kind!r}")
        message = StepQueueMessage.of(key, dispatch)
        await self._sender.send(queue_url, message, tenant=key.tenant, not_before=dispatch.not_before)


def delay_seconds(not_before: datetime | None, now: datetime) -> int:
    """Return the delay of a message, in whole seconds from 0 to 900, rounded up so that it never comes early."""
    if not_before is None or not_before <= now:
        return 0
    longest = int(MAX_DELAY.total_seconds())
    return min(math.ceil((not_before - now).total_seconds()), longest)


def group_id(tenant: str) -> str:
    """Return the tenant's group for fair queues: a hash, because group ids allow few characters."""
    return keys.sha256(tenant)
