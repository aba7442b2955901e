"""What watches in tests of the pump: connections that answer as they are told, and one session with its viewers."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

from perdure.access import Authorize
from perdure.aws.delivery import Pump
from perdure.aws.live import ApiGatewayLive
from perdure.aws.progress import ProgressLog
from perdure.aws.subscriptions import Subscription, Subscriptions
from perdure.aws.table import Table
from perdure.aws.tickets import TicketHolder
from perdure.core.cursor import Cursor
from perdure.core.entries import Event
from perdure.ports import Ports, SessionKey
from perdure.streams.delivery import Attachment
from perdure.testing.moto import AwsInProcess
from tests.contracts.dynamodb import a_store
from tests.unit.aws.builders import KEY, OWNER, SteppingClock, a_decision

START = Cursor().encode(KEY.session_id)
HOLDER = TicketHolder(tenant=KEY.tenant, actor=OWNER)


class Connections:
    """The connections' management API, with what moto lacks: connections that are gone, and too many requests.

    Args:
        answers: Statuses that a connection answers with, one after the other; then 200. 0: no answer comes.
    """

    def __init__(self, **answers: list[int]) -> None:
        self.frames: list[tuple[str, dict[str, Any]]] = []
        self.posts: Counter[str] = Counter()
        self.closed: list[str] = []
        self.largest = 0
        self.meanwhile: Any = lambda _connection_id: None
        self._answers = answers

    def post_to_connection(self, *, ConnectionId: str, Data: bytes) -> None:  # noqa: N803 - boto3's names
        self.posts[ConnectionId] += 1
        self.largest = max(self.largest, len(Data))
        left = self._answers.get(ConnectionId, [])
        status = left.pop(0) if left else 200
        if status == 0:
            raise ReadTimeoutError(endpoint_url="https://socket.example")
        if status != 200:
            code = {410: "GoneException", 429: "LimitExceededException"}.get(status, "InternalServerError")
            answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
            raise ClientError(answer, "PostToConnection")
        self.frames.append((ConnectionId, json.loads(Data)))
        self.meanwhile(ConnectionId)

    def delete_connection(self, *, ConnectionId: str) -> None:  # noqa: N803 - boto3's names
        self.closed.append(ConnectionId)

    def sequences(self, connection_id: str) -> list[int]:
        """Return the sequences of the events that a connection was sent."""
        frames = [frame for name, frame in self.frames if name == connection_id and frame["type"] == "events"]
        return [event["sequence"] for frame in frames for event in frame["events"]]


class World:
    """One session, its viewers and what sends to them."""

    def __init__(self, aws: AwsInProcess, table: Table, clock: SteppingClock, connections: Connections) -> None:
        self.aws = aws
        self.clock = clock
        self.connections = connections
        self.subscriptions = Subscriptions(table, clock)
        self.store = a_store(aws)
        self.authorize: Authorize | None = None
        self.pumps = 0
        self.live = ApiGatewayLive(self.store, ProgressLog(table, clock), self.subscriptions, lambda: self.pump, clock)
        nothing: Any = None
        ports = Ports(
            store=self.store,
            leases=nothing,
            queue=nothing,
            timers=nothing,
            live=self.live,
            clock=clock,
            new_id=self._new_id,
        )
        self.pump = Pump(ports, self.subscriptions, lambda: self.connections, lambda: self.authorize, self._new_id)

    def _new_id(self) -> str:
        self.pumps += 1
        return f"pump{self.pumps}"

    async def commit(self, *texts: str, tell: bool = True) -> int:
        """Commit an event with each of these texts, and send it to the viewers. Returns the version."""
        loaded = await self.store.load(KEY)
        decision = a_decision(loaded, f"commit-{loaded.head.version + 1}")
        before = loaded.head.event_sequence
        events = tuple(
            Event(type="message_queued", sequence=before + number, payload={"text": text})
            for number, text in enumerate(texts, start=1)
        )
        assert decision.entry is not None
        changed = a_decision(loaded, f"commit-{loaded.head.version + 1}", event_sequence=before + len(texts))
        decision = replace(changed, entry=replace(decision.entry, events=events))
        made = await self.store.commit(KEY, loaded, decision)
        if tell:
            await self.live.changed(KEY, made.head)
        return made.head.version

    async def watch(self, name: str, *, key: SessionKey = KEY, holder: TicketHolder = HOLDER) -> Subscription:
        state = Attachment(key.session_id, START).state()
        return await self.subscriptions.add(key, name, holder, state=state)

    async def watching(self) -> list[str]:
        return [one.connection_id for one in await self.subscriptions.of_session(KEY, strong=True)]
