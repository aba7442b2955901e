"""The reducer on what a real session says: however it is told, it shows what is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perdure.feed import Commit, FeedItem
from perdure.reducer import initial_state, messages_of, reduce, state_of, view_of
from perdure.service import LOCAL_CALLER
from tests.unit.api.builders import Desk, a_runtime


def stored(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return shown messages as the server has them."""
    assert all(message["origin"] == "stored" for message in messages)
    return [{n: v for n, v in message.items() if n not in ("key", "origin")} for message in messages]


def as_history(item: FeedItem) -> dict[str, Any]:
    if isinstance(item, Commit):
        return {"messages": list(item.messages), "events": list(item.events), "cursor": item.cursor}
    return item.event


async def played(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the commits, the events and the snapshots, one behind each event, of a refund and a failure."""
    async with a_runtime(folder, Desk()) as runtime:
        session, service = runtime.session("s-1", agent="support"), runtime.service
        snapshots = [await session.snapshot()]

        async def until(condition: str, after: str) -> None:
            async for event in session.events(after=after, follow=True):
                snapshots.append(await session.snapshot())
                if event.type == condition:
                    return

        receipt = await session.send("refund order 7")
        await until("interrupt_raised", receipt.cursor)
        await session.resolve(snapshots[-1]["pending_interrupts"][0]["interrupt_id"], approved=True)
        await until("turn_completed", receipt.cursor)
        await until("turn_failed", (await session.send("fail")).cursor)
        await session.stop()  # lets go of the failed turn
        await until("turn_completed", (await session.send("Hello")).cursor)
        feed = await service.feed(LOCAL_CALLER, "s-1")
        events = [event for item in feed.items if isinstance(item, Commit) for event in item.events]
        return [as_history(item) for item in feed.items], events, snapshots


async def test_raw_history_alone_gives_the_messages_that_are_stored(tmp_path: Path) -> None:
    commits, _, snapshots = await played(tmp_path)

    assert stored(messages_of(commits)) == snapshots[-1]["messages"]
    assert [turn["status"] for turn in state_of(commits)["turns"].values()] == ["completed", "failed", "completed"]


async def test_a_viewer_that_comes_at_any_moment_and_hears_twice_shows_what_is_stored(tmp_path: Path) -> None:
    _, events, snapshots = await played(tmp_path)
    whole = view_of(_followed(snapshots[0], events, snapshots[-1]))
    assert stored(whole["messages"]) == snapshots[-1]["messages"]
    assert whole["status"] == "waiting_for_user_message"

    for begun in snapshots:
        missed = [event for event in events if event["version"] > (begun["state"] or {}).get("version", 0)]
        for again in (0, 1, len(missed) // 2):
            heard = [*missed[: len(missed) // 2], *missed[again:]]
            view = view_of(_followed(begun, heard, snapshots[-1]))
            assert {**view, "frontier": None} == {**whole, "frontier": None}


def _followed(begun: dict[str, Any], events: list[dict[str, Any]], last: dict[str, Any]) -> dict[str, Any]:
    """Begin with a snapshot, hear events, and read the last snapshot, also when an older one comes late."""
    state = reduce(initial_state("s-1"), {"type": "snapshot", "snapshot": begun, "restart": True})
    for event in events:
        state = reduce(state, {"type": "event", "event": event})
    for snapshot in (last, begun):
        state = reduce(state, {"type": "snapshot", "snapshot": snapshot}) if snapshot["state"] else state
    return state
