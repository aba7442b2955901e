"""Lists to pick from in `perdure chat`: sessions with what they wait for, and the commands. A number picks."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any

from perdure.cli.commands import HELP, NAMES, WITH_WORDS
from perdure.cli.connecting import Connection
from perdure.cli.keyboard import Keyboard
from perdure.cli.leaving import Leave, Switch
from perdure.cli.printing import shortened, stuck_as
from perdure.cli.turn_view import TurnView
from perdure.core.ids import is_session_id

JsonObject = dict[str, Any]

_DESCRIBED = re.compile(r"/([a-z]+)(?: [A-Z\[\]|]+)*\s+(\S.*)")
"""A line of the help: the command, what goes behind it in capitals, and what it does."""

MOST_SHOWN = 20
"""Sessions in a list to pick from, at most: what fits on a screen."""

MOST_PAGES = 10
"""Pages that are read for such a list, at most; a search may find little on each."""


async def newest_sessions(connection: Connection, query: str | None = None, most: int = MOST_SHOWN) -> list[JsonObject]:
    """Return the rows of the newest sessions, or of those that a text is found in."""
    rows: list[JsonObject] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await connection.sessions(cursor=cursor, limit=most - len(rows), query=query or None)
        rows += page["sessions"]
        cursor = page.get("next_cursor")
        if cursor is None or len(rows) >= most:
            break
    return rows


def lines_of_sessions(rows: Sequence[JsonObject], current: str) -> list[str]:
    """Return one line for each session, with its number."""
    lines = []
    for number, row in enumerate(rows, start=1):
        waits = [*stuck_as(row), *(item["kind"] for item in row.get("waiting_for", []))]
        if not waits and row["status"] != "waiting_for_user_message":
            waits = ["at work"]
        marks = f" [{', '.join(waits)}]" if waits else ""
        here = " (this one)" if row["session_id"] == current else ""
        title = row.get("title") or row["preview"]
        lines.append(f"  {number:2}. {row['session_id']}{here}{marks}  {shortened(title, 60)}")
    return lines


def picked_session(words: str, rows: Sequence[JsonObject]) -> str | None:
    """Return the session that a number of the list, or an id, means; None: neither."""
    if words.isascii() and words.isdigit() and 1 <= int(words) <= len(rows):
        return str(rows[int(words) - 1]["session_id"])
    return words if is_session_id(words) and not words.isdigit() else None


def palette_of(text: str) -> list[str] | None:
    """Return the commands that a line asks for the list of: `/` alone, or the start of one with a Tab behind it.

    None: it is no such line. A terminal hands a line over with its Enter, and a Tab in it as it is.
    """
    if text.strip() == "/":
        return sorted(NAMES)
    if text.startswith("/") and text.endswith("\t") and " " not in text:
        return sorted(name for name in NAMES if name.startswith(text[1:].rstrip("\t")))
    return None


def lines_of_palette(names: Sequence[str]) -> list[str]:
    """Return one line for each command, with its number and what it does."""
    said: dict[str, str] = {}
    for line in HELP.splitlines():
        if (described := _DESCRIBED.match(line)) is not None:
            said.setdefault(described.group(1), described.group(2))
    return [f"  {number:2}. /{name:10} {said.get(name, '')}" for number, name in enumerate(names, start=1)]


def picked_command(words: str, names: Sequence[str]) -> str | None:
    """Return the command that a number of the palette, or a name in it, means; None: neither."""
    if words.isascii() and words.isdigit() and 1 <= int(words) <= len(names):
        return names[int(words) - 1]
    name = words.removeprefix("/")
    return name if name in names else None


class Picker:
    """Shows a list and has the person pick from it; the line that they pick with is for nothing else.

    Args:
        taken: Takes the line that has come, and shows one of a pipe.
    """

    def __init__(
        self,
        connection: Connection,
        session_id: str,
        view: TurnView,
        keyboard: Keyboard,
        taken: Callable[[], str | None],
    ) -> None:
        self._connection = connection
        self._session_id = session_id
        self._view = view
        self._keyboard = keyboard
        self._taken = taken

    async def session(self, words: str, *, named: bool) -> None:
        """Go on with another session.

        Args:
            words: With `named` its number among the newest, or its id; else a text to search for.

        Raises:
            Switch: To the one that was picked, if it is another one.
        """
        rows = await newest_sessions(self._connection, None if named else words)
        session_id = picked_session(words, rows) if named and words else None
        if session_id is None:
            for line in lines_of_sessions(rows, self._session_id):
                self._view.line(line)
            if not rows:
                self._view.line("  (there is no session like that)")
                return
            answer = await self._choice("a number, an id, or Enter to stay here: ")
            session_id = picked_session(answer, rows) if answer else self._session_id
        if session_id is None:
            self._view.line("  (that is neither a number of the list nor an id)")
        elif session_id != self._session_id:
            raise Switch(session_id)

    async def command(self, names: Sequence[str]) -> str | None:
        """Return the line of a command that the person picks; None: of none."""
        for line in lines_of_palette(names):
            self._view.line(line)
        if not names:
            self._view.line("  (no command begins so: /help)")
            return None
        name, _, words = (await self._choice("a number or a name, or Enter for none: ")).partition(" ")
        if not name:
            return None
        picked = picked_command(name, names)
        if picked is None:
            self._view.line("  (that is neither a number of the list nor a name in it)")
        elif picked in WITH_WORDS and not words.strip():
            words = await self._choice(f"/{picked} ")
        return None if picked is None else f"/{picked} {words}".rstrip()

    async def _choice(self, prompt: str) -> str:
        """Return what the person picks. A Ctrl-C picks nothing, and stops nothing."""
        self._view.prompt(prompt)
        interrupt = asyncio.ensure_future(self._keyboard.interrupts.get())
        leaving = asyncio.ensure_future(self._keyboard.leaving.wait())
        try:
            awaited: set[asyncio.Future[Any]] = {self._keyboard.line(), interrupt, leaving}
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            was_interrupted, was_asked_to_leave = interrupt.done(), leaving.done()
        finally:
            interrupt.cancel()
            leaving.cancel()
        if was_asked_to_leave:
            raise Leave
        if was_interrupted:
            return ""
        text = self._taken()
        if text is None:
            raise Leave
        return text.strip()
