"""The pump of a WebSocket subscription: one at a time reads the session behind its viewer's place and sends in order.

Whoever commits wakes it, and so does progress, a viewer's ping and a new subscription. A pump that dies leaves its
place taken until its lease ends; the next one goes on from the last place that was kept. What our own protocol then
sends again is recognised by its numbers; AI SDK's frames are numbered by what was sent, so such a connection is closed
and its client reads the answer anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from perdure.access import Authorize, check_access
from perdure.aws.clients import in_thread
from perdure.aws.subscriptions import Subscription, Subscriptions
from perdure.checks import Caller
from perdure.core.cursor import Cursor
from perdure.core.expected import awaited_steps
from perdure.core.head import Head
from perdure.errors import NotFoundError, PerdureError, RequestError, StoreUnavailableError, TransientError
from perdure.feed import Feed, Follower
from perdure.operator_events import tell
from perdure.ports import NewId, Ports, SessionKey
from perdure.reading import Reader
from perdure.streams.delivery import Attachment, Delivery
from perdure.streams.kinds import restored
from perdure.streams.parts import frame_texts

logger = logging.getLogger("perdure")

JsonObject = dict[str, Any]

PUMP_TIME = timedelta(seconds=10)
"""How long one pump sends at most, because a function waits for it (ours). A viewer that is slower than what it is
sent gets the rest with the next change, or with its next ping."""

ANSWER_TIME = timedelta(seconds=20)
"""The same for an answer to AI SDK's client, which never pings; less than the `socket` function has (ours)."""

FEED_EVENTS = 200
"""Events that a pump reads at a time (ours)."""

POST_ATTEMPTS = 4
"""Posts of one frame while API Gateway answers 429."""

FIRST_POST_DELAY_SECONDS = 0.1
"""Wait after the first 429; doubles with each (ours)."""

LOOK_AGAIN_SECONDS = 0.02
"""Rest before a session is read again that was seen as it was before the commit which woke the pump."""

TAKES = 3
"""Times that a pump tries to take a place that becomes free at that moment, or of which no answer came; and to leave
one to which somebody comes at that moment."""


class _GoneError(Exception):
    """The connection is closed."""


class _UnsentError(Exception):
    """A frame could not be sent.

    Attributes:
        may_have_come: Nobody knows whether it came all the same.
    """

    def __init__(self, *, may_have_come: bool = False) -> None:
        super().__init__()
        self.may_have_come = may_have_come


class Pump:
    """Sends to the viewers of a deployment.

    Args:
        connections: Gives the client of the connections' management API.
        authorize: Returns who else than its owner may see a session; asked with every look.
    """

    def __init__(
        self,
        ports: Ports,
        subscriptions: Subscriptions,
        connections: Callable[[], Any],
        authorize: Callable[[], Authorize | None],
        new_id: NewId,
    ) -> None:
        self._ports = ports
        self._reader = Reader(self._ports)
        self._follower = Follower(self._ports, self._reader)
        self._subscriptions = subscriptions
        self._connections = connections
        self._authorize = authorize
        self._new_id = new_id

    async def deliver(self, subscription: Subscription, version: int = 0) -> None:
        """Send a viewer what it has not been sent. Never raises.

        Args:
            version: The session is at least this far; a read that shows less is not believed.
        """
        owner = self._new_id()
        try:
            taken = await self._take(subscription, owner)
            if taken is not None:
                await self._send_all(taken, owner, version)
        except _GoneError:
            await self._forget(subscription)
        except TransientError as error:
            logger.warning("a viewer could not be told", extra={"error": error.code})
            if subscription.kind != Attachment.kind:  # its viewer never pings, and would wait for ever
                await self.close(subscription.connection_id)
        except Exception as error:  # noqa: BLE001 - the edge: it is told, and this connection alone ends
            tell("fault", "a delivery failed", error=error, session_id=subscription.key.session_id)
            await self.close(subscription.connection_id)

    async def close(self, connection_id: str) -> None:
        """End a connection. Its client comes back, or not."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            await in_thread(self._connections().delete_connection, ConnectionId=connection_id)
        except (BotoCoreError, ClientError) as error:
            logger.info("a connection was closed already", extra={"error": type(error).__name__})

    async def post(self, connection_id: str, frame: JsonObject) -> None:
        """Send one frame, in parts if it is large. Nobody sends it again: a connection that does not take it ends."""
        try:
            await self._post(connection_id, frame)
        except _UnsentError:
            await self.close(connection_id)
        except _GoneError:
            return

    async def _take(self, subscription: Subscription, owner: str) -> Subscription | None:
        """Take the pump's place, or leave the work to whoever has it."""
        for tried in range(1, TAKES + 1):
            try:
                taken = await self._subscriptions.take(subscription, owner)
                if taken is not None or not await self._subscriptions.wake(subscription):
                    return taken  # if somebody else is at it, they look again before they end
            except StoreUnavailableError:
                if tried == TAKES:
                    raise
        return None

    async def _send_all(self, taken: Subscription, owner: str, version: int) -> None:
        delivery = restored(taken.kind, taken.key.session_id, taken.state)
        if taken.unclean and not delivery.may_repeat:
            await self._break_off(taken)
            return
        ends_at = self._ports.clock.now() + (PUMP_TIME if delivery.may_repeat else ANSWER_TIME)
        while True:
            state: JsonObject | None = delivery.state()
            try:
                frames, more = await self._frames(taken, delivery, version)
                for frame in frames:
                    await self._post(taken.connection_id, frame)
                    state = delivery.state_behind(frame)
                    if state is not None and frame is not frames[-1] and self._ports.clock.now() >= ends_at:
                        raise _UnsentError
            except RequestError as error:
                await self._deny(taken, delivery, error)
                return
            except (_UnsentError, PerdureError) as error:
                unsure = isinstance(error, _UnsentError) and error.may_have_come  # its number may be taken
                await self._give_up(taken, owner, delivery, None if unsure and not delivery.may_repeat else state)
                return
            if delivery.ended:
                await self._subscriptions.remove(taken.key, taken.connection_id, taken.name)
                return
            late = self._ports.clock.now() >= ends_at
            if more and not late:
                continue
            if late:
                await self._give_up(taken, owner, delivery, delivery.state(), has_all=not more)
                return
            wakes = await self._subscriptions.release(taken, owner, delivery.state())
            if wakes is None:
                return
            taken = replace(taken, wakes=wakes)
            version = (await self._ports.store.load(taken.key)).head.version

    async def _goes_on(self, key: SessionKey) -> bool:
        """Whether steps run, so that there will be another change. Who does not ping waits for that only."""
        try:
            return bool(awaited_steps((await self._ports.store.load(key)).head))
        except PerdureError:
            return False

    async def _give_up(
        self, taken: Subscription, owner: str, delivery: Delivery, state: JsonObject | None, *, has_all: bool = False
    ) -> None:
        """Leave a viewer where it stands, for the next pump. One that never pings needs a change that is still to come.

        Args:
            state: Where that is. None: it can't be told.
            has_all: It has been sent all that there was.
        """
        pings, looks = delivery.may_repeat, 0
        while state is not None and looks < TAKES and (pings or has_all or await self._goes_on(taken.key)):
            wakes = await self._subscriptions.release(taken, owner, state, though_woken=pings)
            if wakes is None:
                return
            taken, has_all = replace(taken, wakes=wakes), False  # what woke it may have been the last change
            looks += 1
        await self._break_off(taken)

    async def _frames(self, taken: Subscription, delivery: Delivery, version: int) -> tuple[list[JsonObject], bool]:
        """Return the frames of what follows, and whether there may be more by now.

        Raises:
            NotFoundError: The viewer may see the session no more.
        """
        if taken.ends_at <= self._ports.clock.now():
            raise NotFoundError("the token of this connection has ended: connect again", code="unauthorized")
        if frames := delivery.opened():
            return frames, True
        if delivery.cursor is None:
            return delivery.take_snapshot(await self._snapshot(taken)), True
        feed = await self._read(taken, delivery, version)
        self._check(taken, feed.head)
        return delivery.take(feed), not feed.whole

    async def _read(self, taken: Subscription, delivery: Delivery, version: int) -> Feed:
        assert delivery.cursor is not None
        after = Cursor.decode(delivery.cursor, taken.key.session_id)
        while True:
            feed = await self._follower.feed(taken.key, after=after, limit=FEED_EVENTS, messages=delivery.messages)
            if feed.head.version >= version:
                return feed
            await self._ports.clock.sleep(LOOK_AGAIN_SECONDS)

    async def _snapshot(self, taken: Subscription) -> JsonObject:
        head = (await self._ports.store.load(taken.key)).head
        self._check(taken, head)
        return await self._reader.snapshot(taken.key, head if head.exists else None)

    def _check(self, taken: Subscription, head: Head) -> None:
        holder = taken.holder
        caller = Caller(tenant=holder.tenant, actor=holder.actor, until=holder.until)
        check_access(self._authorize(), caller, taken.key, head, "read")

    async def _deny(self, taken: Subscription, delivery: Delivery, error: RequestError) -> None:
        """Say why nothing more comes. With its token a connection ends as a whole."""
        await self._subscriptions.remove(taken.key, taken.connection_id, taken.name)
        for frame in delivery.refused(error.code, error.message):
            await self.post(taken.connection_id, frame)
        if error.code == "unauthorized":
            await self.close(taken.connection_id)

    async def _break_off(self, taken: Subscription) -> None:
        await self.close(taken.connection_id)
        await self._subscriptions.remove(taken.key, taken.connection_id, taken.name)

    async def _forget(self, subscription: Subscription) -> None:
        try:
            await self._subscriptions.forget(subscription)
        except PerdureError as error:
            logger.warning("a subscription of a gone viewer was left behind", extra={"error": error.code})

    async def _post(self, connection_id: str, frame: JsonObject) -> None:
        for text in frame_texts(frame):
            await self._post_text(connection_id, text.encode("ascii"))

    async def _post_text(self, connection_id: str, data: bytes) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        from perdure.aws.errors import GONE, code_of, status_of

        post = self._connections().post_to_connection
        for attempt in range(POST_ATTEMPTS):
            if attempt:
                await self._ports.clock.sleep(FIRST_POST_DELAY_SECONDS * 2 ** (attempt - 1))
            try:
                await in_thread(post, ConnectionId=connection_id, Data=data)
            except (BotoCoreError, ClientError) as error:
                if code_of(error) in GONE or status_of(error) == 410:
                    raise _GoneError from None
                if status_of(error) != 429:
                    logger.warning("a frame could not be sent", extra={"error": type(error).__name__})
                    raise _UnsentError(may_have_come=not 400 <= status_of(error) < 500) from error
            else:
                return
        logger.warning("a viewer could not be told of a change: too many requests")
        raise _UnsentError
