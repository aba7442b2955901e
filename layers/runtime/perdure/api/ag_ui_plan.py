"""What an AG-UI run is to do: which decisions to record, which message to send, and which turn to follow from where."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perdure.api.ag_ui_input import AgUiMessage, ResumeEntry, RunAgentInput, text_and_files
from perdure.core.cursor import Cursor
from perdure.core.ids import content_hash, version_of
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError
from perdure.streams.ag_ui import AgUiRun
from perdure.streams.ag_ui_ending import is_of_a_turn
from perdure.streams.ag_ui_messages import ag_ui_messages

if TYPE_CHECKING:
    from perdure.service import Caller, Service

JsonObject = dict[str, Any]

MAX_HISTORY_BYTES = 2 * 1024 * 1024
"""Of a conversation that is shown to a client that has none of it, about so much, the newest. Our own choice."""

PAGE = 200
"""Messages that are read at a time for that."""

_CALL_OF = re.compile(r"(call-[0-9]+-[0-9]+)(?:-input-[0-9]+)?")
_TOO_LATE = ("not_pending", "deadline_passed", "interrupt_not_found")


@dataclass(slots=True, kw_only=True)
class Plan:
    """A run that is ready to begin.

    Attributes:
        cursor: Where its items begin. None: there is nothing to follow.
        snapshot: It begins with what the client is to show.
        warnings: What of the input was left aside.
    """

    session_id: str
    run: AgUiRun
    cursor: str | None
    snapshot: bool = False
    warnings: list[JsonObject] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class _Follow:
    """What is followed: a turn, or the one that takes a message, or first the one and then the other."""

    cursor: str | None = None
    turn_id: str | None = None
    message_id: str | None = None
    resolved: tuple[str, ...] = ()


async def plan_of(service: Service, caller: Caller, run_input: RunAgentInput) -> Plan:
    """Check an input, do what it asks for, and return what is to be followed.

    Both are idempotent: a decision by the ids of its run and its interrupt, a message by its own.

    Raises:
        RequestError: The input can't be carried out.
    """
    session_id = run_input.thread_id
    snapshot = await service.snapshot(caller, session_id)
    open_ones = {interrupt["interrupt_id"]: interrupt for interrupt in snapshot["pending_interrupts"]}
    blocking = [interrupt_id for interrupt_id, interrupt in open_ones.items() if is_of_a_turn(interrupt)]
    entries = run_input.resume or []
    warnings = run_input.left_aside()
    if (snapshot["state"] or {}).get("paused"):
        warnings.append(
            {"code": "session_paused", "message": "the session is paused: nothing goes on until it resumes"}
        )
    planner = _Planner(service, caller, run_input, snapshot, warnings)
    if entries:
        await planner.decide(entries, open_ones, blocking)
        follow = await planner.resumed(entries)
    elif blocking:
        follow = await planner.blocked(blocking)
    else:
        follow = await planner.asked()
    messages = [message.model_dump(exclude_unset=True) for message in run_input.messages]
    is_fresh = not messages
    if is_fresh:
        messages = await planner.history(follow.turn_id)
    run = AgUiRun(
        thread_id=session_id,
        run_id=run_input.run_id,
        parent_run_id=run_input.parent_run_id,
        messages=messages,
        turn_id=follow.turn_id,
        message_id=follow.message_id,
        resolved=follow.resolved,
    )
    return Plan(
        session_id=session_id,
        run=run,
        cursor=follow.cursor,
        snapshot=is_fresh and bool(messages),
        warnings=warnings,
    )


class _Planner:
    def __init__(
        self,
        service: Service,
        caller: Caller,
        run_input: RunAgentInput,
        snapshot: JsonObject,
        warnings: list[JsonObject],
    ) -> None:
        self._service = service
        self._caller = caller
        self._input = run_input
        self._snapshot = snapshot
        self._warnings = warnings

    async def decide(
        self, entries: Sequence[ResumeEntry], open_ones: Mapping[str, JsonObject], blocking: Sequence[str]
    ) -> None:
        """Record decisions: all are checked before the first is recorded.

        Raises:
            InvalidRequestError: One is not what its interrupt asks for, or an open interrupt has none.
        """
        named = [entry.interrupt_id for entry in entries]
        if twice := [interrupt_id for interrupt_id in named if named.count(interrupt_id) > 1]:
            raise InvalidRequestError(f"`resume` has several entries for interrupt {twice[0]!r}: send one")
        missing = [repr(interrupt_id) for interrupt_id in blocking if interrupt_id not in named]
        if missing and any(interrupt_id in open_ones for interrupt_id in named):
            raise InvalidRequestError(
                f"`resume` has no entry for open interrupt {', '.join(missing)}: resolve or cancel every one"
            )
        decisions = [(entry, entry.decision(open_ones.get(entry.interrupt_id))) for entry in entries]
        for entry, decision in decisions:
            try:
                await self._record(entry, decision)
            except (NotFoundError, RequestConflictError) as error:
                if error.code not in _TOO_LATE:
                    raise
                self._warn(error.code, error.message, interrupt_id=entry.interrupt_id)
            except InvalidRequestError as error:
                if entry.interrupt_id in open_ones:
                    raise
                self._warn("interrupt_not_found", error.message, interrupt_id=entry.interrupt_id)

    async def _record(self, entry: ResumeEntry, decision: JsonObject) -> None:
        key = f"ag-ui:{content_hash([self._input.run_id, entry.interrupt_id])}"
        await self._service.resolve_interrupt(
            self._caller, self._input.thread_id, entry.interrupt_id, **decision, idempotency_key=key
        )

    async def resumed(self, entries: Sequence[ResumeEntry]) -> _Follow:
        """Return the turn that was resumed, from its beginning; behind it that of a message that came along."""
        turns = {entry.interrupt_id: await self._turn_of(entry.interrupt_id) for entry in entries}
        turn_id = max((turn for turn in turns.values() if turn is not None), key=_number, default=None)
        place = await self._place(turn_id) if turn_id is not None else None
        if place is None:
            return await self.asked()
        asked = await self.asked()
        behind = asked.message_id
        if behind is None and asked.turn_id is not None and _number(asked.turn_id) > _number(turn_id):
            user = self._input.user_message()
            behind = user.id if user is not None else None
        resolved = tuple(interrupt_id for interrupt_id, turn in turns.items() if turn == turn_id)
        return _Follow(cursor=place, turn_id=turn_id, message_id=behind, resolved=resolved)

    async def blocked(self, blocking: Sequence[str]) -> _Follow:
        """Return the turn that waits for people; a new message stays with the client until they have decided."""
        user = self._input.user_message()
        if user is not None and self._turn_with(user.id) is None and not self._is_queued(user.id):
            self._warn(
                "message_not_sent",
                f"message {user.id!r} was not sent, because the session waits for {', '.join(map(repr, blocking))}: "
                "send it with a `resume`",
                message_id=user.id,
            )
        turn_id = self._snapshot["state"]["turn_id"]
        return _Follow(cursor=await self._place(turn_id), turn_id=turn_id)

    async def asked(self) -> _Follow:
        """Send the last message of the user unless the session has it, and return its turn; or the running one."""
        user = self._input.user_message()
        if user is None:
            turn_id = (self._snapshot["state"] or {}).get("turn_id")
            return _Follow(cursor=await self._place(turn_id), turn_id=turn_id) if turn_id else _Follow()
        turn_id = self._turn_with(user.id)
        if turn_id is not None:
            self._compare(user)
            return _Follow(cursor=await self._place(turn_id), turn_id=turn_id)
        if self._is_queued(user.id):
            await self._release(user.id)
            return _Follow(cursor=self._snapshot["cursor"], message_id=user.id)
        try:
            return await self._send(user)
        except RequestConflictError as error:
            # The session may have it from elsewhere, or with other words for its delivery, further back than was read.
            found = await self._find_turn(user.id) if error.code == "idempotency_mismatch" else None
            if found is None:
                raise
            return _Follow(cursor=await self._place(found), turn_id=found)

    def _compare(self, user: AgUiMessage) -> None:
        """Warn of a message that the client shows with other words than the session has."""
        held = next(message for message in self._snapshot["messages"] if message["message_id"] == user.id)
        said = held["parts"][0]
        if not said.get("truncated") and said["text"] != text_and_files(user)[0]:
            self._warn(
                "message_differs",
                f"message {user.id!r} is on record with another text: send a changed one under an id of its own",
                message_id=user.id,
            )

    async def _send(self, user: AgUiMessage) -> _Follow:
        text, files, unused = text_and_files(user)
        if unused:
            self._warn("parts_not_supported", f"{unused} parts of message {user.id!r} were left aside")
        receipt = await self._service.send_input(
            self._caller,
            self._input.thread_id,
            text=text,
            files=files,
            message_id=user.id,
            agent=self._input.agent(),
            delivery="interrupt" if self._is_held else None,
            idempotency_key=f"ag-ui:{self._input.run_id}",
        )
        if receipt["delivered_as"] == "answer":  # it answered a question that was asked just now
            place = await self._service.turn_place(self._caller, self._input.thread_id)
            return _Follow(cursor=place.cursor, turn_id=place.turn_id) if place is not None else _Follow()
        return _Follow(cursor=receipt["cursor"], message_id=user.id)

    @property
    def _is_held(self) -> bool:
        """Whether a failed turn holds the inbox. Its person has seen that, and a message of theirs means: go on."""
        state = self._snapshot["state"] or {}
        return bool(state.get("held")) and "turn_id" not in state

    async def _release(self, message_id: str) -> None:
        """Let a message that waits behind a failed turn go on."""
        if not self._is_held:
            return
        with contextlib.suppress(NotFoundError, RequestConflictError):  # somebody else was faster
            await self._service.deliver(self._caller, self._input.thread_id, message_id, delivery="interrupt")

    async def history(self, turn_id: str | None) -> list[JsonObject]:
        """Return the conversation without a turn, as a client is to show it."""
        pages: list[list[JsonObject]] = []
        size = 0
        async for page in self._pages():
            pages.append(page)
            size += sum(len(part.get("text", "")) for message in page for part in message["parts"])
            if size >= MAX_HISTORY_BYTES:
                break
        return [
            shown
            for page in reversed(pages)
            for message in page
            if message["turn_id"] != turn_id
            for shown in ag_ui_messages(message)
        ]

    async def _pages(self) -> AsyncIterator[list[JsonObject]]:
        """Yield the session's messages in pages, the newest first."""
        before = None
        while True:
            page = await self._service.messages(self._caller, self._input.thread_id, before=before, limit=PAGE)
            yield page["messages"]
            before = page.get("next_before")
            if before is None:
                return

    async def _find_turn(self, message_id: str) -> str | None:
        """Return the turn that has a message, however old."""
        async for page in self._pages():
            if (found := _turn_in(page, message_id)) is not None:
                return found
        return None

    async def _turn_of(self, interrupt_id: str) -> str | None:
        """Return the turn that an interrupt belongs to, as its call's id tells; None for what was never asked."""
        found = _CALL_OF.fullmatch(interrupt_id)
        version = version_of(found.group(1)) if found else None
        if version is None:
            return None
        session_id = self._input.thread_id
        after = Cursor(version=version).encode(session_id)
        try:
            feed = await self._service.feed(self._caller, session_id, after=after, limit=1)
        except InvalidRequestError:
            return None  # it names a version that the session has not come to
        events = getattr(feed.items[0], "events", ()) if feed.items else ()
        return next((event["turn_id"] for event in events if "turn_id" in event), None)

    async def _place(self, turn_id: str) -> str | None:
        place = await self._service.turn_place(self._caller, self._input.thread_id, turn_id)
        return place.cursor if place is not None else None

    def _turn_with(self, message_id: str) -> str | None:
        """Return the turn that has a message, if that is among the newest ones."""
        return _turn_in(self._snapshot["messages"], message_id)

    def _is_queued(self, message_id: str) -> bool:
        return any(waiting["message_id"] == message_id for waiting in self._snapshot["inbox"])

    def _warn(self, code: str, message: str, **about: str) -> None:
        self._warnings.append({"code": code, "message": message, **about})


def _turn_in(messages: Sequence[JsonObject], message_id: str) -> str | None:
    found = (m for m in reversed(messages) if m["message_id"] == message_id and m.get("status") != "rehomed")
    return next((str(message["turn_id"]) for message in found), None)


def _number(turn_id: str | None) -> int:
    number = (turn_id or "").removeprefix("turn-")
    return int(number) if number.isdigit() else 0
