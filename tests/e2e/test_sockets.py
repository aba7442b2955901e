"""The deployed WebSocket API: it says that a session changed, and the viewer reads by cursor over HTTP."""

from __future__ import annotations

import pytest
from websockets.exceptions import InvalidStatus

from perdure.session import Session
from perdure.testing.processes import poll_until
from tests.e2e.outside import SLOWLY
from tests.e2e.people import Socket, ended
from tests.e2e.world import World

OF_ONE_MODEL_STEP = ["model_started", "usage_recorded", "model_finished"]
OF_ONE_TOOL_STEP = ["tool_call_deferred", "tool_call_started", "tool_call_finished"]
DURABLE_OF_T1 = ["turn_started", *OF_ONE_MODEL_STEP, *OF_ONE_TOOL_STEP, *OF_ONE_MODEL_STEP, "turn_completed"]


class Viewer:
    """Reads a session whenever it hears that it changed, and goes on from its cursor."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._cursor: str | None = None
        self.events: list[dict] = []

    async def read(self) -> None:
        while True:
            page = await self._session.event_page(after=self._cursor)
            self._cursor = page["cursor"]
            if not page["events"]:
                return
            self.events += page["events"]

    async def watch(self, socket: Socket, until: str) -> None:
        """Follow the session until an event of this type was read."""
        await self.read()
        while not any(event["type"] == until for event in self.events):
            await socket.change()
            await self.read()

    @property
    def durable(self) -> list[dict]:
        return [event for event in self.events if "sequence" in event]


async def test_a_viewer_hears_of_every_change_and_reads_events_in_their_order(world: World) -> None:
    user = world.user()
    async with user.session("watched") as session, user.socket() as socket:
        await session.send("hello")
        await ended(session)
        await socket.subscribe("watched")
        viewer = Viewer(session)
        await viewer.read()
        seen = len(viewer.events)

        await session.send('call lookup_order {"order_id": "7"}')
        changes = [await socket.change()]
        while not any(event["type"] == "turn_completed" for event in viewer.events[seen:]):
            await viewer.read()
            changes.append(await socket.change())
        await viewer.read()

    assert [event["sequence"] for event in viewer.durable] == list(range(1, len(viewer.durable) + 1))
    assert {change["session_id"] for change in changes} == {"watched"}
    assert any("version" in change for change in changes)
    types = [event["type"] for event in viewer.events[seen:] if "sequence" in event]
    assert types == DURABLE_OF_T1


async def test_a_viewer_whose_connection_drops_goes_on_where_it_was(world: World) -> None:
    user = world.user()
    async with user.session("dropped") as session:
        viewer = Viewer(session)
        async with user.socket() as socket:
            await session.send(SLOWLY)
            await socket.subscribe("dropped")
            await viewer.watch(socket, "text_delta")
            socket.connection.transport.abort()
        before = len(viewer.events)
        async with user.socket() as socket:
            await socket.subscribe("dropped")
            await viewer.watch(socket, "turn_completed")
        whole = Viewer(session)
        await whole.read()

    assert before < len(viewer.events)
    assert [event["sequence"] for event in viewer.durable] == list(range(1, len(viewer.durable) + 1))
    assert viewer.durable == whole.durable
    text = "".join(event["payload"]["text"] for event in viewer.events if event["type"] == "text_delta")
    assert "piece 00" in text
    assert text.count("piece 01") == 1, "progress that was read is not read again"


async def test_a_connection_that_is_gone_is_forgotten(world: World) -> None:
    user = world.user()
    table, name = world.stack.client("dynamodb"), world.stack.outputs["SessionsTableName"]

    def subscriptions() -> int:
        rows = table.scan(
            TableName=name,
            FilterExpression="begins_with(sk, :sub)",
            ConsistentRead=True,
            ExpressionAttributeValues={":sub": {"S": "SUB#"}},
        )["Items"]
        return sum("leaving" in row["pk"]["S"] for row in rows)

    async with user.session("leaving") as session:
        await session.send("hello")
        async with user.socket() as socket:
            await socket.subscribe("leaving")
            assert subscriptions() == 1
            socket.connection.transport.abort()
        await session.send("hello again")
        await ended(session, turns=2)

    await poll_until(lambda: subscriptions() == 0, timeout_seconds=30, interval_seconds=0.2)


async def test_a_ticket_opens_one_connection_and_none_opens_none(world: World) -> None:
    user = world.user()
    ticket = await user.ticket()

    async with user.socket(ticket) as socket:
        assert await socket.ask(type="ping") == {"type": "pong"}
    for refused in (ticket, "never-issued"):
        with pytest.raises(InvalidStatus) as raised:
            async with user.socket(refused):
                pass
        assert raised.value.response.status_code in (401, 403)


async def test_frames_that_ask_for_what_is_not_theirs_are_answered_with_an_error(world: World) -> None:
    stranger = world.user(subject="bert")

    async with stranger.socket() as socket:
        refused = await socket.ask(type="subscribe", session_id="t1")
        unknown = await socket.ask(type="dance")

    assert (refused["type"], refused["code"]) == ("error", "session_not_found")
    assert (unknown["type"], unknown["code"]) == ("error", "invalid_request")
