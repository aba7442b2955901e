"""What a run of a turn consists of: fragments of text, whole messages and events; and what people decide in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

JsonObject = dict[str, Any]

_KINDS: tuple[Literal["text", "reasoning"], ...] = ("text", "reasoning")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """A piece of the agent's words, as they come.

    Attributes:
        type: `text` or `reasoning`.
        restart: What was given of this type since the last whole message is void: this is where it begins anew. Put
            together with that in mind, the fragments of a message are its text, also where a piece was missed live.
        step_execution_id: The model step that says it. None: it was missed, and comes out of the message.
    """

    type: Literal["text", "reasoning"]
    text: str
    restart: bool = False
    step_execution_id: str | None = None
    attempt: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMessage:
    """A whole message of the turn, the user's own included, in the shape of surface §4.2."""

    message: JsonObject
    type: Literal["message"] = "message"

    @property
    def text(self) -> str:
        """Its text, without calls, results and files."""
        return "".join(part["text"] for part in self.message["parts"] if part["type"] == "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a callback of a run decides on an approval, or that it declines a question (`approved=False`).

    Attributes:
        message: A word to the model, with either decision.
        arguments: The approved call runs with these instead.
    """

    approved: bool
    message: str | None = None
    arguments: JsonObject | None = None


class Words:
    """The agent's words of one message: what has been given of them, and what that lacks once it is whole."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}
        self._void: set[str] = set()
        self._of: tuple[str | None, int | None] | None = None

    def begin_again(self) -> None:
        """Take note that what has been given is no part of the message."""
        self._void |= {kind for kind, text in self._given.items() if text}
        self._given = {}

    def heard(self, kind: Literal["text", "reasoning"], text: str, step: str | None, attempt: int | None) -> Fragment:
        """Return the fragment for a piece that came live."""
        if self._of not in (None, (step, attempt)):
            self.begin_again()
        self._of = (step, attempt)
        self._given[kind] = self._given.get(kind, "") + text
        return Fragment(type=kind, text=text, restart=self._was_void(kind), step_execution_id=step, attempt=attempt)

    def completed_by(self, message: JsonObject) -> list[Fragment]:
        """Return the fragments that bring what was given to what the message says, and begin with the next one."""
        fragments: list[Fragment] = []
        for kind in reversed(_KINDS):
            whole = "".join(part["text"] for part in message["parts"] if part["type"] == kind)
            given = self._given.get(kind, "")
            fits = whole.startswith(given) and kind not in self._void
            missing = whole[len(given) :] if fits else whole
            if missing or not fits:
                fragments.append(Fragment(type=kind, text=missing, restart=not fits))
        self._given, self._void, self._of = {}, set(), None
        return fragments

    def _was_void(self, kind: str) -> bool:
        void = kind in self._void
        self._void.discard(kind)
        return void
