"""`perdure chat`: talk in the terminal, decide on approvals, stop, come back later."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import secrets
import shlex
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeVar, cast

from perdure.cli import DEFAULT_AGENTS, DEFAULT_DATABASE
from perdure.cli.asking import Asking
from perdure.cli.commands import Commands, command_of
from perdure.cli.connecting import Connection, connected
from perdure.cli.keyboard import Keyboard
from perdure.cli.leaving import Leave, Switch
from perdure.cli.onlooker import Onlooker
from perdure.cli.picking import Picker, newest_sessions, palette_of
from perdure.cli.printing import next_step, say
from perdure.cli.turn_view import TurnView
from perdure.core.ids import is_session_id
from perdure.errors import InvalidRequestError, RequestError, StoreUnavailableError
from perdure.session import SessionEvent

T = TypeVar("T")

INTRODUCTION = (
    "Type a message. /help lists the commands; Ctrl-C stops the running turn, /quit leaves and the session stays."
)

PATIENCE = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Waits in seconds before a command that got no answer is sent again, under its key: a server's restart."""


_PARKS = ("timer_started", "tool.awaits_event", "tool_task_started")
_UNPARKS = ("tool_call_finished", "model_started", "turn_completed", "turn_failed", "turn_cancelled", "turn_steered")
"""What a call that waits for long begins and ends with, as far as a pipe is concerned."""


async def chat(options: argparse.Namespace) -> int:
    """Talk until the input ends, `/quit`, a Ctrl-C that stops nothing, or SIGTERM; in a new session if none is named.

    Raises:
        InvalidRequestError: A session was named that can't be, or both one and the last one.
    """
    if options.session is not None and not is_session_id(options.session):
        raise InvalidRequestError("a session id has 1 to 128 characters of A-Z, a-z, 0-9, '.', '_', ':' and '-'")
    if options.session is not None and options.resume:
        raise InvalidRequestError("name a session, or take the last one with --resume; not both")
    async with connected(options) as connection:
        with Keyboard(sys.stdin) as keyboard:
            session_id = options.session or await _last_session(connection, options) or _new_id()
            introduction = INTRODUCTION
            while True:
                say(f"session {session_id}. {introduction}".rstrip())
                conversation = _Conversation(connection, session_id, options.agent, keyboard)
                try:
                    await conversation.hold()
                except Leave:
                    break
                except Switch as to:
                    conversation.end_line()
                    session_id, introduction = to.session_id, ""
            if conversation.is_busy and not options.url:
                say("  (what runs is finished first, for at most 10 s; the rest is taken up next time)")
            conversation.end_line()
            say(f"come back with: {_same_command(session_id, options)}")
    return 0


def _new_id() -> str:
    return f"chat-{secrets.token_hex(4)}"


async def _last_session(connection: Connection, options: argparse.Namespace) -> str | None:
    """Return the session with the newest activity if it is asked for and there is one."""
    rows = await newest_sessions(connection, most=1) if options.resume else []
    if options.resume and not rows:
        say("there is no session to go on with yet: this is a new one")
    return str(rows[0]["session_id"]) if rows else None


def _same_command(session_id: str, options: argparse.Namespace) -> str:
    words = ["perdure", "chat", session_id]
    if options.url:
        words += ["--url", options.url]
    else:
        words += ["--agents", options.agents] if options.agents != DEFAULT_AGENTS else []
        words += ["--db", options.db] if options.db != DEFAULT_DATABASE else []
    return shlex.join(words)


class _Conversation:
    """One session, what is shown of it, and what is asked of the person."""

    def __init__(self, connection: Connection, session_id: str, agent: str | None, keyboard: Keyboard) -> None:
        self._connection = connection
        self._session = session = connection.session(session_id, agent=agent)
        self._keyboard = keyboard
        self._view = TurnView(session)
        self._commands = Commands(session, self._view, self._carried_out)
        self._asking = Asking(session, self._view, self._carried_out, interactive=keyboard.interactive)
        self._picker = Picker(connection, session_id, self._view, keyboard, self._taken)
        self._onlooker = Onlooker(session, self._view)
        self._cursor: str | None = None
        self._turn_id: str | None = None
        self._stopped = False
        self._stuck = False
        self._parked = False
        self._input_over = False

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs that does not wait for the person."""
        return self._cursor is not None and not self._asking

    def end_line(self) -> None:
        self._view.end_line()

    async def hold(self) -> None:
        """Show what there is, then take turns until the person leaves; that is a `Leave`.

        Raises:
            StoreUnavailableError: There was no answer to begin with.
            Switch: The person goes on with another session.
        """
        await self._resume()
        while True:
            try:
                await self._take_turns()
            except StoreUnavailableError as error:
                await self._look_again(error)

    async def _resume(self) -> None:
        """Show the newest messages, and go on with a turn that was left running or waiting."""
        snapshot = await self._session.snapshot()
        self._onlooker.place = snapshot["cursor"]
        self._view.transcript(snapshot["messages"])
        self._tell_what_waits(snapshot)
        await self._go_on(snapshot)

    def _tell_what_waits(self, snapshot: dict[str, Any]) -> None:
        state = snapshot["state"] or {}
        if step := next_step(state):
            self._view.line(f"  ({step})")
        for item in state.get("waiting_for", []):
            if item["kind"] == "retry":
                self._view.line(f"  (asking the model again at {item['until']}: /retry asks now, /stop gives up)")
        if snapshot["inbox"]:
            self._view.line(f"  ({len(snapshot['inbox'])} waiting: /inbox)")

    async def _look_again(self, error: StoreUnavailableError) -> None:
        while True:
            self._view.line(f"({error.message}; what was accepted is not lost. Enter looks again)")
            await self._ask("")
            try:
                return await self._resume()
            except StoreUnavailableError as again:
                error = again

    async def _take_turns(self) -> None:
        """Ask for a message or a command, and follow what it starts, or what starts by itself meanwhile."""
        text = await self._ask("> ")
        if text is None:
            await self._onlooker.show()
            place = self._onlooker.place
        else:
            place = await self._do(text) if text.strip() else None
        if place is not None:
            await self._follow(place)

    async def _do(self, text: str) -> str | None:
        """Carry out a command or send a message. Returns the cursor from which there is something to follow."""
        names = palette_of(text)
        if names is not None:
            picked = await self._picker.command(names)
            return await self._do(picked) if picked is not None else None
        command = command_of(text)
        if command is None:
            return await self._commands.send(text)
        name, words = command
        if name == "stop" or (name == "interrupt" and not words):
            return await self._stop()
        if name == "quit":
            raise Leave
        if name == "clear":
            raise Switch(_new_id())
        if name == "sessions" or (name == "resume" and not await self._is_paused(words)):
            await self._picker.session(words, named=name == "resume")
            return None
        if name == "decline":
            await self._asking.decline(words)
            return None
        if name == "edit" and self._asking.edits and (not words or words.startswith("{")):
            await self._asking.edit(words)
            while not self._keyboard.interrupts.empty():  # a Ctrl-C in the editor was meant for the editor
                self._keyboard.interrupts.get_nowait()
            return None
        return await self._commands.run(name, words)

    async def _is_paused(self, words: str) -> bool:
        return not words and "paused" in ((await self._session.snapshot())["state"] or {})

    async def _go_on(self, snapshot: dict[str, Any]) -> None:
        """Follow the turns that are left, from the place of a snapshot."""
        state = snapshot["state"]
        if state is None or "turn_id" not in state:
            return
        self._turn_id = state["turn_id"]
        self._asking.forget()
        for interrupt in snapshot["pending_interrupts"]:
            self._asking.open(interrupt)
        await self._follow(snapshot["cursor"])

    async def _follow(self, cursor: str) -> None:
        """Follow a turn and those that were sent meanwhile, while the person may decide, stop, and send more."""
        self._cursor, self._stuck, self._parked = cursor, False, False
        await self._follow_turn()
        while not self._stuck and await self._has_more():
            await self._follow_turn()

    async def _has_more(self) -> bool:
        """Whether another turn runs, or has run meanwhile."""
        snapshot = await self._session.snapshot()
        if "turn_id" in snapshot["state"]:
            return True
        page = await self._session.event_page(after=self._cursor)
        return any(event["type"] == "turn_started" for event in page["events"])

    async def _follow_turn(self) -> None:
        self._stopped = False
        events = cast("AsyncGenerator[SessionEvent]", self._session.events(after=self._cursor))
        async with contextlib.aclosing(events):
            coming = asyncio.ensure_future(anext(events, None))
            try:
                while True:
                    await self._wait(coming)
                    if coming.done():
                        event = coming.result()
                        if event is None:
                            return
                        await self._take(event)
                        if self._stuck:
                            return
                        coming = asyncio.ensure_future(anext(events, None))
            finally:
                coming.cancel()
                await asyncio.wait({coming})

    async def _wait(self, coming: asyncio.Future[SessionEvent | None]) -> None:
        """Wait for an event, or act on what the person does.

        What a person types while a turn runs is another message, never the answer to a question that they have not
        seen yet; what comes through a pipe is read when it is asked for, or the turn only waits.
        """
        asking = bool(self._asking)
        from_pipe = not self._keyboard.interactive and not asking
        if from_pipe and not (self._parked and not self._input_over):
            await self._first(coming)
            return
        if await self._first(coming, self._keyboard.line()) is not self._keyboard.line():
            return
        text = self._taken()
        if text is None and from_pipe:
            self._input_over = True  # what waits is followed to its end all the same
            return
        if text is None or text.strip() == "/quit":
            if asking:
                self._view.line("left open: it waits for you")
            raise Leave
        if asking and command_of(text) is None and palette_of(text) is None:
            await self._asking.take(text.strip())
        elif text.strip():
            await self._do(text)
            if self._asking and not self._stopped and not self._view.at_prompt:
                self._asking.prompt()

    async def _first(self, *awaited: asyncio.Future[Any]) -> asyncio.Future[Any] | None:
        """Return which of some futures came first; None when it was a Ctrl-C, which stops the turn."""
        interrupt = asyncio.ensure_future(self._keyboard.interrupts.get())
        leaving = asyncio.ensure_future(self._keyboard.leaving.wait())
        try:
            await asyncio.wait({*awaited, interrupt, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            was_interrupted, was_asked_to_leave = interrupt.done(), leaving.done()
            interrupt.cancel()
            leaving.cancel()
        if was_asked_to_leave:
            raise Leave
        if was_interrupted:
            if self._stopped or self._cursor is None:
                raise Leave
            await self._stop()
            return None
        return next(future for future in awaited if future.done())

    async def _take(self, event: SessionEvent) -> None:
        self._cursor = self._onlooker.place = event.cursor
        self._turn_id = event.turn_id or self._turn_id
        if event.type in _PARKS:
            self._parked = True
        elif event.type in _UNPARKS:
            self._parked = False
        await self._view.show(event)
        interrupt_id = event.payload.get("interrupt_id")
        if event.type == "interrupt_raised":
            snapshot = await self._session.snapshot()
            for interrupt in snapshot["pending_interrupts"]:
                if interrupt["interrupt_id"] == interrupt_id:
                    self._asking.open(interrupt)
        elif event.type == "interrupt_resolved":
            self._asking.close(str(interrupt_id), event.payload)
        elif event.type == "turn_failed" and event.payload.get("held"):
            self._stuck = True
            self._tell_what_waits(await self._session.snapshot())
        elif event.type == "session_paused" and not self._keyboard.interactive:
            self._stuck = True  # nobody can resume it here
        if self._asking and not self._view.at_prompt and not self._stopped:
            self._asking.prompt()

    # --- commands ----------------------------------------------------------------------------------------------

    async def _stop(self) -> str | None:
        """Stop what runs, at what the person has seen of it; at the prompt, let a failed turn go."""
        if self._cursor is None and "held" in ((await self._session.snapshot())["state"] or {}):
            return await self._commands.run("dismiss", "")
        self._stopped = True
        turn_id, seen = self._turn_id, self._cursor
        reply = await self._carried_out(
            lambda key: self._session.stop(turn_id, seen if turn_id else None, idempotency_key=key)
        )
        said = {"recorded": "stopping; Ctrl-C again leaves", "idle": "nothing runs", "too_late": "it is over already"}
        if reply is not None:
            self._view.line(f"  ({said.get(reply['result'], reply['result'])})")
        return None

    async def _carried_out(self, command: Callable[[str], Awaitable[T]]) -> T | None:
        """Carry out a command, again under the same key while no answer comes. None: it was refused, and is told."""
        key = secrets.token_hex(16)
        for wait in (*PATIENCE, None):
            try:
                return await command(key)
            except RequestError as error:
                self._view.line(f"not accepted: {error.message}")
                return None
            except StoreUnavailableError as error:
                if wait is None:
                    self._view.line(f"it is not known whether that was accepted: {error.message}")
                    return None
                await self._first(asyncio.ensure_future(asyncio.sleep(wait)))
        return None

    async def _ask(self, prompt: str) -> str | None:
        """Return a line that the person types while nothing runs; None: a turn has begun by itself.

        Args:
            prompt: Empty: nobody looks for turns.
        """
        self._cursor = self._turn_id = None
        self._asking.forget()
        self._view.prompt(prompt)
        looking = [asyncio.ensure_future(self._onlooker.begun())] if prompt else []
        try:
            came = await self._first(self._keyboard.line(), *looking)
        finally:
            for task in looking:
                task.cancel()
            if looking:
                await asyncio.wait(looking)
        if looking and came is looking[0]:
            looking[0].result()
            return None
        text = self._taken()
        if text is None or text.strip() == "/quit":
            raise Leave
        return text

    def _taken(self) -> str | None:
        """Take the line that has come; one of a pipe is shown, as a terminal shows what is typed."""
        text = self._keyboard.take()
        if text is not None and not self._keyboard.interactive:
            say(text)
        if text is not None:
            self._view.entered()
        return text
