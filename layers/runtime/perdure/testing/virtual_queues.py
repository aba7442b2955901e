"""SQS and EventBridge Scheduler in virtual time.

moto keeps the messages and schedules, so every request is checked and stored as usual, but it counts delays in real
time and never fires a schedule. So delays are taken off on the way in, and this module decides when a message is
visible, when it is received again, when it becomes a dead letter and when a schedule fires.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from perdure.aws.clients import Clients
from perdure.testing.virtual_time import LoopClock

_AT = re.compile(r"at\((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)")
LONGEST_DELAY_SECONDS = 900


@dataclass(frozen=True, kw_only=True)
class Queue:
    """One queue and who consumes it. Times as in `template.yaml`; a test of the template keeps them equal.

    Attributes:
        function: Folder of the function that consumes it.
        dead_letters: Name of the queue for messages that were received too often; None: it is such a queue itself.
    """

    name: str
    url: str
    arn: str
    function: str
    visibility: timedelta
    max_receives: int | None = None
    dead_letters: str | None = None


@dataclass(kw_only=True)
class Message:
    """One message. It is visible from `visible_at` on; `receipt` deletes it in moto."""

    queue: str
    message_id: str
    body: str
    receipt: str
    attributes: dict[str, str]
    visible_at: datetime
    receives: int = 0
    order: int


class VirtualQueues:
    """All queues of a deployment.

    Attributes:
        messages: What was sent and not deleted, in the order of sending.
        gives_up: Names of queues of whose every message a copy becomes a dead letter at once, as if it had been
            received too often; the message itself is delivered as usual.
    """

    def __init__(self, clients: Clients, clock: LoopClock, queues: Sequence[Queue]) -> None:
        self._sqs = clients.sqs
        self._clock = clock
        self.queues = {queue.name: queue for queue in queues}
        self._urls = {queue.url: queue.name for queue in queues}
        self._arrivals: dict[str, tuple[int, datetime]] = {}
        self._filled: set[str] = set()
        self._sent = 0
        self.messages: list[Message] = []
        self.gives_up: Collection[str] = ()
        events = self._sqs.meta.events
        events.register("provide-client-params.sqs.SendMessage", self._take_delay)
        events.register("after-call.sqs.SendMessage", self._keep_delay)

    def _take_delay(self, params: dict[str, Any], context: dict[str, Any], **_: Any) -> dict[str, Any]:
        delay = params.get("DelaySeconds", 0)
        assert 0 <= delay <= LONGEST_DELAY_SECONDS, f"SQS takes a delay of 0 to 900 s, not {delay}"
        context["delay_of_message"] = delay
        context["queue_of_message"] = params["QueueUrl"]
        return {name: value for name, value in params.items() if name != "DelaySeconds"}

    def _keep_delay(self, parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        if "MessageId" in parsed:
            delay = timedelta(seconds=context.get("delay_of_message", 0))
            self._sent += 1
            self._arrivals[parsed["MessageId"]] = (self._sent, self._clock.now() + delay)
            self._filled.add(self._urls[context["queue_of_message"]])

    def delay(self, message_id: str, by: timedelta) -> None:
        """Let a message that was sent just now be visible later than its sender asked."""
        order, visible_at = self._arrivals[message_id]
        self._arrivals[message_id] = (order, visible_at + by)

    def collect(self) -> None:
        """Take over what was sent since the last look."""
        while self._filled:
            queue = self.queues[self._filled.pop()]
            while found := self._receive(queue):
                for record in found:
                    order, visible_at = self._arrivals.pop(record["MessageId"], self._unheard_of())
                    self.messages.append(
                        Message(
                            queue=queue.name,
                            message_id=record["MessageId"],
                            body=record["Body"],
                            receipt=record["ReceiptHandle"],
                            attributes=record.get("Attributes", {}),
                            visible_at=visible_at,
                            order=order,
                        )
                    )
                    if queue.name in self.gives_up:
                        self._send_dead_letter(queue, record["Body"])

    def _unheard_of(self) -> tuple[int, datetime]:
        """Return order and time of a message whose answer never came: the SDK sent it again."""
        self._sent += 1
        return self._sent, self._clock.now()

    def _receive(self, queue: Queue) -> list[dict[str, Any]]:
        answer = self._sqs.receive_message(
            QueueUrl=queue.url,
            MaxNumberOfMessages=10,
            WaitTimeSeconds=0,
            VisibilityTimeout=43_200,  # from now on this class says when it is visible
            MessageSystemAttributeNames=["All"],
        )
        found: list[dict[str, Any]] = answer.get("Messages", [])
        return found

    def next_message(self) -> Message | None:
        """Return the message that is visible first; of several at once the one that was sent first."""
        return min(self.messages, key=lambda message: (message.visible_at, message.order), default=None)

    def receive(self, message: Message) -> bool:
        """Count a receive and hide the message. False: it was one too many, and it is a dead letter now."""
        queue = self.queues[message.queue]
        if queue.dead_letters is not None and queue.max_receives is not None and message.receives >= queue.max_receives:
            self.delete(message)
            self._send_dead_letter(queue, message.body)
            self.collect()
            return False
        message.receives += 1
        message.visible_at = self._clock.now() + queue.visibility
        return True

    def _send_dead_letter(self, queue: Queue, body: str) -> None:
        assert queue.dead_letters is not None, f"{queue.name} has no queue of dead letters"
        self._sqs.send_message(QueueUrl=self.queues[queue.dead_letters].url, MessageBody=body)

    def delete(self, message: Message) -> None:
        self.messages.remove(message)
        self._sqs.delete_message(QueueUrl=self.queues[message.queue].url, ReceiptHandle=message.receipt)

    def event(self, message: Message) -> dict[str, Any]:
        """Return the event that Lambda makes of a message, as a batch of one."""
        sent = str(int(message.visible_at.timestamp() * 1000))
        return {
            "Records": [
                {
                    "messageId": message.message_id,
                    "receiptHandle": message.receipt,
                    "body": message.body,
                    "attributes": {
                        "SentTimestamp": sent,
                        **message.attributes,
                        "ApproximateReceiveCount": str(message.receives),
                    },
                    "messageAttributes": {},
                    "eventSource": "aws:sqs",
                    "eventSourceARN": self.queues[message.queue].arn,
                    "awsRegion": "us-east-1",
                }
            ]
        }


class VirtualSchedules:
    """One-shot schedules of one group: moto keeps them, this class fires them.

    Args:
        lateness: How long after its time a schedule fires; Scheduler promises the minute, not the second.
    """

    def __init__(self, clients: Clients, group: str, *, lateness: timedelta = timedelta(seconds=59)) -> None:
        self._clients = clients
        self._group = group
        self.lateness = lateness
        self._pending: list[tuple[datetime, str]] | None = None
        for operation in ("CreateSchedule", "UpdateSchedule", "DeleteSchedule"):
            clients.scheduler.meta.events.register(f"before-call.scheduler.{operation}", self._look_again)

    def pending(self) -> list[tuple[datetime, str]]:
        """Return when each schedule fires, and its name, the first one first."""
        if self._pending is None:
            listed = self._clients.scheduler.list_schedules(GroupName=self._group)["Schedules"]
            self._pending = sorted((self._fires_at(schedule["Name"]), schedule["Name"]) for schedule in listed)
        return self._pending

    def _look_again(self, **_: Any) -> None:
        self._pending = None

    def _fires_at(self, name: str) -> datetime:
        schedule = self._clients.scheduler.get_schedule(GroupName=self._group, Name=name)
        match = _AT.fullmatch(schedule["ScheduleExpression"])
        assert match, f"no one-shot schedule: {schedule['ScheduleExpression']}"
        assert schedule["ScheduleExpressionTimezone"] == "UTC"
        return datetime.fromisoformat(match.group(1)).replace(tzinfo=UTC) + self.lateness

    def fire(self, name: str, queues: VirtualQueues) -> None:
        """Send a schedule's message and delete the schedule, as `ActionAfterCompletion` asks."""
        schedule = self._clients.scheduler.get_schedule(GroupName=self._group, Name=name)
        target = schedule["Target"]
        url = next(queue.url for queue in queues.queues.values() if queue.arn == target["Arn"])
        json.loads(target["Input"])
        self._clients.sqs.send_message(QueueUrl=url, MessageBody=target["Input"])
        assert schedule["ActionAfterCompletion"] == "DELETE"
        self._clients.scheduler.delete_schedule(GroupName=self._group, Name=name)
        queues.collect()
