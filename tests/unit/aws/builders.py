"""What the tests of the AWS adapters share: a fixed time, small heads and decisions, faults between us and AWS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ReadTimeoutError, ResponseStreamingError

from perdure.aws.store import DynamoDBSessionStore
from perdure.core.decision import Decision
from perdure.core.entries import Actor, Entry, Message, Receipt
from perdure.core.head import Head
from perdure.ports import Loaded, SessionKey

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
OWNER = Actor(issuer="https://issuer.example", subject="ann")
KEY = SessionKey(tenant="acme", session_id="s-1")


def a_head(version: int = 1, **fields: Any) -> Head:
    return replace(Head(version=version, agent="support", owner=OWNER, last_activity_at=NOON), **fields)


def a_decision(
    loaded: Loaded, commit_id: str, text: str = "hello", *, receipts: tuple[Receipt, ...] = (), **fields: Any
) -> Decision:
    """Return a decision that adds one message to a session."""
    version = loaded.head.version + 1
    head = replace(loaded.head, version=version, agent="support", owner=OWNER, last_activity_at=NOON)
    head = replace(head, **fields)
    message = Message(
        message_id=f"message-{version}-0",
        sequence=version,
        turn_id="turn-1",
        role="user",
        parts=({"type": "text", "text": text},),
    )
    entry = Entry(
        version=version, commit_id=commit_id, at=NOON, kind="send_input", messages=(message,), receipts=receipts
    )
    return Decision(head, entry, {})


async def committed(store: DynamoDBSessionStore, commit_id: str, text: str = "hello", **more: Any) -> Decision:
    """Load, and commit one message."""
    loaded = await store.load(KEY)
    decision = a_decision(loaded, commit_id, text, **more)
    await store.commit(KEY, loaded, decision)
    return decision


def texts(entries: tuple[Entry, ...]) -> list[str]:
    return [part["text"] for entry in entries for message in entry.messages for part in message.parts]


class LostAnswers:
    """Answers of one operation get lost, after it took effect.

    Args:
        silently: The SDK repeats the call by itself; otherwise the caller sees a timeout.
        times: How many answers.
    """

    def __init__(self, client: Any, operation: str, *, silently: bool, times: int = 1) -> None:
        self.calls = 0
        self._left = times
        self._silently = silently
        service = client.meta.service_model.service_id.hyphenize()
        if silently:
            client.meta.events.register_first(f"needs-retry.{service}.{operation}", self._repeat)
        else:
            client.meta.events.register(f"after-call.{service}.{operation}", self._lose)

    def _repeat(self, **_: Any) -> float | None:
        self.calls += 1
        if not self._left:
            return None
        self._left -= 1
        return 0.0

    def _lose(self, **_: Any) -> None:
        self.calls += 1
        if self._left:
            self._left -= 1
            raise ReadTimeoutError(endpoint_url="https://dynamodb.example")


class CutBodies:
    """Bodies of S3's answers break off, after the answer had come."""

    def __init__(self, client: Any, *, times: int) -> None:
        self.calls = 0
        self._left = times
        client.meta.events.register("after-call.s3.GetObject", self._cut)

    def _cut(self, parsed: dict[str, Any], **_: Any) -> None:
        self.calls += 1
        if self._left:
            self._left -= 1
            parsed["Body"] = self

    def read(self) -> bytes:
        raise ResponseStreamingError(error="the connection broke")


def calls_of(client: Any, operation: str, seen: Callable[[dict[str, Any]], object]) -> None:
    """Have every request of an operation looked at before it goes out."""
    service = client.meta.service_model.service_id.hyphenize()

    def look(params: dict[str, Any], **_: Any) -> None:
        seen(params)

    client.meta.events.register(f"provide-client-params.{service}.{operation}", look)


class SteppingClock:
    """A clock that moves only when somebody sleeps or moves it."""

    def __init__(self, now: datetime = NOON) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self.advance(timedelta(seconds=seconds))

    def advance(self, by: timedelta) -> None:
        self._now += by
