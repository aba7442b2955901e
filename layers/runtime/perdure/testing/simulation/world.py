"""What is outside of the runtime: the books of what tools really did, and the people who use a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from perdure.agents.tools import ToolContext
from perdure.core.commands import UserCommand
from perdure.core.head import Head
from perdure.testing.virtual_time import LoopClock

Place = Callable[[str], Awaitable[None]]
Told = Callable[[Head], UserCommand | None]


@dataclass
class World:
    """The outside of one run. It outlives every crash.

    Attributes:
        clock: The run's virtual time.
        began: How often a body began, by tool call.
        asked: Of these, how often it then only asked a person, having done nothing.
        parked: Of these, how often it then left off, to go on later.
        attempts: The same by tool call and attempt: an attempt is claimed once, so it begins once.
        effects: How often a body took effect, by tool call. It did so once per idempotency key, however often it ran,
            only if it is an idempotent write.
        pieces: How many pieces of its work a body has done, by tool call.
        overstated: Checkpoints that told of work that nobody had done.
        provider_calls: Requests that the model's provider received.
        complaints: What a body saw that may not be.
        elsewhere: Tools that a provider runs: no body of theirs is here.
        looks_up: Tools that find out whether an attempt of theirs took effect.
        refused: Tool calls whose key the outside takes no more, because somebody was told that nothing had happened.
    """

    clock: LoopClock
    point: Place
    reach: Place
    began: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    parked: Counter[str] = field(default_factory=Counter)
    attempts: Counter[tuple[str, int]] = field(default_factory=Counter)
    effects: Counter[str] = field(default_factory=Counter)
    keys: dict[str, set[str]] = field(default_factory=dict)
    pieces: Counter[str] = field(default_factory=Counter)
    overstated: int = 0
    provider_calls: int = 0
    complaints: list[str] = field(default_factory=list)
    elsewhere: set[str] = field(default_factory=set)
    looks_up: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)

    async def tool(self, context: ToolContext, *, takes: float = 0.0) -> None:
        """Be the body of a tool: a point before its effect, the effect, and a point after it.

        Args:
            takes: Seconds of virtual time between the two points.
        """
        await self.point(f"{context.tool_name}.begins")
        self.began[context.tool_call_id] += 1
        self.attempts[context.tool_call_id, context.attempt] += 1
        self.keys.setdefault(context.tool_call_id, set()).add(context.idempotency_key)
        await self.reach(f"in-{context.tool_name}")
        if takes:
            await self.clock.sleep(takes)
        await self.point(f"{context.tool_name}.takes effect")
        if context.tool_call_id in self.refused:
            raise ConnectionError("this key is taken no more")
        self.effects[context.tool_call_id] += 1
        await self.point(f"{context.tool_name}.took effect")

    async def piecework(self, context: ToolContext, pieces: int) -> None:
        """Do a tool's work piece by piece, with a checkpoint after each; no checkpoint tells of what was not done."""
        begins_at = int(context.checkpoint or "0")
        self.overstated += begins_at > self.pieces[context.tool_call_id]
        for number in range(begins_at, pieces):
            await self.point(f"{context.tool_name}.does a piece")
            self.pieces[context.tool_call_id] = max(self.pieces[context.tool_call_id], number + 1)
            await context.save_checkpoint(str(number + 1))

    async def provider(self, *, takes: float = 0.0) -> int:
        """Be the provider of a model; returns which request it is, from 1."""
        await self.point("model.asked")
        self.provider_calls += 1
        number = self.provider_calls
        await self.reach("in-model")
        if takes:
            await self.clock.sleep(takes)
        return number


class User(Protocol):
    """A client that never gives up: what fails it repeats with the same idempotency key.

    The session is always the same. An answer that says no (HTTP 4xx) is an answer; its code is returned.
    """

    async def send(self, text: str, *, key: str | None = None, **more: str) -> str:
        """Send a message; returns `accepted`, `duplicate` or an error's code."""
        ...

    async def approve(self, approved: bool = True) -> str:
        """Decide on every approval that is open now; returns `resolved`, `nothing` or an error's code."""
        ...

    async def answer(self, text: str) -> str:
        """Answer every question that is open now; returns `resolved`, `nothing` or an error's code."""
        ...

    async def stop(self) -> str:
        """Stop the running turn; returns what the runtime answers."""
        ...

    async def stop_as_shown(self) -> str:
        """Stop the running turn where a screen stands that has shown all events until now (spec STOP-05)."""
        ...

    async def do(self, operation: str, **arguments: Any) -> str:
        """Pause, resume, retry, set a schedule, or change what waits; returns the result or an error's code."""
        ...

    async def inbox(self) -> tuple[str, ...]:
        """Return the ids of the messages that wait."""
        ...

    async def postpone_deadlines(self, by: timedelta) -> bool:
        """Give whoever has to decide more time. The old timers stay set, as they may after a crash.

        Returns:
            False: nobody is asked anything yet.
        """
        ...

    async def waits(self) -> tuple[str, ...]:
        """Return the ids of what can be changed: questions, and calls that wait."""
        ...

    def now(self) -> datetime:
        """Return the virtual time."""
        ...

    async def tell(self, command: Told) -> str:
        """Have trusted code carry out a command on HEAD, if there is one; returns `nothing`, the result or a code."""
        ...

    async def when(self, moment: str) -> None:
        """Return while a body is at a moment (`in-model`, `in-<tool>`), or when nothing happens any more."""
        ...

    async def settled(self) -> None:
        """Return when nothing happens any more by itself."""
        ...

    async def wait(self, time: timedelta) -> None:
        """Return after some virtual time."""
        ...
