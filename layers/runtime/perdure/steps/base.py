"""What every step gets, and the message that asks for one."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from perdure.agents.definition import AgentRegistry
from perdure.core.commands import ToolFinished
from perdure.core.entries import Entry
from perdure.core.expected import Dispatch
from perdure.core.history import HistoryOptions, Transcript
from perdure.ports import Ports, SessionKey


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMessage:
    """A hint that a step's attempt may be ready. Ids only; HEAD decides whether it is true."""

    key: SessionKey
    kind: str
    step_id: str
    attempt: int

    @classmethod
    def of(cls, key: SessionKey, dispatch: Dispatch) -> StepMessage:
        return cls(key=key, kind=dispatch.kind, step_id=dispatch.step_id, attempt=dispatch.attempt)


class Transcripts:
    """Conversations that this process has projected before, so that a warm session reads only what is new.

    Safe because entries never change and versions are never used again. A transcript is taken out while it is in
    use, so two steps never share one. Keeps the `capacity` sessions that were used last.
    """

    def __init__(self, capacity: int = 256) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[SessionKey, Transcript] = OrderedDict()

    def version(self, key: SessionKey) -> int:
        """Return the version up to which a conversation is known; 0: not at all, or it is in use."""
        transcript = self._kept.get(key)
        return transcript.version if transcript is not None else 0

    def take(self, key: SessionKey, options: HistoryOptions) -> Transcript:
        kept = self._kept.pop(key, None)
        return kept if kept is not None and kept.options == options else Transcript(options)

    def add(self, key: SessionKey, entry: Entry) -> None:
        """Take an entry that this process has just committed, if it is the next one."""
        transcript = self._kept.get(key)
        if transcript is not None and transcript.version + 1 == entry.version:
            transcript.extend((entry,))

    def put_back(self, key: SessionKey, transcript: Transcript) -> None:
        self._kept[key] = transcript
        while len(self._kept) > self._capacity:
            self._kept.popitem(last=False)


class Line:
    """Outcomes of one session's tools that ended in this process and wait to be committed."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting: list[ToolFinished] = []


class Lines:
    """The lines of one process. One in which nobody stands takes no memory."""

    def __init__(self) -> None:
        self._lines: WeakValueDictionary[SessionKey, Line] = WeakValueDictionary()

    def __call__(self, key: SessionKey) -> Line:
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line()
        return line


@dataclass(frozen=True, slots=True, kw_only=True)
class HotTurn:
    """Whether a model step's worker goes on with the next step itself (design §3).

    `any_tool`: it runs every tool that is alone ready. Else only those that say `inline=True`, because a tool that
    runs here needs this worker's permissions.
    """

    any_tool: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDeps:
    """The ports and agents of one deployment. `hot` None: every step goes through the queue."""

    ports: Ports
    agents: AgentRegistry
    hot: HotTurn | None = None
    transcripts: Transcripts = field(default_factory=Transcripts)
    lines: Lines = field(default_factory=Lines)
