"""What every step gets, and the message that asks for one."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from perdure.agents.definition import AgentRegistry
from perdure.core.expected import Dispatch
from perdure.core.history import Transcript
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

    def take(self, key: SessionKey) -> Transcript:
        return self._kept.pop(key, None) or Transcript()

    def put_back(self, key: SessionKey, transcript: Transcript) -> None:
        self._kept[key] = transcript
        while len(self._kept) > self._capacity:
            self._kept.popitem(last=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDeps:
    """The ports and agents of one deployment."""

    ports: Ports
    agents: AgentRegistry
    transcripts: Transcripts = field(default_factory=Transcripts)
