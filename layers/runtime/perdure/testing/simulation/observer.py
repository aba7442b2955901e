"""Who looks at what is stored on AWS: by clients of its own, which no fault strikes and whose calls are no points."""

from __future__ import annotations

from functools import cache

from perdure.aws import keys
from perdure.aws.clients import Clients
from perdure.aws.items import record_of
from perdure.aws.store import DynamoDBSessionStore
from perdure.core.head import Head
from perdure.ports import SessionKey
from perdure.testing.moto import AwsInProcess
from perdure.testing.simulation.ending import Ending
from perdure.testing.simulation.inline import InlineLoop
from perdure.testing.simulation.invariants import ViolationError, check_books, check_calm, check_head, check_log
from perdure.testing.simulation.wire import shorten
from perdure.testing.simulation.world import World


class Observer:
    """Looks after one session. A violation that it saw in mid-run is raised at the end, when nobody can swallow it."""

    def __init__(self, aws: AwsInProcess, key: SessionKey) -> None:
        self._aws = aws
        self._key = key
        self._seen = Head()
        self._violation: ViolationError | None = None

    def head(self) -> Head:
        """Return HEAD as it is stored."""
        pk, sk = {"S": keys.partition_key(self._key)}, {"S": keys.HEAD}
        answer = _clients().dynamodb.get_item(TableName=self._aws.table, Key={"pk": pk, "sk": sk}, ConsistentRead=True)
        return record_of(answer.get("Item")).head

    def committed(self) -> None:
        """Check HEAD after a write of it that may have landed."""
        head = self.head()
        if head.version != self._seen.version:
            try:
                check_head(self._seen, head)
            except ViolationError as violation:
                self._violation = self._violation or violation
            self._seen = head

    def ending(self, world: World, *, calm: bool) -> tuple[Ending, Head]:
        """Check all that is stored, and return what it came to.

        Args:
            calm: No fault struck, so nothing may have been lost on the way.

        Raises:
            ViolationError: Something does not hold.
        """
        clients = _clients()
        # A store of its own: what is stored counts, and not what somebody remembers.
        store = DynamoDBSessionStore(clients.dynamodb, self._aws.table, s3=lambda: clients.s3, bucket=self._aws.bucket)
        loop = InlineLoop(world.clock)
        try:
            log = loop.run_until_complete(store.read(self._key))
        finally:
            loop.close()
        if self._violation is not None:
            raise self._violation
        check_log(log.head, log.entries)
        if calm:
            check_calm(log.entries)
        ending = Ending.of(log.head, log.entries)
        check_books(ending, world)
        return ending, log.head


@cache
def _clients() -> Clients:
    """They outlive an account: moto puts itself into every call."""
    from perdure.testing.moto import _session

    clients = Clients(session=_session())
    shorten(clients.dynamodb)
    return clients
