"""`perdure chat`: talk in the terminal, decide on approvals, stop, come back later."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys

from perdure.cli.connecting import connected
from perdure.cli.printing import arguments_of, plain, print_message, say, shortened
from perdure.errors import RequestError
from perdure.session import Session, SessionEvent

HELP = "Type a message. /stop ends the running turn, /quit leaves; the session stays."


async def chat(options: argparse.Namespace) -> int:
    """Talk to one session until the input ends or `/quit`."""
    session_id = options.session or f"chat-{secrets.token_hex(4)}"
    async with connected(options) as connection:
        conversation = _Conversation(connection.session(session_id))
        say(f"session {session_id}. {HELP}")
        await conversation.resume()
        while (line := await _ask("> ")) is not None:
            text = line.strip()
            if text == "/quit":
                break
            if text == "/stop":
                say(str((await conversation.session.stop())["result"]))
            elif text:
                await conversation.say(text)
        say(f"\ncome back with: perdure chat {session_id}")
    return 0


class _Conversation:
    def __init__(self, session: Session) -> None:
        self.session = session
        self._streamed = ""

    async def resume(self) -> None:
        """Show the newest messages, and go on with a turn that was left running or waiting."""
        snapshot = await self.session.snapshot()
        for message in snapshot["messages"][-10:]:
            print_message(message)
        state = snapshot["state"]
        if state is None or "turn_id" not in state:
            return
        for interrupt in snapshot["pending_interrupts"]:
            await self._decide(interrupt["interrupt_id"])
        await self._follow(snapshot["cursor"])

    async def say(self, text: str) -> None:
        """Send a message and follow its turn."""
        try:
            receipt = await self.session.send(text)
        except RequestError as error:
            say(f"not sent: {error.message}")
            return
        await self._follow(receipt.cursor)

    async def _follow(self, cursor: str) -> None:
        try:
            async for event in self.session.events(after=cursor):
                await self._show(event)
        except KeyboardInterrupt:
            await self.session.stop()

    async def _show(self, event: SessionEvent) -> None:
        payload = event.payload
        if event.type == "text_delta":
            self._streamed += payload["text"]
            print(plain(payload["text"]), end="", flush=True)
        elif event.type == "attempt_reset":
            self._streamed = ""
            say("\n  (the answer was cut and begins again)")
        elif event.type == "tool_call_deferred":
            say(f"\n  tool {payload['tool_name']} ({payload['effect']})")
        elif event.type == "tool_call_finished":
            say(f"  -> {payload['tool_name']} {payload['status']}")
        elif event.type == "interrupt_raised":
            await self._decide(payload["interrupt_id"])
        elif event.type == "turn_failed":
            say(f"\nthe turn failed: {payload['error']['message']}")
        elif event.type in ("turn_completed", "turn_cancelled"):
            await self._close(event)

    async def _close(self, event: SessionEvent) -> None:
        """End the turn's output; when its text was not seen live, print it from the transcript."""
        if not self._streamed and event.type == "turn_completed":
            page = await self.session.messages(limit=1)
            for message in page["messages"]:
                print_message(message)
        say("" if event.type == "turn_completed" else "\n  (stopped)")
        self._streamed = ""

    async def _decide(self, interrupt_id: str) -> None:
        snapshot = await self.session.snapshot()
        pending = [i for i in snapshot["pending_interrupts"] if i["interrupt_id"] == interrupt_id]
        if not pending:
            return
        interrupt = pending[0]
        say(f"\napprove {interrupt['tool_name']} {shortened(arguments_of(interrupt), 400)}?")
        answer = await _ask("[y]es, [n]o, or no with a reason: ")
        if answer is None:
            say("left open: it waits for you")
            raise SystemExit(0)
        words = answer.strip()
        approved = words.lower() in ("y", "yes")
        reason = None if approved or words.lower() in ("n", "no", "") else words
        try:
            await self.session.resolve(
                interrupt_id, approved=approved, message=reason, arguments_hash=interrupt["arguments_hash"]
            )
        except RequestError as error:
            say(f"not recorded: {error.message}")


async def _ask(prompt: str) -> str | None:
    """Read one line without stopping the event loop; None at the end of the input."""
    print(prompt, end="", flush=True)
    line = await asyncio.to_thread(sys.stdin.readline)
    return line.rstrip("\n") if line else None
