"""The segments of an answer while it streams: a run of deltas of one kind, and one part of the stored message each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from perdure.agents.runner import ModelOutcome
from perdure.core.items import file_part
from perdure.models.base import Delta, ReasoningDelta, TextDelta, ToolArgumentsDelta
from perdure.models.surrogates import mended

JsonObject = dict[str, Any]


@dataclass(slots=True)
class _Segment:
    kind: str
    part: int
    pieces: list[str] = field(default_factory=list)


class Segments:
    """What a provider call has shown so far (spec MODEL-15).

    Segments are numbered from 0. Another one begins when the kind changes, or the provider begins another part. A call
    that begins anew, after a cut, counts from 0 again.
    """

    def __init__(self) -> None:
        self._segments: list[_Segment] = []
        self._drafts = False

    def __bool__(self) -> bool:
        return bool(self._segments) or self._drafts

    def take(self, delta: Delta) -> tuple[str, JsonObject] | None:
        """Add a delta, and return type and payload of the event that shows it; None: it holds nothing."""
        if isinstance(delta, ToolArgumentsDelta):
            self._drafts = True
            name = {} if delta.tool_name is None else {"tool_name": delta.tool_name}
            return "tool.arguments_delta", {"index": delta.index, **name, "text": delta.text}
        if not delta.text:
            return None
        segment = self._take(delta)
        return f"{self._segments[segment].kind}_delta", {"text": delta.text, "segment": segment}

    def _take(self, delta: TextDelta | ReasoningDelta) -> int:
        kind = "text" if isinstance(delta, TextDelta) else "reasoning"
        last = self._segments[-1] if self._segments else None
        if last is None or (last.kind, last.part) != (kind, delta.part):
            last = _Segment(kind, delta.part)
            self._segments.append(last)
        last.pieces.append(delta.text)
        return len(self._segments) - 1

    def clear(self) -> None:
        """Forget what was shown, drafts of calls included."""
        self._segments.clear()
        self._drafts = False

    def said(self, kind: str) -> str:
        """Return all that was shown of one kind, `text` or `reasoning`."""
        return "".join(piece for segment in self._segments if segment.kind == kind for piece in segment.pieces)

    def parts(self) -> tuple[JsonObject, ...]:
        """Return the segments as the parts of a message."""
        return tuple({"type": s.kind, "text": mended("".join(s.pieces))} for s in self._segments)

    def parts_of(self, outcome: ModelOutcome) -> tuple[JsonObject, ...]:
        """Return what a model said as the parts of its message: the segments that were shown, in their order.

        A runner that showed something else than its outcome says is taken at its outcome.
        """
        shown = (self.said("reasoning"), self.said("text")) == (outcome.reasoning, outcome.text)
        parts = self.parts() if shown else _whole(outcome)
        return (*parts, *(file_part(file) for file in outcome.files))


def _whole(outcome: ModelOutcome) -> tuple[JsonObject, ...]:
    said = (("reasoning", outcome.reasoning), ("text", outcome.text))
    return tuple({"type": kind, "text": mended(text)} for kind, text in said if text)
