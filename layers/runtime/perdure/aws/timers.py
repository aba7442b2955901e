"""Timers: SQS delays up to 15 minutes, EventBridge one-shot schedules beyond.

A schedule fires 15 minutes early (its lead), with its own imprecision of a minute, and the message that it sends waits
for the rest in the queue; so a wait of a year ends on the second.

A timer is due when the clock of the function that handles its message says so. A clock that is ahead by some seconds
ends a wait early by them, one that is behind ends it late; whatever clocks say, it ends once, because its commit needs
the fence. A schedule that fires up to 15 minutes late is on time all the same, one that never fires is the sweep's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from perdure.aws import keys
from perdure.aws.clients import in_thread
from perdure.aws.limits import MIN_SCHEDULE_AHEAD, SCHEDULE_LEAD
from perdure.aws.messages import TimerMessage
from perdure.aws.queues import Sender
from perdure.core.expected import Timer
from perdure.errors import ConfigurationError, PermanentError, StoreUnavailableError
from perdure.ports import Clock, SessionKey

logger = logging.getLogger("perdure")

_NAME_CHARACTERS = 60

_SLACK = timedelta(seconds=120)
"""A schedule may fire a minute late and clocks differ; a needless delete of a fired one costs nothing."""


class SchedulerTimers:
    """`Timers` on EventBridge Scheduler and the timers queue.

    Args:
        scheduler: Gives the Scheduler client when a long timer comes.
        role_arn: The role by which Scheduler sends to the queue.
        lead: How much before its time a timer's schedule fires; at most the longest delay of a message.
    """

    def __init__(
        self,
        scheduler: Callable[[], Any],
        sqs: Any,
        clock: Clock,
        *,
        queue_url: str,
        queue_arn: str,
        group: str,
        role_arn: str,
        lead: timedelta = SCHEDULE_LEAD,
    ) -> None:
        self._scheduler = scheduler
        self._sender = Sender(sqs, clock)
        self._clock = clock
        self._queue_url = queue_url
        self._queue_arn = queue_arn
        self._group = group
        self._role_arn = role_arn
        self._lead = lead

    async def set(self, key: SessionKey, timer: Timer) -> None:
        """Set a timer; setting the same one again changes nothing, or sends one more message that does nothing.

        When no schedule can be made now (no answer, throttled, no room for more, no permission), a message is sent in
        its place. It comes after 15 minutes, and whoever receives it sets the timer again.

        Raises:
            StoreUnavailableError: Neither was possible; the sweep fires the timer a minute after it was due.
            ConfigurationError: There is no timers queue, or the role may not send to it.
        """
        if not self.needs_schedule(timer):
            await self._send(key, timer)
            return
        try:
            await self._create_schedule(key, timer)
        except (StoreUnavailableError, PermanentError) as error:
            logger.log(
                logging.ERROR if isinstance(error, ConfigurationError) else logging.WARNING,
                "a schedule could not be made; a message stands in for it",
                extra={"session_id": key.session_id, "timer_id": timer.timer_id, "reason": error.message},
            )
            await self._send(key, timer)

    async def cancel(self, key: SessionKey, timer: Timer) -> None:
        """Remove a timer's schedule if it is still there. A message already in the queue does nothing on arrival."""
        if timer.due_at - self._clock.now() <= self._lead - _SLACK:
            return  # its schedule has fired, or there never was one
        await self._call(
            "delete_schedule",
            fine=("MISSING", "ALREADY_THERE"),  # the last: somebody else is at it, and what stays does nothing
            Name=schedule_name(key, timer),
            GroupName=self._group,
        )

    def needs_schedule(self, timer: Timer) -> bool:
        """Whether a timer is further away than a message can be delayed."""
        return self._fires_at(timer) >= self._clock.now() + MIN_SCHEDULE_AHEAD

    def _fires_at(self, timer: Timer) -> datetime:
        return _rounded_up(timer.due_at - self._lead)

    async def _send(self, key: SessionKey, timer: Timer) -> None:
        message = TimerMessage.of(key, timer)
        await self._sender.send(self._queue_url, message, tenant=key.tenant, not_before=timer.due_at)

    async def _create_schedule(self, key: SessionKey, timer: Timer) -> None:
        await self._call(
            "create_schedule",
            fine=("ALREADY_THERE",),
            Name=schedule_name(key, timer),
            GroupName=self._group,
            ScheduleExpression=f"at({self._fires_at(timer).astimezone(UTC):%Y-%m-%dT%H:%M:%S})",
            ScheduleExpressionTimezone="UTC",
            FlexibleTimeWindow={"Mode": "OFF"},
            ActionAfterCompletion="DELETE",
            Target={
                "Arn": self._queue_arn,
                "RoleArn": self._role_arn,
                "Input": TimerMessage.of(key, timer).body(),
            },
        )

    async def _call(self, method: str, *, fine: tuple[str, ...], **parameters: Any) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        from perdure.aws import errors

        try:
            await in_thread(getattr(self._scheduler(), method), **parameters)
        except (BotoCoreError, ClientError) as error:
            if not any(errors.code_of(error) in getattr(errors, name) for name in fine):
                raise errors.translated(error, f"{method} {parameters['Name']}") from error


def schedule_name(key: SessionKey, timer: Timer) -> str:
    """Return the one name of a timer's schedule. Another fence is another schedule (races.md X12)."""
    parts = f"{keys.partition_key(key)}\n{timer.timer_id}\n{timer.fence}"
    return f"t-{keys.sha256(parts)[:_NAME_CHARACTERS]}"


def _rounded_up(moment: datetime) -> datetime:
    whole = moment.replace(microsecond=0)
    return whole if whole == moment else whole + timedelta(seconds=1)
