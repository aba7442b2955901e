"""`perdure sessions` and `perdure show`: look, and change nothing."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from perdure.cli.connecting import looking
from perdure.cli.loading import is_still_to_be_made
from perdure.cli.printing import print_message, print_state, print_timeline, say, shortened, stuck_as
from perdure.cli.waits import print_waits
from perdure.core.listing import SessionSearch

NO_SESSIONS = "no sessions yet: `perdure chat` starts one"


async def sessions(options: argparse.Namespace) -> int:
    """List the sessions, newest activity first: with their titles, or else with the start of what was said last."""
    if not options.url and is_still_to_be_made(options.db):
        say(NO_SESSIONS)
        return 0
    search: SessionSearch = {"query": options.query, "waiting_for": options.waiting_for, "status": options.status}
    async with looking(options) as connection:
        cursor: str | None = None
        listed = 0
        while True:
            page = await connection.sessions(cursor=cursor, limit=200, **search)
            for row in page["sessions"]:
                waits = ", ".join([*stuck_as(row), *(item["kind"] for item in row.get("waiting_for", []))])
                status = f"{row['status']} ({waits})" if waits else row["status"]
                words = shortened(row.get("title") or row["preview"], 60)
                say(f"{row['session_id']:24}  {row['last_activity_at']}  {status:32}  {words}")
            listed += len(page["sessions"])
            cursor = page.get("next_cursor")
            if cursor is None:
                break
        if not listed:
            say("no session is like that" if any(search.values()) else NO_SESSIONS)
    return 0


async def show(options: argparse.Namespace) -> int:
    """Show one session: its state, its newest messages, its timeline, and what it waits for."""
    async with looking(options) as connection:
        session = connection.session(options.session)
        snapshot = await session.snapshot()
        if snapshot["state"] is None:
            say(
                f"perdure: session {options.session} was never written: `perdure sessions` lists all", stream=sys.stderr
            )
            return 1
        for message in snapshot["messages"]:
            print_message(message)
        say()
        say("timeline")
        print_timeline(await all_events(session))
        say()
        print_state(snapshot)
        print_waits(await session.waits(), snapshot["pending_interrupts"])
    return 0


async def all_events(session: Any) -> list[dict[str, Any]]:
    """Return the durable events of a session from its beginning."""
    events: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = await session.event_page(after=cursor)
        fresh = [event for event in page["events"] if "sequence" in event]
        events += fresh
        cursor = page["cursor"]
        if not fresh:
            return events
