"""What the end of an AG-UI run tells: what it waits for, and what it used."""

from __future__ import annotations

from typing import Any

from perdure.core.head import Head
from perdure.streams.ag_ui_messages import OUR_METADATA

JsonObject = dict[str, Any]

MAX_SHOWN_ARGUMENTS = 300
"""Of a call's arguments in the text that asks for its approval, in characters. The call itself has all of them."""

_FIGURES = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cachedInputTokens": "cached_input_tokens",
    "reasoningTokens": "reasoning_tokens",
}


def waits_for_people(head: Head) -> bool:
    """Whether a turn can't go on before somebody has decided or answered: nothing of it runs, and no time will help."""
    turn = head.turn
    if turn is None or turn.step is not None or turn.stop is not None or turn.steer or not turn.open_calls:
        return False
    return all(call.status in ("awaiting_approval", "awaiting_answer") for call in turn.open_calls)


def is_of_a_turn(raised: JsonObject) -> bool:
    """Whether a turn waits for what was asked. What an application asks for of itself holds up no run."""
    return raised.get("tool_call_id") is not None


def interrupt_of(raised: JsonObject, arguments: str | None = None) -> JsonObject:
    """Return a pending interrupt of ours, or the payload of its `interrupt_raised`, as one of AG-UI.

    Args:
        arguments: Those of its call, as text; shown with what is asked.
    """
    kept = ("kind", "tool_name", "arguments_hash", "choices", "allows_free_text")
    shown: JsonObject = {
        "id": raised["interrupt_id"],
        "reason": "tool_call" if raised["kind"] == "approval" else "input_required",
        "message": _message(raised, arguments),
        "toolCallId": raised["tool_call_id"],
        "responseSchema": _approval_schema() if raised["kind"] == "approval" else _answer_schema(raised),
    }
    if "deadline" in raised:
        shown["expiresAt"] = raised["deadline"]
    return shown | {"metadata": {OUR_METADATA: {name: raised[name] for name in kept if name in raised}}}


def _message(raised: JsonObject, arguments: str | None) -> str:
    if raised["kind"] != "approval":
        return str(raised.get("question", ""))
    call = f"{raised['tool_name']} {arguments}" if arguments else str(raised["tool_name"])
    if len(call) > MAX_SHOWN_ARGUMENTS:
        call = call[: MAX_SHOWN_ARGUMENTS - 1] + "…"
    return f"May this run? {call}"


def _approval_schema() -> JsonObject:
    return {
        "type": "object",
        "properties": {
            "approved": {"type": "boolean"},
            "message": {"type": "string", "description": "A word to the model."},
            "editedArgs": {"type": "object", "description": "Runs with these instead, all of them."},
        },
        "required": ["approved"],
    }


def _answer_schema(raised: JsonObject) -> JsonObject:
    answer: JsonObject = {"type": "string", "minLength": 1}
    if raised.get("choices"):
        answer["examples" if raised.get("allows_free_text") else "enum"] = raised["choices"]
    return {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}


class RunUsage:
    """What the model calls of one run used. A count that one of them did not report is left out."""

    def __init__(self) -> None:
        self._sums: dict[str, int | None] = {}
        self._calls = 0

    def add(self, figures: JsonObject) -> None:
        """Count one call, as `usage_recorded` tells of it."""
        self._calls += 1
        for name, ours in _FIGURES.items():
            value = figures.get(ours, {}).get("value")
            so_far = self._sums.get(name, 0)
            self._sums[name] = None if value is None or so_far is None else so_far + value

    def entries(self) -> list[JsonObject]:
        """Return it as AG-UI tells it; nothing when no call reported anything."""
        counts = {name: value for name, value in self._sums.items() if value is not None}
        if "inputTokens" in counts and "outputTokens" in counts:
            counts["totalTokens"] = counts["inputTokens"] + counts["outputTokens"]
        return [counts] if counts else []
