"""The commands of `perdure chat`: what a person types with a slash in front. Any other text is a message."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from perdure.cli.printing import lines_of_status, next_step, notes_of, one_line, shortened
from perdure.cli.turn_view import TurnView
from perdure.cli.waits import WaitCommands
from perdure.session import Receipt, Session

HELP = """\
/steer TEXT    end the turn at its next safe place, and go on with this
/inject TEXT   add this to the running turn
/now TEXT      stop the turn, keep what was shown, and do this before all that waits
/interrupt TEXT   stop the turn, keep what was shown; this keeps its place behind what waits; alone: as /stop
/supersede TEXT   stop the turn, let no later prompt have its answer, and do this before all that waits
/passive TEXT  start nothing; this goes with the next message
/stop          stop the turn at what you see (Ctrl-C does, too); while it waits to ask again: give up
/retry         run the failed step again; while it waits to ask again: ask now
/dismiss       give a failed turn up, and let the messages behind it go on
/pause         let nothing new begin
/resume [N|ID] let a paused session go on; of any other: pick a session, or go on with this one
/sessions [TEXT]  pick a session, of those with a text in their id, title or words
/clear         begin a new conversation; this one stays as it is
/status        what this session does, waits for and has used
/title [TEXT]  give this session a title, which stays; alone: show it
/send KEY TEXT send a message under a key of yours: the same key and text is one message, however often it is sent
/inbox         what waits, with its numbers
/edit N TEXT   change a waiting message
/recall N      take a waiting message back
/move N PLACE  put a waiting message at another place
/deliver N HOW deliver a waiting message in another way: queue, or one of the words above (steer, now, passive ...)
/waits         what the session waits for, until when, and who can end it
/skip [ID]     wait no longer for a time
/until [ID] T  wait until another time: 2027-01-31T09:00:00Z, +30m, +2h, +3d, or never
/cancel [ID]   end a wait without what it was for
/decline WHY   do not answer a question
/edit [JSON]   while an approval is asked: approve it with other arguments (alone: in your EDITOR)
/settings JSON replace the session's settings; alone: show them
/help          these lines
/quit          leave; the session stays
/              these commands to pick from; with the start of one and Tab, those that begin so
Any other text is a message. While a turn runs it waits for its own."""

DELIVERIES = {
    "steer": "steer",
    "inject": "inject",
    "now": "interrupt_next",
    "interrupt": "interrupt",
    "supersede": "supersede",
    "passive": "passive",
}
_ACCEPTED = {
    "queue": "queued",
    "steer": "the turn ends at its next safe place, for this",
    "inject": "it joins the turn at its next step",
    "interrupt_next": "stopping, for this",
    "interrupt": "stopping; this keeps its place",
    "supersede": "stopping, for this; no later prompt has the answer",
    "passive": "it goes with the next message",
}
WITH_WORDS = (
    *(name for name in DELIVERIES if name != "interrupt"),
    "edit",
    "recall",
    "move",
    "deliver",
    "until",
    "send",
)
NAMES = frozenset(
    {
        *WITH_WORDS,
        *("interrupt", "sessions", "clear", "status", "title"),
        *("stop", "retry", "dismiss", "pause", "resume", "inbox", "settings", "help", "quit"),
        *("waits", "skip", "cancel", "decline"),
    }
)

CarriedOut = Callable[[Callable[[str], Awaitable[Any]]], Awaitable[Any]]


def command_of(text: str) -> tuple[str, str] | None:
    """Return the command that a line is, and the words behind it; None for a message (spec TUI-02)."""
    if not text.strip().startswith("/"):
        return None
    name, _, words = text.strip()[1:].partition(" ")
    return (name, words.strip()) if name in NAMES else None


class Commands:
    """Carries out the commands on one session.

    Args:
        carried_out: Does what it is given under a new key, and tells of a refusal; None: it was refused.
    """

    def __init__(self, session: Session, view: TurnView, carried_out: CarriedOut) -> None:
        self._session = session
        self._view = view
        self._carried_out = carried_out
        self._waits = WaitCommands(session, view.line, carried_out)

    async def run(self, name: str, words: str) -> str | None:
        """Carry out a command. Returns the cursor from which there may be something to follow, or None.

        Raises:
            StoreUnavailableError: There was no answer to what it had to look up.
        """
        if name in WITH_WORDS and not words:
            self._say(f"/{name} needs something behind it: /help")
            return None
        if name in DELIVERIES:
            return await self.send(words, DELIVERIES[name])
        run: dict[str, Callable[[], Awaitable[str | None]]] = {
            "retry": self._retry,
            "dismiss": self._dismiss,
            "pause": self._pause,
            "resume": self._resume,
            "inbox": self._inbox,
            "edit": lambda: self._edit(words),
            "recall": lambda: self._recall(words),
            "move": lambda: self._move(words),
            "deliver": lambda: self._deliver(words),
            "settings": lambda: self._settings(words),
            "waits": self._waits.show,
            "skip": lambda: self._waits.skip(words),
            "until": lambda: self._waits.until(words),
            "cancel": lambda: self._waits.cancel(words),
            "help": self._help,
            "status": self._status,
            "title": lambda: self._title(words),
            "send": lambda: self._send_once(words),
        }
        return await run[name]()

    async def send(self, text: str, delivery: str | None = None, own_key: str | None = None) -> str | None:
        """Send a message; say what waits, and for what.

        Args:
            own_key: The person's own idempotency key. None: one is made.
        """
        receipt: Receipt | None = await self._carried_out(
            lambda key: self._session.send(text, delivery=delivery, idempotency_key=own_key or key)
        )
        if receipt is None:
            return None
        if receipt.duplicate:
            self._say(f"accepted before, as {receipt.message_id}: nothing new was sent")
            return None
        if receipt.turn_id is not None:
            return receipt.cursor
        state = (await self._session.snapshot())["state"]
        self._say(_ACCEPTED.get(receipt.delivered_as, receipt.delivered_as) + _because(state))
        return receipt.cursor if "turn_id" in state else None

    async def _send_once(self, words: str) -> str | None:
        key, _, text = words.partition(" ")
        if not text.strip():
            self._say("/send needs a key of yours and a message: /send order-7 Where is it?")
            return None
        return await self.send(text.strip(), own_key=key)

    async def _status(self) -> str | None:
        for line in lines_of_status(await self._session.snapshot()):
            self._view.line(f"  {line}")
        return None

    async def _title(self, words: str) -> str | None:
        if not words:
            title = (await self._session.snapshot()).get("title")
            self._say(title or "no title yet: /title TEXT gives one")
        elif await self._carried_out(lambda key: self._session.rename(words, idempotency_key=key)) is not None:
            self._say(f"called {one_line(words)}")
        return None

    async def _retry(self) -> str | None:
        place = await self._place()
        reply = await self._carried_out(lambda key: self._session.retry(idempotency_key=key))
        return place if reply is not None else None

    async def _dismiss(self) -> str | None:
        snapshot = await self._session.snapshot()
        state = snapshot["state"] or {}
        if "held" not in state:
            self._say("nothing is held back" + (": /stop stops what runs" if "turn_id" in state else ""))
            return None
        reply = await self._carried_out(lambda key: self._session.stop(idempotency_key=key))
        if reply is None:
            return None
        self._say("let go; the next message goes on" if snapshot["inbox"] else "let go")
        return snapshot["cursor"] if snapshot["inbox"] else None

    async def _pause(self) -> str | None:
        if await self._carried_out(lambda key: self._session.pause(idempotency_key=key)) is not None:
            self._say("paused: what runs finishes, nothing new begins until /resume")
        return None

    async def _resume(self) -> str | None:
        place = await self._place()
        if await self._carried_out(lambda key: self._session.resume(idempotency_key=key)) is None:
            return None
        self._say("it goes on")
        return place if "turn_id" in (await self._session.snapshot())["state"] else None

    async def _inbox(self) -> str | None:
        entries = (await self._session.inbox())["entries"]
        for number, entry in enumerate(entries, start=1):
            how = f" ({entry['delivery']})" if entry["delivery"] != "queue" else ""
            self._view.line(f"  {number}. {shortened(entry['text'])}{how}{notes_of(entry)}")
        if not entries:
            self._say("nothing waits")
        return None

    async def _edit(self, words: str) -> str | None:
        number, _, text = words.partition(" ")
        if not text.strip():
            self._say("/edit needs the number of a message and its new text: /inbox shows the numbers")
            return None
        message_id = await self._id_of(number)
        reply = await self._carried_out(lambda key: self._session.edit(message_id, text.strip(), idempotency_key=key))
        if reply is not None:
            self._say("changed")
        return None

    async def _recall(self, words: str) -> str | None:
        message_id = await self._id_of(words)
        reply = await self._carried_out(lambda key: self._session.remove(message_id, idempotency_key=key))
        if reply is not None:
            self._say(f"taken back: {reply['text']}")
        return None

    async def _move(self, words: str) -> str | None:
        number, _, place = words.partition(" ")
        if not place.strip().isdigit():
            self._say("/move needs the number of a message and its new place: /inbox shows the numbers")
            return None
        message_id = await self._id_of(number)
        others = [str(e["message_id"]) for e in (await self._session.inbox())["entries"]]
        others = [other for other in others if other != message_id]
        behind = others[max(0, int(place) - 1) :]
        where = {"before": behind[0]} if behind else {"after": others[-1]} if others else {"position": "last"}
        reply = await self._carried_out(lambda key: self._session.move(message_id, **where, idempotency_key=key))
        if reply is not None:
            self._say("moved")
        return None

    async def _deliver(self, words: str) -> str | None:
        number, _, how = words.partition(" ")
        delivery = DELIVERIES.get(how.strip(), how.strip())
        if not delivery:
            self._say("/deliver needs the number of a message and how: /help lists the ways")
            return None
        message_id = await self._id_of(number)
        place = await self._place()
        reply = await self._carried_out(lambda key: self._session.deliver(message_id, delivery, idempotency_key=key))
        if reply is None:
            return None
        if "turn_id" not in reply:
            self._say(_ACCEPTED.get(reply["delivered_as"], reply["delivered_as"]))
        return place if "turn_id" in (await self._session.snapshot())["state"] else None

    async def _settings(self, words: str) -> str | None:
        if not words:
            self._say(json.dumps((await self._session.snapshot())["settings"], ensure_ascii=False))
            return None
        try:
            settings = json.loads(words)
        except ValueError as error:
            self._say(f"this is no JSON: {error}")
            return None
        if not isinstance(settings, dict):
            self._say('settings are a JSON object, such as {"approval_mode": "ask"}')
            return None
        reply = await self._carried_out(lambda key: self._session.update_settings(settings, idempotency_key=key))
        if reply is not None:
            self._say("set, from the next turn on; `approval_mode` from the next call on")
        return None

    async def _help(self) -> str | None:
        self._view.line(HELP)
        return None

    async def _id_of(self, number: str) -> str:
        """Return the id of a waiting message, which may be given by its number."""
        entries = (await self._session.inbox())["entries"]
        ids = [str(entry["message_id"]) for entry in entries]
        if number in ids or not number.isdigit() or not 1 <= int(number) <= len(ids):
            return number
        return ids[int(number) - 1]

    async def _place(self) -> str:
        return str((await self._session.snapshot())["cursor"])

    def _say(self, text: str) -> None:
        self._view.line(f"  ({text})")


def _because(state: dict[str, Any]) -> str:
    """Return why a message waits that no turn runs before, and what to do about it."""
    if "turn_id" in state and "paused" not in state:
        return ""
    step = next_step(state)
    return f"; {step}" if step else ""
