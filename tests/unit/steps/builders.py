"""Agents for the tests of steps; each names only what its test is about."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from typing import Any

from perdure.agents.definition import AgentDefinition
from perdure.core.entries import Actor
from perdure.errors import ModelCallError, StoreUnavailableError
from perdure.models.base import ModelRequest, ModelResponse, ReasoningDelta, TextDelta
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results
from perdure.ports import SessionStore
from perdure.service import Caller
from perdure.testing.clock import VirtualClock

OTHER = Caller(tenant="local", actor=Actor(issuer="local", subject="other"))


def an_agent(*tools: Any, model: Any = None, name: str = "support", **changes: Any) -> AgentDefinition:
    return AgentDefinition(name=name, model=model or ScriptedModel(lambda _: "Hello!"), tools=tools, **changes)


def asking_for(*names: str, answer: str = "done") -> ScriptedModel:
    """A model that asks once a turn for these tools, all together, and answers when it has their results."""
    return ScriptedModel(lambda request: answer if tool_results(request) else Reply(calls=tuple(map(call, names))))


def failing(kind: str = "timeout", *, retryable: bool = True, **more: Any) -> ModelCallError:
    return ModelCallError(f"the provider failed: {kind}", kind=kind, retryable=retryable, **more)


class Provider:
    """A model that notes when it is asked, and gives the next of what it was given; the last one again and again."""

    provider = "stub"
    model = "stub"

    def __init__(self, clock: VirtualClock, *answers: str | Reply | Exception) -> None:
        self._clock = clock
        self._answers = deque(answers)
        self.times: list[float] = []
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        self.times.append(self._clock.now().timestamp())
        self.requests.append(request)
        answer = self._answers.popleft() if len(self._answers) > 1 else self._answers[0]

        def give(_: ModelRequest) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        async for item in ScriptedModel(give, clock=self._clock).stream(request):
            yield item

    @property
    def waits(self) -> list[float]:
        """Seconds between one request and the next."""
        return [round(later - earlier, 3) for earlier, later in pairwise(self.times)]


class HangingModel:
    """Streams what it was given and then nothing more, until its stream is closed."""

    provider = "hanging"
    model = "hanging"

    def __init__(self, *deltas: TextDelta | ReasoningDelta) -> None:
        self._deltas = deltas
        self.waiting = asyncio.Event()
        self.closed = False
        self.calls = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ReasoningDelta | ModelResponse]:
        self.calls += 1
        try:
            for delta in self._deltas:
                yield delta
            self.waiting.set()
            await asyncio.Event().wait()
        finally:
            self.closed = True


class LosingAnswers:
    """A store whose commits land, while the answers to some of them never come.

    Args:
        losing: Says of each commit, by its entry's kind and how many of that kind came before, whether to lose it.
        landing: False: the commits that are lost do not land either.
    """

    def __init__(self, store: SessionStore, losing: Callable[[str, int], bool], *, landing: bool = True) -> None:
        self._store = store
        self._losing = losing
        self._landing = landing
        self._seen: dict[str, int] = {}
        self.lost = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, key: Any, loaded: Any, decision: Any) -> None:
        kind = decision.entry.kind
        before = self._seen[kind] = self._seen.get(kind, -1) + 1
        lose = self._losing(kind, before)
        if self._landing or not lose:
            await self._store.commit(key, loaded, decision)
        if lose:
            self.lost += 1
            raise StoreUnavailableError("no answer came")


def losing_the_first(kind: str) -> Callable[[SessionStore], LosingAnswers]:
    """Return what makes a store lose the answer to the first commit of a kind."""
    return lambda store: LosingAnswers(store, lambda entry_kind, before: entry_kind == kind and before == 0)
