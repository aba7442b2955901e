"""Assertions on what a session did (spec TEST-07), with messages that tell what it did instead.

run = await run_of(session)
run.completed()
run.called("lookup_order", times=1, arguments={"order_id": "7"})
run.succeeded("refund_order")
run.not_called("delete_account")
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from perdure.session import TURN_ENDS, Session

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """One tool call, as the model asked for it. `status` is None while it is not over."""

    turn_id: str
    tool_call_id: str
    tool_name: str
    arguments: JsonObject
    status: str | None = None
    output: str | None = None

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.tool_name}({arguments}): {self.status or 'not over'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a session did, or one turn of it.

    Attributes:
        turns: How each turn ended, by id, in their order: `completed`, `failed`, `cancelled`, or None while it runs.
        calls: Every tool call that the model asked for, in the order of its asking.
        errors: Why turns failed, by turn.
    """

    turns: dict[str, str | None]
    calls: tuple[ToolRun, ...]
    errors: dict[str, str]

    @classmethod
    def of(cls, events: Iterable[JsonObject], messages: Iterable[JsonObject]) -> Run:
        """Read events and transcript, both oldest first; a turn without an end among the events is one that runs."""
        turns: dict[str, str | None] = {}
        calls: dict[str, ToolRun] = {}
        errors: dict[str, str] = {}
        for message in messages:
            turns.setdefault(message["turn_id"], None)
            for part in message["parts"]:
                _take_part(calls, message["turn_id"], part)
        for event in events:
            if event["type"] in TURN_ENDS:
                turns[event["turn_id"]] = event["type"].removeprefix("turn_")
            if event["type"] == "turn_failed":
                error = event["payload"]["error"]
                errors[event["turn_id"]] = f"{error['code']}: {error['message']}"
        return cls(turns=turns, calls=tuple(calls.values()), errors=errors)

    def turn(self, turn_id: str) -> Run:
        """Return the part of one turn."""
        if turn_id not in self.turns:
            raise AssertionError(f"there is no {turn_id}; there are: {', '.join(self.turns) or 'none'}")
        return Run(
            turns={turn_id: self.turns[turn_id]},
            calls=tuple(call for call in self.calls if call.turn_id == turn_id),
            errors={turn: why for turn, why in self.errors.items() if turn == turn_id},
        )

    def completed(self) -> None:
        """Assert that there was a turn, and that all of them are over with an answer.

        Raises:
            AssertionError: It names the turns that are not, how they ended and why.
        """
        if not self.turns:
            raise AssertionError("no turn has started")
        others = [
            f"{turn} {'still runs' if ended is None else ended}{_because(self.errors.get(turn))}"
            for turn, ended in self.turns.items()
            if ended != "completed"
        ]
        if others:
            raise AssertionError(f"not completed: {'; '.join(others)}. {self._what_was_called()}")

    def called(
        self, tool_name: str, *, times: int | None = None, arguments: JsonObject | None = None
    ) -> tuple[ToolRun, ...]:
        """Assert that the model asked for a tool, and return its calls.

        Args:
            times: How often exactly; None: at least once.
            arguments: Only calls with these, others beside them allowed.

        Raises:
            AssertionError: It lists what was called.
        """
        found = tuple(
            call
            for call in self.calls
            if call.tool_name == tool_name and (arguments or {}).items() <= call.arguments.items()
        )
        if len(found) == times or (times is None and found):
            return found
        wanted = f"{tool_name}{f' with {arguments}' if arguments else ''}"
        wish = "at least once" if times is None else f"{times} times"
        raise AssertionError(f"{wanted} was called {len(found)} times, not {wish}. {self._what_was_called()}")

    def not_called(self, tool_name: str) -> None:
        """Assert that the model never asked for a tool.

        Raises:
            AssertionError: It lists what was called.
        """
        if any(call.tool_name == tool_name for call in self.calls):
            raise AssertionError(f"{tool_name} was called. {self._what_was_called()}")

    def succeeded(self, tool_name: str, *, times: int | None = None) -> tuple[ToolRun, ...]:
        """Assert that a tool was called and that every call of it succeeded, and return its calls.

        Raises:
            AssertionError: It lists the calls that did not, with what was said of them.
        """
        calls = self.called(tool_name, times=times)
        others = [f"{call}{_because(call.output)}" for call in calls if call.status != "succeeded"]
        if others:
            raise AssertionError(f"{tool_name} did not always succeed: {'; '.join(others)}")
        return calls

    def _what_was_called(self) -> str:
        return f"Called were: {'; '.join(map(str, self.calls)) or 'no tools'}"


async def run_of(session: Session) -> Run:
    """Read what a session did so far, here or over HTTP. A turn that runs, or waits for a person, is read as it is."""
    state = (await session.snapshot())["state"]
    closed = 0 if state is None else state["turn_count"] - (state["status"] != "waiting_for_user_message")
    ends: list[JsonObject] = []
    if closed:
        async for event in session.events(follow=True):
            if event.type in TURN_ENDS:
                ends.append({"type": event.type, "turn_id": event.turn_id, "payload": event.payload})
            if len(ends) == closed:
                break
    return Run.of(ends, await _all_messages(session))


async def _all_messages(session: Session) -> list[JsonObject]:
    pages: list[list[JsonObject]] = []
    before: str | None = None
    while True:
        page = await session.messages(before, limit=200)
        pages.insert(0, page["messages"])
        before = page.get("next_before")
        if before is None:
            return [message for messages in pages for message in messages]


def _take_part(calls: dict[str, ToolRun], turn_id: str, part: JsonObject) -> None:
    if part["type"] == "tool_call":
        calls[part["tool_call_id"]] = ToolRun(
            turn_id=turn_id,
            tool_call_id=part["tool_call_id"],
            tool_name=part["tool_name"],
            arguments=part.get("arguments") or {},
        )
    elif part["type"] == "tool_result" and part["tool_call_id"] in calls:
        call = calls[part["tool_call_id"]]
        calls[part["tool_call_id"]] = replace(call, status=part["status"], output=part["output"])


def _because(why: str | None) -> str:
    return f" ({why})" if why else ""
