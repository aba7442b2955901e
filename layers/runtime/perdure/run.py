"""One turn as an iterator: send a message, and have what comes of it until the turn is over (spec API-07).

It works on what every client has, events and messages, and so is the same in the process of the runtime and over HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError
from perdure.patient_reads import patiently
from perdure.run_items import Decision, Fragment, RunMessage, Words

if TYPE_CHECKING:
    from perdure.session import Receipt, Session, SessionEvent

JsonObject = dict[str, Any]

Approve = Callable[[JsonObject], Decision | bool | Awaitable[Decision | bool | None] | None]
"""Decides on an approval, as `pending_interrupts` of the snapshot shows it. None: leaves it to somebody else."""

AnswerQuestion = Callable[[JsonObject], str | Decision | Awaitable[str | Decision | None] | None]
"""Answers a question; `Decision(approved=False)` declines it. None: leaves it to somebody else."""

NOBODY_APPROVES = "nobody is there to approve this: the program that runs this turn was not given anybody to ask"
NOBODY_ANSWERS = "nobody is there to answer this: the program that runs this turn was not given anybody to ask"

PAGE = 200
"""Messages that are read at a time."""

_TELL_OF_MESSAGES = ("model_finished", "tool_call_finished", "turn_started", "inbox.joined")
_ENDS = ("turn_completed", "turn_failed", "turn_cancelled", "turn_steered")
_DECIDED_ELSEWHERE = ("not_pending", "deadline_passed")


class Run:
    """One turn, item by item: `async for item in session.run("Refund order 7", approve=ask)`.

    Items are `Fragment`, `RunMessage` and `SessionEvent`; each has a `type`. The message is sent when the first one is
    asked for. Leaving the loop, `aclose()` and cancellation never stop the turn: it goes on, unless `stop()` or the
    `abort` event stop it. An error of a callback rises from the loop and leaves the question open.

    Attributes:
        receipt: Proof that the message was accepted; None before that.
        turn_id: The turn of the message; None while it waits for one.
        cursor: Stands behind the last event that was given; `session.events(after=…)` goes on from there.
    """

    def __init__(
        self,
        session: Session,
        send: Callable[[], Awaitable[Receipt]],
        *,
        approve: Approve | None,
        answer: AnswerQuestion | None,
        abort: asyncio.Event | None,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.receipt: Receipt | None = None
        self.turn_id: str | None = None
        self.cursor: str | None = None
        self._session = session
        self._send = send
        self._approve = approve
        self._answer = answer
        self._abort = abort
        self._sleep = sleep
        self._words = Words()
        self._sequence = 0
        self._unshown: list[JsonObject] = []
        self._deciding: dict[str, asyncio.Future[None]] = {}
        self._ended_turn: str | None = None
        self._items = self._run()

    def __aiter__(self) -> AsyncIterator[Fragment | RunMessage | SessionEvent]:
        return self

    async def __anext__(self) -> Fragment | RunMessage | SessionEvent:
        return await anext(self._items)

    async def aclose(self) -> None:
        """Look no longer. The turn goes on."""
        await self._items.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def stop(self) -> JsonObject:
        """Stop the turn at what was given so far, or take the message back that still waits; then go on reading.

        Returns `{"result": …}` (surface §4); `idle` before the message was sent.
        """
        if self.receipt is None:
            return {"result": "idle"}
        named = {"turn_id": self.turn_id} if self.turn_id else {"message_id": self.receipt.message_id}
        frontier = self.cursor if self.turn_id else None
        key = secrets.token_hex(16)
        return await patiently(lambda: self._session.stop(frontier=frontier, idempotency_key=key, **named), self._sleep)

    async def result(self) -> JsonObject:
        """Read to the end of the turn, and return it as `session.turn` does: status, answer, error, usage.

        Raises:
            NotFoundError: `turn_not_found`: the message was taken back before it had a turn.
        """
        async for _ in self:
            pass
        if self._ended_turn is None:
            raise NotFoundError("the message was taken back before a turn began with it", code="turn_not_found")
        turn_id = self._ended_turn
        return await patiently(lambda: self._session.turn(turn_id), self._sleep)

    async def _run(self) -> AsyncGenerator[Fragment | RunMessage | SessionEvent, None]:
        receipt = self.receipt = await self._send()
        self.cursor = receipt.cursor
        events = cast("AsyncGenerator[SessionEvent]", self._session.events(after=receipt.cursor))
        aborting = asyncio.ensure_future(self._stop_when_asked()) if self._abort is not None else None
        coming = asyncio.ensure_future(anext(events, None))
        try:
            while True:
                beside: list[asyncio.Future[Any]] = [
                    *self._deciding.values(),
                    *([aborting] if aborting is not None else []),
                ]
                await asyncio.wait({coming, *beside}, return_when=asyncio.FIRST_COMPLETED)
                for task in (task for task in beside if task.done()):
                    task.result()  # what went wrong there is told here
                self._deciding = {name: task for name, task in self._deciding.items() if not task.done()}
                aborting = None if aborting is None or aborting.done() else aborting
                if not coming.done():
                    continue
                event = coming.result()
                if event is None:
                    return
                coming = asyncio.ensure_future(anext(events, None))
                if self._is_ours(event, receipt):
                    async for item in self._shown(event):
                        yield item
                self.cursor = event.cursor
        finally:
            open_tasks: set[asyncio.Future[Any]] = {
                coming,
                *self._deciding.values(),
                *([aborting] if aborting is not None else []),
            }
            for task in open_tasks:
                task.cancel()
            await asyncio.wait(open_tasks)
            for task in open_tasks:
                task.cancelled() or task.exception()  # looked at, or asyncio complains of it
            await events.aclose()

    async def _stop_when_asked(self) -> None:
        assert self._abort is not None
        await self._abort.wait()
        await self.stop()

    def _is_ours(self, event: SessionEvent, receipt: Receipt) -> bool:
        """Whether an event is of the message while it waits, or of its turn, or of the session while that runs."""
        named = {event.payload.get("message_id"), *event.payload.get("message_ids", ())}
        mine = receipt.message_id in named
        if self.turn_id is None:
            begins = mine and event.type in ("turn_started", "inbox.joined")
            if event.turn_id is not None and (begins or event.turn_id == receipt.turn_id):
                self.turn_id = event.turn_id
                self._sequence = self._before(event)
        return mine if self.turn_id is None else event.turn_id in (self.turn_id, None)

    def _before(self, event: SessionEvent) -> int:
        """Return a sequence before which no message of the run is."""
        sequence = int(event.payload.get("sequence", 0))
        return max(0, sequence - max(1, len(event.payload.get("message_ids", ()))))

    async def _shown(self, event: SessionEvent) -> AsyncIterator[Fragment | RunMessage | SessionEvent]:
        if event.type in ("text_delta", "reasoning_delta"):
            kind = "text" if event.type == "text_delta" else "reasoning"
            step, attempt = event.step_execution_id, event.attempt
            yield self._words.heard(kind, event.payload["text"], step, attempt)  # type: ignore[arg-type]
            return
        if event.type == "attempt_reset" and event.sequence is None:
            self._words.begin_again()
        if event.type == "turn_started":
            yield event
        if event.sequence is not None and event.type in (*_TELL_OF_MESSAGES, *_ENDS):
            async for item in self._whole_messages(event):
                yield item
        if event.type in _ENDS:
            self._end(event)
        elif event.type == "interrupt_raised":
            self._decide_on(event.payload["interrupt_id"])
        elif event.type == "interrupt_resolved":
            asked = self._deciding.pop(event.payload["interrupt_id"], None)
            if asked is not None:
                asked.cancel()  # somebody else was quicker
        if event.type != "turn_started":
            yield event

    def _end(self, event: SessionEvent) -> None:
        self._ended_turn = self.turn_id
        if self.receipt is not None and self.receipt.message_id in event.payload.get("rehomed", ()):
            self.turn_id = self._ended_turn = None  # it waits again, for a turn of its own
            self._words = Words()

    async def _whole_messages(self, event: SessionEvent) -> AsyncIterator[Fragment | RunMessage]:
        """Yield the turn's messages that were committed by the time of an event; at its end all of them."""
        if event.type in _ENDS or not self._unshown or self._unshown[0]["created_at"] > event.at:
            self._unshown = await self._unread_messages()
        while self._unshown and (event.type in _ENDS or self._unshown[0]["created_at"] <= event.at):
            message = self._unshown.pop(0)
            self._sequence = message["sequence"]
            if message["role"] == "assistant":
                for fragment in self._words.completed_by(message):
                    yield fragment
            yield RunMessage(message=message)

    async def _unread_messages(self) -> list[JsonObject]:
        found: list[JsonObject] = []
        before: str | None = None
        while True:
            page = await patiently(partial(self._session.messages, before, limit=PAGE), self._sleep)
            found = [*page["messages"], *found]
            before = page.get("next_before")
            if before is None or not page["messages"] or page["messages"][0]["sequence"] <= self._sequence + 1:
                return [m for m in found if m["sequence"] > self._sequence and m["turn_id"] == self.turn_id]

    def _decide_on(self, interrupt_id: str) -> None:
        if interrupt_id not in self._deciding:
            self._deciding[interrupt_id] = asyncio.ensure_future(self._decide(interrupt_id))

    async def _decide(self, interrupt_id: str) -> None:
        """Have a callback decide, and say so; what was decided elsewhere meanwhile stands."""
        snapshot = await patiently(self._session.snapshot, self._sleep)
        asked = [i for i in snapshot["pending_interrupts"] if i["interrupt_id"] == interrupt_id]
        if not asked or asked[0]["kind"] == "input":
            return  # decided already, or a value for the application, which is no matter of a turn
        interrupt = asked[0]
        if interrupt["kind"] == "approval":
            verdict = await _asked(self._approve, interrupt, Decision(approved=False, message=NOBODY_APPROVES))
        else:
            verdict = await _asked(self._answer, interrupt, Decision(approved=False, message=NOBODY_ANSWERS))
        if verdict is None:
            return
        key = secrets.token_hex(16)
        with _unless_decided_elsewhere():
            await patiently(lambda: self._said(interrupt, verdict, key), self._sleep)

    async def _said(self, interrupt: JsonObject, verdict: Decision | bool | str, key: str) -> JsonObject:
        interrupt_id = interrupt["interrupt_id"]
        if isinstance(verdict, str):
            return await self._session.answer(interrupt_id, verdict, idempotency_key=key)
        decision = verdict if isinstance(verdict, Decision) else Decision(approved=verdict)
        return await self._session.resolve(
            interrupt_id,
            approved=decision.approved,
            message=decision.message,
            arguments=decision.arguments,
            arguments_hash=interrupt.get("arguments_hash"),
            idempotency_key=key,
        )


@contextlib.contextmanager
def _unless_decided_elsewhere() -> Iterator[None]:
    try:
        yield
    except RequestConflictError as error:
        if error.code not in _DECIDED_ELSEWHERE:
            raise


async def _asked(callback: Callable[[JsonObject], Any] | None, interrupt: JsonObject, absent: Decision) -> Any:
    """Return what a callback says. A plain function runs on a thread, so that one which waits holds nothing up."""
    if callback is None:
        return absent
    if inspect.iscoroutinefunction(callback):
        return await callback(interrupt)
    said = await asyncio.to_thread(callback, interrupt)
    return await said if inspect.isawaitable(said) else said


class SessionRuns:
    """`run`, for a `Session`."""

    _sleep: Callable[[float], Awaitable[None]]

    def run(
        self,
        text: str,
        *,
        approve: Approve | None = None,
        answer: AnswerQuestion | None = None,
        thinking_level: str | None = None,
        abort: asyncio.Event | None = None,
        idempotency_key: str | None = None,
        message_id: str | None = None,
        agent: str | None = None,
        delivery: str | None = None,
        metadata: JsonObject | None = None,
        files: Sequence[JsonObject] = (),
        settings: JsonObject | None = None,
        run_settings: JsonObject | None = None,
    ) -> Run:
        """Send a message and iterate over what comes of it: fragments, whole messages and events, to the turn's end.

        Nothing is sent before the first item is asked for. With the key of an earlier run it is that turn once more,
        from its start, whether it is over or not.

        Args:
            approve: Decides on each approval: a function of the interrupt, plain or async, that returns a bool, a
                `Decision`, or None to leave it to somebody else. Absent: each is refused, and the model is told why.
            answer: Answers each question in the same way, with text. Absent: each is declined.
            thinking_level: Of this turn: one of the `reasoning_levels` of the model (`GET /v1/agents`).
            abort: Once it is set, the turn is stopped at what was given, and the items go on to its end.
            delivery: As of `send`, but not `passive`, which starts no turn.

        The other arguments are those of `send`.
        """
        if delivery == "passive":
            raise InvalidRequestError("a passive message starts no turn, so there is nothing to run: use send")
        own = dict(run_settings or {})
        if thinking_level is not None:
            own["model_settings"] = {**own.get("model_settings", {}), "reasoning_effort": thinking_level}
        session = cast("Session", self)
        key = secrets.token_hex(16) if idempotency_key is None else idempotency_key

        async def send() -> Receipt:
            return await session.send(
                text,
                idempotency_key=key,
                message_id=message_id,
                agent=agent,
                delivery=delivery,
                metadata=metadata,
                files=files,
                settings=settings,
                run_settings=own or None,
            )

        return Run(session, send, approve=approve, answer=answer, abort=abort, sleep=self._sleep)
