"""Why a session waits, in a terminal; and the commands of `perdure chat` on waits."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from perdure.cli.printing import arguments_of, one_line, say
from perdure.embedded.clock import SystemClock
from perdure.session import Session

JsonObject = Mapping[str, Any]

_LATER = re.compile(r"\+([0-9]{1,9})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

_now = SystemClock().now

CarriedOut = Callable[[Callable[[str], Awaitable[Any]]], Awaitable[Any]]


def print_waits(waits: Sequence[JsonObject], interrupts: Sequence[JsonObject]) -> None:
    """Print each thing that a session waits for: since when, until when, who can end it, and the requests that do.

    Args:
        interrupts: The open ones of the session's snapshot, whose arguments a person decides on.
    """
    shown = {interrupt["interrupt_id"]: interrupt for interrupt in interrupts}
    for wait in waits:
        for line in lines_of(wait, shown.get(wait.get("id", ""), {})):
            say(line)
        for call in wait["calls"]:
            body = f" {json.dumps(call['body'], ensure_ascii=False)}" if "body" in call else ""
            say(f"  {call['label']}: {call['method']} {call['path']}{body}")


def lines_of(wait: JsonObject, interrupt: JsonObject) -> list[str]:
    """Return what there is to say of a wait, without its requests."""
    named = f" [{wait['id']}]" if "id" in wait else ""
    until = f", until {wait['until']}" if "until" in wait else ""
    lines = [f"{wait['kind']}: {one_line(wait['title'])}{named}", f"  since {wait['since']}{until}"]
    if wait["kind"] == "approval" and ("arguments" in interrupt or "arguments_text" in interrupt):
        lines.append(f"  arguments: {arguments_of(interrupt)}")
    if choices := wait.get("choices"):
        free = ", or other words" if wait.get("allows_free_text") else ""
        lines.append(f"  choices: {' · '.join(one_line(choice) for choice in choices)}{free}")
    if "looks" in wait:
        following = f", the next at {wait['next_look_at']}" if "next_look_at" in wait else ""
        lines.append(f"  looks so far: {wait['looks']}{following}")
    if "blocked" in wait:
        lines.append(f"  blocked: {wait['blocked']}")
    return [*lines, f"  ended by {', or '.join(wait['unblocked_by'])}"]


class WaitCommands:
    """`/waits`, `/skip`, `/until` and `/cancel`.

    Args:
        line: Prints a line of its own.
        carried_out: As of `Commands`.
    """

    def __init__(
        self,
        session: Session,
        line: Callable[[str], None],
        carried_out: CarriedOut,
        now: Callable[[], datetime] = _now,
    ) -> None:
        self._now = now
        self._session = session
        self._line = line
        self._carried_out = carried_out

    async def show(self) -> str | None:
        """Tell what the session waits for, with numbers."""
        waits = await self._session.waits()
        for number, wait in enumerate(waits, start=1):
            first, *rest = lines_of(wait, {})
            self._line(f"  {number}. {first}")
            for line in rest:
                self._line(f"   {line}")
        if not waits:
            self._line("  (it waits for nothing)")
        return None

    async def skip(self, words: str) -> str | None:
        """Wait no longer for a time."""
        wait_id = await self._id_of(words, "skip_wait")
        if wait_id is not None and await self._carried_out(
            lambda key: self._session.skip_wait(wait_id, idempotency_key=key)
        ):
            self._line("  (skipped)")
        return None

    async def cancel(self, words: str) -> str | None:
        """End a wait without what it was for."""
        wait_id = await self._id_of(words, "cancel_wait")
        if wait_id is not None and await self._carried_out(
            lambda key: self._session.cancel_wait(wait_id, idempotency_key=key)
        ):
            self._line("  (cancelled)")
        return None

    async def until(self, words: str) -> str | None:
        """Give a wait another time; the last word is the time."""
        *named, time = words.split()
        wait_id = await self._id_of(" ".join(named), "change_wait")
        moment = None if time == "never" else time_of(time, self._now())
        if wait_id is not None and await self._carried_out(
            lambda key: self._session.change_wait(wait_id, moment, idempotency_key=key)
        ):
            self._line("  (it has no end of its own any more)" if moment is None else f"  (until {moment})")
        return None

    async def _id_of(self, word: str, operation: str) -> str | None:
        """Return the id of a wait, which may be given by its number, or left out where only one can be meant."""
        waits = await self._session.waits()
        if word:
            is_number = word.isascii() and word.isdigit() and 1 <= int(word) <= len(waits)
            return str(waits[int(word) - 1].get("id", word)) if is_number else word
        meant = [wait for wait in waits if any(call["operation"] == operation for call in wait["calls"])]
        if len(meant) == 1:
            return str(meant[0]["id"])
        self._line("  (which one? /waits has the numbers)" if meant else "  (nothing waits that this could change)")
        return None


def time_of(word: str, now: datetime) -> str:
    """Return the time that a word means: itself, or so much from now as in `+90s`, `+30m`, `+2h` and `+3d`."""
    later = _LATER.fullmatch(word)
    if later is None:
        return word
    distance = timedelta(**{_UNITS[later.group(2)]: int(later.group(1))})
    try:
        return (now + distance).isoformat(timespec="seconds")
    except OverflowError:
        return word
