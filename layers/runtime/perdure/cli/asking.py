"""What `perdure chat` asks of the person: approvals, and questions with their choices."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from perdure.cli.printing import arguments_of, indented
from perdure.cli.turn_view import TurnView
from perdure.session import Session

JsonObject = dict[str, Any]

APPROVAL = "[y]es, [n]o, or no with a reason: "
CHOICE = "a number: "
CHOICE_OR_WORDS = "a number or your own words: "
WORDS = "your answer: "

CarriedOut = Callable[[Callable[[str], Awaitable[Any]]], Awaitable[Any]]


class Asking:
    """The open approvals and questions, asked one after the other.

    Args:
        carried_out: As of `Commands`.
        interactive: A person sits at a terminal, so an editor may be opened.
    """

    def __init__(self, session: Session, view: TurnView, carried_out: CarriedOut, *, interactive: bool) -> None:
        self._session = session
        self._view = view
        self._carried_out = carried_out
        self._interactive = interactive
        self._open: list[JsonObject] = []
        self._decided: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._open)

    @property
    def edits(self) -> bool:
        """Whether an approval is asked for, whose arguments may be changed."""
        return bool(self._open) and self._open[0]["kind"] == "approval"

    def forget(self) -> None:
        """Ask nothing any more."""
        self._open = []

    def open(self, interrupt: JsonObject) -> None:
        """Ask for a decision, after those that are asked for already."""
        known = (other["interrupt_id"] for other in self._open)
        if interrupt["kind"] == "input" or interrupt["interrupt_id"] in known:
            return  # an application's value is for a form of its own
        self._open.append(interrupt)
        if len(self._open) == 1:
            self._put()

    def close(self, interrupt_id: str, payload: JsonObject) -> None:
        """Forget what is settled, and say so if it was not here that it was."""
        was_asked = bool(self._open) and self._open[0]["interrupt_id"] == interrupt_id
        self._open = [other for other in self._open if other["interrupt_id"] != interrupt_id]
        if was_asked and interrupt_id not in self._decided:
            by = "withdrawn" if "cancellation_reason" in payload else "decided elsewhere"
            self._view.line(f"  ({by}: it needs no answer of yours any more)")
        if was_asked and self._open:
            self._put()

    def prompt(self) -> None:
        """Ask again on a line of its own."""
        self._view.prompt(self._prompt())

    def _prompt(self) -> str:
        interrupt = self._open[0]
        if interrupt["kind"] == "approval":
            return APPROVAL
        if not interrupt.get("choices"):
            return WORDS
        return CHOICE_OR_WORDS if interrupt.get("allows_free_text", True) else CHOICE

    def _put(self) -> None:
        interrupt = self._open[0]
        until = f" (until {interrupt['deadline']})" if "deadline" in interrupt else ""
        if interrupt["kind"] == "approval":
            self._view.line(f"approve {interrupt['tool_name']} {arguments_of(interrupt)}?{until}")
        else:
            self._view.line(f"{indented(str(interrupt.get('question', '?')))}{until}")
            for number, choice in enumerate(interrupt.get("choices", ()), start=1):
                self._view.line(f"  {number}. {indented(str(choice))}")
        self.prompt()

    async def take(self, words: str) -> None:
        """Take what the person typed as the decision, or the answer, that is asked for."""
        if not words or words.startswith("/"):  # a slip of the pen decides nothing
            if words:
                self._view.line(f"  (there is no command {words.split(maxsplit=1)[0]}: /help)")
            self.prompt()
            return
        interrupt = self._open[0]
        if interrupt["kind"] == "approval":
            approved = words.lower() in ("y", "yes")
            reason = None if approved or words.lower() in ("n", "no") else words
            await self._decide(approved=approved, message=reason)
        else:
            await self._answer(_chosen(words, interrupt.get("choices", [])))

    async def decline(self, words: str) -> None:
        """Do not answer; with words the model is told those."""
        if not self._open:
            self._view.line("  (nothing is asked)")
            return
        await self._decide(approved=False, message=words or None)

    async def edit(self, words: str) -> None:
        """Approve with other arguments: those on the line, or what the person makes of them in their editor."""
        text = words or await self._edited(self._open[0])
        arguments, complaint = _read(text) if text is not None else (None, "")
        if complaint:
            self._view.line(f"  ({complaint})")
        if arguments is None:
            self.prompt()
        else:
            await self._decide(approved=True, arguments=arguments)

    async def _edited(self, interrupt: JsonObject) -> str | None:
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
        if not editor or not self._interactive or "arguments" not in interrupt:
            self._view.line("  (type /edit and the arguments whole, as a JSON object; or set EDITOR)")
            return None
        before = json.dumps(interrupt["arguments"], ensure_ascii=False, indent=2) + "\n"
        after = await edited(editor, before)
        if after is None or after == before:
            self._view.line("  (nothing was changed)")
            return None
        return after

    async def _decide(self, *, approved: bool, message: str | None = None, arguments: Any = None) -> None:
        interrupt = self._open[0]
        await self._settle(
            lambda key: self._session.resolve(
                interrupt["interrupt_id"],
                approved=approved,
                message=message,
                arguments_hash=interrupt.get("arguments_hash"),
                arguments=arguments,
                idempotency_key=key,
            )
        )

    async def _answer(self, text: str) -> None:
        interrupt_id = self._open[0]["interrupt_id"]
        reply = await self._settle(lambda key: self._session.answer(interrupt_id, text, idempotency_key=key))
        if reply is not None and reply["result"] == "queued":
            self._view.line("  (the time for it was over, so it waits as a message)")

    async def _settle(self, decision: Callable[[str], Awaitable[JsonObject]]) -> JsonObject | None:
        interrupt = self._open.pop(0)
        self._decided.add(interrupt["interrupt_id"])
        reply: JsonObject | None = await self._carried_out(decision)
        if reply is None:  # what is asked now may be something else than what was shown
            self._decided.discard(interrupt["interrupt_id"])
            for other in (await self._session.snapshot())["pending_interrupts"]:
                self.open(other)
        if self._open and not self._view.at_prompt:
            self._put()
        return reply


def _read(text: str) -> tuple[JsonObject | None, str]:
    """Return the arguments that a person typed, or what is wrong with them."""
    try:
        arguments = json.loads(text)
    except ValueError as error:
        return None, f"this is no JSON: {error}"
    return (arguments, "") if isinstance(arguments, dict) else (None, "arguments are a JSON object")


def _chosen(words: str, choices: list[str]) -> str:
    """Return the choice that a number stands for, unless the number is itself one of them."""
    is_number = words.isascii() and words.isdigit() and 1 <= int(words) <= len(choices)
    return choices[int(words) - 1] if is_number and words not in choices else words


async def edited(editor: str, text: str) -> str | None:
    """Return what a person makes of a text in their editor, or None when it failed."""
    with tempfile.TemporaryDirectory(prefix="perdure-") as folder:
        path = Path(folder) / "arguments.json"
        await asyncio.to_thread(path.write_text, text, encoding="utf-8")
        try:
            process = await asyncio.create_subprocess_exec(*shlex.split(editor), str(path))
        except (OSError, ValueError):
            return None
        if await process.wait() != 0:
            return None
        return await asyncio.to_thread(path.read_text, encoding="utf-8")
