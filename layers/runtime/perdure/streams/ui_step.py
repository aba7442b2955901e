"""One step of a UI message as a client has it: what was shown live, completed from the committed message.

What is kept of a text is its length and check sum, never the text, so that the state stays small.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

JsonObject = dict[str, Any]

TEXTS = ("text", "reasoning")
"""Types of parts that come in deltas."""


@dataclass(slots=True)
class ShownText:
    """A text or reasoning part that the client has, as far as it has come."""

    kind: str
    length: int = 0
    check: int = 0

    def add(self, text: str) -> None:
        self.length += len(text)
        self.check = zlib.crc32(text.encode("utf-8", "surrogatepass"), self.check)

    def begins(self, kind: str, text: str) -> bool:
        """Whether a text of this kind begins with what was shown."""
        if kind != self.kind or len(text) < self.length:
            return False
        return zlib.crc32(text[: self.length].encode("utf-8", "surrogatepass")) == self.check


@dataclass(slots=True)
class Step:
    """A model step whose `start-step` the client has.

    Attributes:
        step_id: Empty for one of which only the message is known.
        seen: `progress_sequence` of the last live event that was taken.
        blind: Live text is not shown any more, because some is missing or the attempt is over.
        done: The model's part of it was committed; what follows are its calls.
        retry: Number of the last reconnect that was told.
        segment: Number of the live segment that the last part shows; None: it was not told.
        shown: Its text and reasoning parts; only the last one may still be open.
    """

    step_id: str
    attempt: int = 1
    seen: int = 0
    blind: bool = False
    done: bool = False
    retry: int = 0
    segment: int | None = None
    shown: list[ShownText] = field(default_factory=list)

    @property
    def place(self) -> tuple[str, int]:
        """Its id and attempt."""
        return self.step_id, self.attempt

    def delta(self, kind: str, text: str, segment: int | None) -> list[JsonObject]:
        """Show a live piece of text; another segment, or another kind than before, begins another part."""
        if not text:
            return []
        chunks: list[JsonObject] = []
        if not self.shown or (self.shown[-1].kind, self.segment) != (kind, segment):
            chunks += self._close()
            self.shown.append(ShownText(kind))
            self.segment = segment
            chunks.append({"type": f"{kind}-start", "id": self._id()})
        self.shown[-1].add(text)
        chunks.append({"type": f"{kind}-delta", "id": self._id(), "delta": text})
        return chunks

    def reset(self) -> list[JsonObject]:
        """Take back what was shown of it."""
        if not self.shown:
            return []
        self.shown.clear()
        return [{"type": "reset-step"}]

    def again(self, attempt: int) -> list[JsonObject]:
        """Begin another attempt."""
        self.attempt, self.seen, self.blind = attempt, 0, False
        return self.reset()

    def follows(self, progress_sequence: int | None) -> bool:
        """Take the number of a live event; False: it was taken before, or nothing live is shown any more."""
        if progress_sequence is not None:
            if progress_sequence <= self.seen:
                return False
            self.blind = self.blind or progress_sequence > self.seen + 1  # the commit brings what is missing
            self.seen = progress_sequence
        return not (self.blind or self.done)

    def complete(self, parts: Iterable[JsonObject]) -> list[JsonObject]:
        """Show the rest of the committed texts; all of them anew if other text was shown."""
        texts = [(part["type"], part["text"]) for part in parts if part["type"] in TEXTS and part["text"]]
        chunks = [] if self._fits(texts) else self.reset()
        begun = len(self.shown)
        if begun:
            chunks += self._rest(texts[begun - 1][1])
        for kind, text in texts[begun:]:
            self.shown.append(ShownText(kind))
            chunks += [{"type": f"{kind}-start", "id": self._id()}, *self._rest(text)]
        self.done = True
        return chunks

    def _rest(self, text: str) -> list[JsonObject]:
        """Show what is missing of the last part, and close it."""
        shown = self.shown[-1]
        rest = text[shown.length :]
        shown.add(rest)
        delta = [{"type": f"{shown.kind}-delta", "id": self._id(), "delta": rest}] if rest else []
        return [*delta, {"type": f"{shown.kind}-end", "id": self._id()}]

    def _fits(self, texts: Sequence[tuple[str, str]]) -> bool:
        """Whether the texts begin with what was shown: whole parts, and a piece of the last."""
        if len(self.shown) > len(texts):
            return False
        pairs = list(zip(self.shown, texts, strict=False))
        if not all(shown.begins(kind, text) for shown, (kind, text) in pairs):
            return False
        return all(shown.length == len(text) for shown, (_, text) in pairs[:-1])

    def _close(self) -> list[JsonObject]:
        return [{"type": f"{self.shown[-1].kind}-end", "id": self._id()}] if self.shown else []

    def _id(self) -> str:
        return f"{self.step_id}-{self.shown[-1].kind}-{len(self.shown)}"

    def state(self) -> JsonObject:
        """Return it as JSON."""
        kept: JsonObject = {"id": self.step_id, "attempt": self.attempt, "seen": self.seen, "retry": self.retry}
        kept |= {name: True for name in ("blind", "done") if getattr(self, name)}
        if self.segment is not None:
            kept["segment"] = self.segment
        return kept | {"shown": [[text.kind, text.length, text.check] for text in self.shown]}

    @classmethod
    def restored(cls, state: JsonObject) -> Step:
        """Return the step of a state."""
        return cls(
            step_id=state["id"],
            attempt=state["attempt"],
            seen=state["seen"],
            blind=state.get("blind", False),
            done=state.get("done", False),
            retry=state["retry"],
            segment=state.get("segment"),
            shown=[ShownText(*text) for text in state["shown"]],
        )
