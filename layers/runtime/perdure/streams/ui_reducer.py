"""What the AI SDK's client makes of a UI message stream: chunks in, an assistant message out.

It follows the rules of `ai` 7 (`processUIMessageStream`), so that a page that loads stored messages has the very parts
that it would have had by following the stream. Optional fields that are not set are absent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

JsonObject = dict[str, Any]

_CALL_FIELDS = ("providerExecuted", "toolMetadata")


class BrokenStreamError(ValueError):
    """A client of the AI SDK would give the stream up here."""


class MessageReducer:
    """One assistant message as it grows.

    Args:
        message: What the client has of it already. None: nothing.

    Attributes:
        finish_reason: Of the last `finish`.
        error: Text of an `error`, behind which a client takes nothing.
    """

    def __init__(self, message: JsonObject | None = None) -> None:
        self.message: JsonObject = message or {"id": "", "role": "assistant", "parts": []}
        self.finish_reason: str | None = None
        self.error: str | None = None
        self._open: dict[tuple[str, str], JsonObject] = {}

    @property
    def parts(self) -> list[JsonObject]:
        """The parts of the message, which the reducer changes."""
        parts: list[JsonObject] = self.message["parts"]
        return parts

    def take_all(self, chunks: Iterable[JsonObject]) -> JsonObject:
        """Take chunks and return the message.

        Raises:
            BrokenStreamError: A chunk is about something that the message does not have.
        """
        for chunk in chunks:
            self.take(chunk)
        return self.message

    def take(self, chunk: JsonObject) -> None:
        """Take one chunk."""
        kind: str = chunk["type"]
        if self.error is not None:
            return
        if kind.startswith(("text-", "reasoning-")):
            self._text(kind.partition("-")[0], kind.partition("-")[2], chunk)
        elif kind.startswith("tool-input-"):
            self._input(kind, chunk)
        elif kind.startswith("tool-approval-"):
            self._approval(kind, chunk)
        elif kind.startswith("tool-output-"):
            self._output(kind, chunk)
        elif kind.startswith("data-"):
            self._data(chunk)
        else:
            self._other(kind, chunk)

    def _other(self, kind: str, chunk: JsonObject) -> None:
        if kind == "start":
            self.message["id"] = chunk.get("messageId", self.message["id"])
        elif kind == "start-step":
            self.parts.append({"type": "step-start"})
        elif kind == "reset-step":
            self._open.clear()
            del self.parts[self._step_begins() :]
        elif kind in ("steering-message", "file"):
            fields = ("type", "id", "parts") if kind == "steering-message" else ("type", "mediaType", "url")
            self.parts.append({name: chunk[name] for name in fields})
        elif kind == "finish":
            self.finish_reason = chunk.get("finishReason")
        elif kind == "error":
            self.error = chunk["errorText"]
        elif kind not in ("finish-step", "abort"):
            raise BrokenStreamError(f"a chunk of type {kind!r} is not known")

    def _step_begins(self) -> int:
        starts = [index for index, part in enumerate(self.parts) if part["type"] == "step-start"]
        return starts[-1] + 1 if starts else 0

    def _text(self, kind: str, what: str, chunk: JsonObject) -> None:
        place = kind, chunk["id"]
        if what == "start":
            part: JsonObject = {"type": kind, "text": "", "state": "streaming"}
            self._open[place] = part if kind == "text" else part | {"id": chunk["id"]}
            self.parts.append(self._open[place])
        elif place not in self._open:
            raise BrokenStreamError(f"{chunk['type']} for {chunk['id']!r}, which is not open")
        elif what == "delta":
            self._open[place]["text"] += chunk["delta"]
        else:
            self._open.pop(place)["state"] = "done"

    def _input(self, kind: str, chunk: JsonObject) -> None:
        call_id = chunk["toolCallId"]
        step = self.parts[self._step_begins() :]
        part = next((p for p in step if p["type"] == "dynamic-tool" and p["toolCallId"] == call_id), None)
        if part is None:
            part = {"type": "dynamic-tool", "toolCallId": call_id}
            self.parts.append(part)
        failed = kind == "tool-input-error"
        part |= {"toolName": chunk["toolName"], "input": chunk["input"]}
        part |= {name: chunk[name] for name in _CALL_FIELDS if name in chunk}
        _settle(part, "output-error" if failed else "input-available", errorText=chunk.get("errorText"))

    def _approval(self, kind: str, chunk: JsonObject) -> None:
        if kind == "tool-approval-request":
            part = self._call(chunk["toolCallId"])
            part["state"] = "approval-requested"
            part["approval"] = {"id": chunk["approvalId"]}
            if chunk.get("isAutomatic"):
                part["approval"]["isAutomatic"] = True
            return
        approval_id = chunk["approvalId"]
        asked = (
            p for p in self.parts if p["type"] == "dynamic-tool" and p.get("approval", {}).get("id") == approval_id
        )
        part_asked = next(asked, None)
        if part_asked is None:
            raise BrokenStreamError(f"nothing asked for the approval {approval_id!r}")
        part_asked["state"] = "approval-responded"
        part_asked["approval"]["approved"] = chunk["approved"]
        if "reason" in chunk:
            part_asked["approval"]["reason"] = chunk["reason"]

    def _output(self, kind: str, chunk: JsonObject) -> None:
        part = self._call(chunk["toolCallId"])
        if kind == "tool-output-denied":
            part["state"] = "output-denied"
        elif kind == "tool-output-error":
            _settle(part, "output-error", errorText=chunk["errorText"])
        else:
            _settle(part, "output-available", output=chunk["output"], preliminary=chunk.get("preliminary"))

    def _call(self, call_id: str) -> JsonObject:
        calls = (p for p in reversed(self.parts) if p["type"] == "dynamic-tool" and p["toolCallId"] == call_id)
        part = next(calls, None)
        if part is None:
            raise BrokenStreamError(f"the message has no tool call {call_id!r}")
        return part

    def _data(self, chunk: JsonObject) -> None:
        if chunk.get("transient"):
            return
        same = (p for p in self.parts if p["type"] == chunk["type"] and p.get("id") == chunk.get("id"))
        part = next(same, None) if "id" in chunk else None
        if part is not None:
            part["data"] = chunk["data"]
        else:
            self.parts.append(dict(chunk))


def _settle(part: JsonObject, state: str, **fields: Any) -> None:
    """Give a call another state, and what belongs to it instead of what belonged to the last."""
    for name in ("output", "errorText", "preliminary"):
        part.pop(name, None)
    part |= {name: value for name, value in fields.items() if value is not None}
    part["state"] = state
