"""Real sessions for the contract suites: every head and entry comes out of `decide`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from perdure.core.commands import Command, ModelFinished, RequestedCall, SendInput, ToolFinished, ToolStarted
from perdure.core.decide import decide
from perdure.core.decision import Decision
from perdure.core.entries import Actor, Entry, ReceiptClaim
from perdure.core.head import Head
from perdure.core.ids import content_hash, key_hash
from perdure.ports import SessionKey, SessionStore

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
ANNA = Actor(issuer="https://issuer.example", subject="anna")
BERT = Actor(issuer="https://issuer.example", subject="bert")
A_SESSION = SessionKey("acme", "s-1")

_ids = count(1)


def a_commit_id() -> str:
    return f"commit{next(_ids):026d}"


def a_claim(key: str, content: Any = "content") -> ReceiptClaim:
    return ReceiptClaim(key_hash=key_hash(key), content_hash=content_hash(content))


def a_message(text: str = "Where is my order?", *, key: str | None = None, owner: Actor = ANNA) -> SendInput:
    return SendInput(
        text=text, actor=owner, default_agent="support", receipts=() if key is None else (a_claim(key, text),)
    )


def an_answer(head: Head, text: str = "It is on its way.", *, parts: Sequence[dict[str, Any]] = ()) -> ModelFinished:
    """The running model step answers."""
    assert head.turn is not None
    assert head.turn.step is not None
    return ModelFinished(
        turn_id=head.turn.turn_id,
        step_id=head.turn.step.step_id,
        attempt=head.turn.step.attempt,
        started_at=NOON,
        ending="answer",
        parts=({"type": "text", "text": text}, *parts),
    )


def a_request_for(head: Head, *tools: str, effect: str = "read") -> ModelFinished:
    """The running model step asks for tools."""
    assert head.turn is not None
    assert head.turn.step is not None
    calls = tuple(
        RequestedCall(
            tool_name=tool, effect=effect, requires_approval=False, provider_call_id=f"p{i}", arguments={"n": i}
        )
        for i, tool in enumerate(tools)
    )
    return replace(an_answer(head), ending="tool_calls", parts=(), calls=calls)


def a_start(head: Head, owner: str) -> ToolStarted:
    """A worker is about to run the first open call."""
    assert head.turn is not None
    call = head.turn.open_calls[0]
    return ToolStarted(call_id=call.call_id, attempt=call.attempt, owner=owner)


def a_result(head: Head, output: str = "sent on Monday") -> ToolFinished:
    """The first open call succeeds."""
    assert head.turn is not None
    call = head.turn.open_calls[0]
    return ToolFinished(
        turn_id=head.turn.turn_id,
        call_id=call.call_id,
        attempt=call.attempt,
        started_at=NOON,
        outcome="succeeded",
        output=output,
    )


def decided(head: Head, command: Command, *, now: datetime = NOON, commit_id: str | None = None) -> Decision:
    """Decide a command that changes something."""
    decision = decide(head, command, now=now, commit_id=commit_id or a_commit_id())
    assert decision.entry is not None
    return decision


def entry_of(decision: Decision) -> Entry:
    assert decision.entry is not None
    return decision.entry


async def commit(
    store: SessionStore, key: SessionKey, command: Command, *, now: datetime = NOON, commit_id: str | None = None
) -> Decision:
    """Load, decide and commit, with nobody else around."""
    loaded = await store.load(key)
    decision = decided(loaded.head, command, now=now, commit_id=commit_id)
    await store.commit(key, loaded, decision)
    return decision


async def send(
    store: SessionStore,
    key: SessionKey = A_SESSION,
    text: str = "Where is my order?",
    *,
    idempotency_key: str | None = None,
    owner: Actor = ANNA,
    now: datetime = NOON,
) -> Decision:
    """Accept a message."""
    return await commit(store, key, a_message(text, key=idempotency_key, owner=owner), now=now)


async def answer(store: SessionStore, key: SessionKey = A_SESSION, *, now: datetime = NOON) -> Decision:
    """Have the running model step answer."""
    return await commit(store, key, an_answer((await store.load(key)).head), now=now)


async def a_turn(store: SessionStore, key: SessionKey = A_SESSION, text: str = "Where is my order?") -> list[Decision]:
    """Run one whole turn: a message, a model step that asks for a tool, its result, the answer. Four commits."""
    asked = await send(store, key, text)
    requested = await commit(store, key, a_request_for(asked.head, "look_up_order"))
    finished = await commit(store, key, a_result(requested.head))
    return [asked, requested, finished, await commit(store, key, an_answer(finished.head))]


async def a_session_with(store: SessionStore, turns: int, key: SessionKey = A_SESSION) -> list[Entry]:
    """Run whole turns, settling now and then as workers do, and return all entries: four for each turn."""
    entries: list[Entry] = []
    for number in range(turns):
        entries += [entry_of(decision) for decision in await a_turn(store, key, f"question {number}")]
        await store.settle(key)
    return entries


async def deleted_before(store: SessionStore, key: SessionKey, version: int) -> Decision:
    """Commit that retention is about to delete the entries below a version."""
    loaded = await store.load(key)
    head = replace(loaded.head, version=loaded.head.version + 1, deleted_before=version)
    decision = Decision(head, _an_entry_of("retention", head), {})
    await store.commit(key, loaded, decision)
    return decision


async def a_tombstone(store: SessionStore, key: SessionKey) -> Decision:
    """Commit what a purge leaves of a session: version and counters."""
    loaded = await store.load(key)
    version = loaded.head.version + 1
    head = Head(
        version=version,
        turn_count=loaded.head.turn_count,
        message_sequence=loaded.head.message_sequence,
        event_sequence=loaded.head.event_sequence,
        deleted_before=version,
    )
    decision = Decision(head, _an_entry_of("purge", head), {})
    await store.commit(key, loaded, decision)
    return decision


def _an_entry_of(kind: str, head: Head) -> Entry:
    return Entry(version=head.version, commit_id=a_commit_id(), at=NOON, kind=kind)
