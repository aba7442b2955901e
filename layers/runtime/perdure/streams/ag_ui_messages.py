"""Messages as AG-UI clients hold them: made from ours, and as the events of a run build them up.

An answer has the id of its model step where that is known, which it is before the answer is committed, and else our
message's id. Each of its segments is a message: AG-UI's have no parts. Its calls belong to its last text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

JsonObject = dict[str, Any]

HIDDEN = ("superseded", "rehomed")
"""Statuses of messages that are not part of the conversation any more."""

OUR_METADATA = "perdure"
"""Under this name the metadata of AG-UI's events and messages holds what is ours."""


def ag_ui_messages(message: JsonObject, base: str | None = None) -> list[JsonObject]:
    """Return one public message (surface 4.2) as AG-UI messages; none for what is not shown.

    Args:
        base: The id of an answer. None: that of the message.
    """
    if message.get("status") in HIDDEN:
        return []
    if message["role"] == "tool":
        return tool_messages(message)
    base = base or message["message_id"]
    if message["role"] == "user":
        return [{"id": base, "role": "user", "content": _user_content(message["parts"])}]
    shown: list[JsonObject] = [
        {"id": segment_id, "role": role_of(kind), "content": text}
        for kind, segment_id, text in answer_segments(message, base)
    ]
    calls = [tool_call(part) for part in message["parts"] if part["type"] == "tool_call"]
    if calls:
        parent_id = parent_of_calls(message, base)
        if all(segment["id"] != parent_id for segment in shown):
            shown.append({"id": parent_id, "role": "assistant", "content": ""})
        next(segment for segment in shown if segment["id"] == parent_id)["toolCalls"] = calls
    return shown


def role_of(kind: str) -> str:
    """Return the role of a segment's message."""
    return "reasoning" if kind == "reasoning" else "assistant"


def segment_id(base: str, kind: str, number: int) -> str:
    """Return the id of the segment of a kind with this number, from 1."""
    first = f"{base}-reasoning" if kind == "reasoning" else base
    return first if number == 1 else f"{first}.{number}"


def answer_segments(message: JsonObject, base: str) -> list[tuple[str, str, str]]:
    """Return kind, id and text of what an answer says and thinks, in order."""
    numbers = {"text": 0, "reasoning": 0}
    segments: list[tuple[str, str, str]] = []
    for part in message["parts"]:
        if part["type"] in numbers and part["text"]:
            numbers[part["type"]] += 1
            segments.append((part["type"], segment_id(base, part["type"], numbers[part["type"]]), part["text"]))
    return segments


def parent_of_calls(message: JsonObject, base: str) -> str:
    """Return the id of the message that an answer's calls belong to: its last text, or one without words."""
    texts = [segment for kind, segment, _ in answer_segments(message, base) if kind == "text"]
    return texts[-1] if texts else base


def tool_call(part: JsonObject) -> JsonObject:
    """Return one call of a message."""
    return {
        "id": part["tool_call_id"],
        "type": "function",
        "function": {"name": part["tool_name"], "arguments": arguments_of(part)},
    }


def arguments_of(part: JsonObject) -> str:
    """Return a call's arguments as text: JSON, unless the model's own could not be parsed."""
    if "arguments" in part:
        return json.dumps(part["arguments"], ensure_ascii=False, separators=(",", ":"))
    return str(part.get("arguments_text", ""))


def tool_messages(message: JsonObject) -> list[JsonObject]:
    """Return the results that a message holds, each as a message of its own."""
    results = [part for part in message["parts"] if part["type"] == "tool_result"]
    shown: list[JsonObject] = []
    for number, part in enumerate(results):
        result_id = message["message_id"] if number == 0 else f"{message['message_id']}.{number + 1}"
        result: JsonObject = {
            "id": result_id,
            "role": "tool",
            "toolCallId": part["tool_call_id"],
            "content": part["output"],
        }
        about = {name: part[name] for name in ("truncated", "bytes") if name in part}
        if part["status"] != "succeeded":
            about["status"] = part["status"]
        if about:
            result["metadata"] = {OUR_METADATA: about}
        shown.append(result)
    return shown


def _user_content(parts: Sequence[JsonObject]) -> str:
    """Return what a person wrote. Files are our own references, which no client could open."""
    return "".join(part["text"] for part in parts if part["type"] == "text")


class Conversation:
    """What a client shows: its messages, oldest first, kept up with the events that it is sent.

    Args:
        messages: Those that it has.
    """

    def __init__(self, messages: Iterable[JsonObject] = ()) -> None:
        self._messages = [dict(message) for message in messages]
        self._growing: dict[str, list[str]] = {}

    def snapshot(self) -> list[JsonObject]:
        """Return the messages as they are now."""
        for message in self._messages:
            if message["id"] in self._growing:
                message["content"] = self.text(message["id"])
        return [dict(message) for message in self._messages]

    def has(self, message_id: str) -> bool:
        """Whether there is a message with this id."""
        return any(message["id"] == message_id for message in self._messages)

    def has_call(self, call_id: str) -> bool:
        """Whether some message asks for this call."""
        return any(call["id"] == call_id for message in self._messages for call in message.get("toolCalls") or ())

    def arguments_of_calls(self) -> dict[str, str]:
        """Return the arguments of every call, as text, by its id."""
        calls = [call for message in self._messages for call in message.get("toolCalls") or ()]
        return {call["id"]: call["function"]["arguments"] for call in calls}

    def text(self, message_id: str) -> str:
        """Return the text so far of a message that the events have built."""
        pieces = self._growing[message_id]
        if len(pieces) > 1:
            pieces[:] = ["".join(pieces)]
        return pieces[0] if pieces else ""

    def begin(self, message_id: str, role: str) -> None:
        """Take a new message, still empty; one that is there goes on where it was."""
        held = next((message for message in self._messages if message["id"] == message_id), None)
        if held is None:
            self._messages.append({"id": message_id, "role": role, "content": ""})
        if message_id not in self._growing:
            self._growing[message_id] = [held["content"] or ""] if held is not None else []

    def grow(self, message_id: str, delta: str) -> None:
        """Take more text of a message."""
        self._growing[message_id].append(delta)

    def add(self, messages: Iterable[JsonObject]) -> None:
        """Take whole messages; one that is there is replaced at its place."""
        for message in messages:
            self._growing.pop(message["id"], None)
            places = [place for place, held in enumerate(self._messages) if held["id"] == message["id"]]
            if places:
                self._messages[places[0]] = dict(message)
            else:
                self._messages.append(dict(message))

    def call(self, call: JsonObject, parent_id: str) -> None:
        """Take a call of an answer, which is made if it has said nothing."""
        if not self.has(parent_id):
            self._messages.append({"id": parent_id, "role": "assistant", "content": ""})
        parent = next(message for message in self._messages if message["id"] == parent_id)
        parent["toolCalls"] = [*(parent.get("toolCalls") or ()), call]

    def result(self, result: JsonObject) -> None:
        """Take a result, behind the answer that asked for it and the results that are there."""
        place = next(
            (
                index + 1
                for index, message in enumerate(self._messages)
                if any(call["id"] == result["toolCallId"] for call in message.get("toolCalls") or ())
            ),
            len(self._messages),
        )
        while place < len(self._messages) and self._messages[place]["role"] == "tool":
            place += 1
        self._messages.insert(place, dict(result))

    def answers_behind(self, message_id: str) -> list[str]:
        """Return the ids of what agents and tools said behind a message."""
        place = next(index for index, message in enumerate(self._messages) if message["id"] == message_id) + 1
        return [m["id"] for m in self._messages[place:] if m["role"] in ("assistant", "tool", "reasoning")]

    def drop(self, message_ids: Iterable[str]) -> None:
        """Take messages away.

        A client keeps reasoning of which a snapshot has none at all, so the first of the last ones stays, but empty.
        """
        gone = set(message_ids)
        thoughts = [message for message in self._messages if message["role"] == "reasoning"]
        if thoughts and all(message["id"] in gone for message in thoughts):
            thoughts[0]["content"] = ""
            self._growing.pop(thoughts[0]["id"], None)
            gone.remove(thoughts[0]["id"])
        self._messages = [message for message in self._messages if message["id"] not in gone]
        self._growing = {message_id: pieces for message_id, pieces in self._growing.items() if self.has(message_id)}


__all__ = [
    "HIDDEN",
    "OUR_METADATA",
    "Conversation",
    "ag_ui_messages",
    "answer_segments",
    "arguments_of",
    "parent_of_calls",
    "role_of",
    "segment_id",
    "tool_call",
    "tool_messages",
]
