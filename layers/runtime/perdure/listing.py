"""The session list, and the search in it: a bounded look at one owner's sessions, newest activity first."""

from __future__ import annotations

from typing import Any

from perdure.checks import Caller, check_unicode
from perdure.core.listing import STATUSES, WAITING_FOR, SessionFilter
from perdure.core.public import public_summary
from perdure.errors import InvalidRequestError
from perdure.ports import SessionStore

JsonObject = dict[str, Any]

MOST_EXAMINED = 500
"""Sessions that one search looks at, at most. Our own choice: on AWS each is a read of its HEAD."""

MAX_QUERY = 200
"""Longest text to search for, in characters. Our own choice: longer than any preview's best part."""

PAGE = 200
"""Sessions in one page of a store, at most (`SessionStore.list_sessions`)."""


def session_filter(
    *, query: str | None, waiting_for: str | None, status: str | None, agent: str | None
) -> SessionFilter | None:
    """Return what a search asks for; None: for every session.

    Raises:
        InvalidRequestError: The text is blank or too long, or a word is none that is known.
    """
    if query is not None:
        check_unicode(query, "query")
        if not query.strip() or len(query) > MAX_QUERY:
            raise InvalidRequestError(f"query has 1 to {MAX_QUERY} characters that are not all blank: or leave it out")
    _check_choice("waiting_for", waiting_for, WAITING_FOR)
    _check_choice("status", status, STATUSES)
    if query is waiting_for is status is agent is None:
        return None
    return SessionFilter(query=query, waiting_for=waiting_for, status=status, agent=agent)


def _check_choice(name: str, value: str | None, choices: tuple[str, ...]) -> None:
    if value is not None and value not in choices:
        raise InvalidRequestError(f"{name} {value[:40]!r} is unknown: use one of {', '.join(choices)}")


async def find_sessions(
    store: SessionStore, caller: Caller, wanted: SessionFilter | None, *, cursor: str | None, limit: int
) -> JsonObject:
    """Return `{sessions, next_cursor?}`: the caller's own that match, newest activity first.

    Looks at `MOST_EXAMINED` sessions at most; `next_cursor` then goes on behind the last of them, so a page may hold
    fewer than `limit`, even none, and not be the last.
    """
    found: list[JsonObject] = []
    examined = 0
    while True:
        size = limit if wanted is None else min(PAGE, MOST_EXAMINED - examined)
        page = await store.list_sessions(caller.tenant, caller.actor, cursor=cursor, limit=size)
        for summary in page.sessions:
            row = public_summary(summary.session_id, summary.head)
            if wanted is None or wanted.matches(row):
                found.append(row)
                if len(found) == limit and summary is not page.sessions[-1]:
                    return {"sessions": found, "next_cursor": summary.cursor}
        examined += size
        cursor = page.next_cursor
        if cursor is None or len(found) == limit or examined >= MOST_EXAMINED or wanted is None:
            return {"sessions": found} if cursor is None else {"sessions": found, "next_cursor": cursor}
