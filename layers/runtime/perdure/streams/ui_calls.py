"""Tool calls, approvals and questions of a turn as UI message chunks, and which of them wait for a person.

The tools of a session are not known to the page, so that all of them are `dynamic` ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

JsonObject = dict[str, Any]

QUESTION = "data-question"
"""Type of the part that shows a question; its id is that of the interrupt."""

NO_OBJECT = "the arguments are no JSON object"

MAX_KEPT_QUESTION = 16 * 1024
"""Longest question that is shown again beside its answer, in characters of its JSON; a model's own have at most 8,000.
Beyond it the answer stands alone."""

MAX_KEPT_QUESTIONS = 128 * 1024
"""The same for all that are open at a time: a state has to fit where it is kept, which may be an item of 400 KB."""

_QUESTION_FIELDS = ("tool_call_id", "tool_name", "question", "choices", "allows_free_text", "schema", "deadline")


@dataclass(slots=True)
class OpenCall:
    """A call that has no result yet.

    Attributes:
        waits: `asked`: for a person. `noted`: a person will be asked, after others. None: not for a person.
        approval: An approval was asked for it.
        told: The last attempt whose start was told.
    """

    name: str
    waits: str | None = None
    approval: bool = False
    told: int = 0


@dataclass(slots=True)
class Calls:
    """The open calls of the running turn, whichever it is, and the questions that are asked.

    Attributes:
        decided: Interrupts that were decided, though what is read may be too old to say so.
    """

    open: dict[str, OpenCall] = field(default_factory=dict)
    questions: dict[str, JsonObject] = field(default_factory=dict)
    decided: set[str] = field(default_factory=set)

    @property
    def only_people(self) -> bool:
        """Whether nothing goes on any more until somebody decides."""
        waits = [call.waits for call in self.open.values()]
        return "asked" in waits and None not in waits

    def take(self, event: JsonObject, outputs: Mapping[str, str]) -> list[JsonObject] | None:
        """Return the chunks of an event; None: it is of none of the types that are shown here.

        Args:
            outputs: The results that were committed with it, by call id.
        """
        payload, kind = event["payload"], event["type"]
        if kind == "tool_call_deferred":
            noted = "noted" if payload["requires_approval"] else None
            self.open[payload["tool_call_id"]] = OpenCall(name=payload["tool_name"], waits=noted)
            return []
        if kind == "interrupt_raised":
            return self._raised(payload)
        if kind == "interrupt_resolved":
            return self._decided(payload) if payload["kind"] == "approval" else self._answered(payload)
        if kind == "tool_call_finished":
            return self._finished(payload, outputs.get(payload["tool_call_id"], ""))
        if kind == "tool.output":
            shown = {"toolCallId": payload["tool_call_id"], "output": payload["output"], "preliminary": True}
            return [{"type": "tool-output-available", **shown}]
        if kind == "approval.by_grant":
            self._let_run(payload["tool_call_id"])
        return None

    def first_told(self, event: JsonObject) -> bool:
        """Whether the start of a call's attempt is told for the first time: a read's is told live, and at its end."""
        call = self.open.get(event["payload"]["tool_call_id"])
        attempt = event.get("attempt", 1)
        if call is None or call.told >= attempt:
            return False
        call.told = attempt
        return True

    def _let_run(self, call_id: str) -> None:
        if call_id in self.open:
            self.open[call_id].waits = None

    def _raised(self, payload: JsonObject) -> list[JsonObject]:
        interrupt_id = payload["interrupt_id"]
        call = self.open.get(payload.get("tool_call_id", ""))
        if call is not None:
            call.waits = None if interrupt_id in self.decided else "asked"
            call.approval = call.approval or payload["kind"] == "approval"
        if payload["kind"] == "approval":
            asked = {"approvalId": interrupt_id, "toolCallId": payload["tool_call_id"]}
            return [{"type": "tool-approval-request", **asked}]
        shown = {"interrupt_id": interrupt_id, "kind": payload["kind"]}
        shown |= {name: payload[name] for name in _QUESTION_FIELDS if name in payload}
        size = len(json.dumps(shown))
        if size <= MAX_KEPT_QUESTION and len(json.dumps(self.questions)) + size <= MAX_KEPT_QUESTIONS:
            self.questions[interrupt_id] = shown
        return [_question(shown | {"state": "pending"})]

    def _decided(self, payload: JsonObject) -> list[JsonObject]:
        call_id = payload["interrupt_id"]  # an approval has the id of its call
        self._let_run(call_id)
        chunks = []
        if "arguments" in payload and call_id in self.open:
            changed = {"toolName": self.open[call_id].name, "input": payload["arguments"], "dynamic": True}
            chunks.append({"type": "tool-input-available", "toolCallId": call_id, **changed})
        reasons = (payload.get(name) for name in ("message", "rejection_message", "cancellation_reason"))
        approved = payload.get("approved", False)
        return [*chunks, _response(call_id, approved=approved, reason=next(filter(None, reasons), None))]

    def _answered(self, payload: JsonObject) -> list[JsonObject]:
        interrupt_id = payload["interrupt_id"]
        asked = {"interrupt_id": interrupt_id, "kind": payload["kind"]}
        shown = self.questions.pop(interrupt_id, asked) | {"state": _ending(payload)}
        self._let_run(interrupt_id.partition("-input-")[0])
        for name, told in (("answer", "answer"), ("message", "message"), ("rejection_message", "message")):
            if payload.get(name) is not None:
                shown[told] = payload[name]
        return [_question(shown)]

    def _finished(self, payload: JsonObject, output: str) -> list[JsonObject]:
        call_id, status = payload["tool_call_id"], payload["status"]
        call = self.open.pop(call_id, None)
        if status == "succeeded":
            return [{"type": "tool-output-available", "toolCallId": call_id, "output": output}]
        if status != "rejected":
            return [{"type": "tool-output-error", "toolCallId": call_id, "errorText": output}]
        chunks: list[JsonObject] = []
        if call is None or not call.approval:  # nobody was asked, and a denied part tells of its approval
            asked = {"approvalId": call_id, "toolCallId": call_id, "isAutomatic": True}
            chunks += [{"type": "tool-approval-request", **asked}, _response(call_id, approved=False, reason=output)]
        return [*chunks, {"type": "tool-output-denied", "toolCallId": call_id}]

    def state(self) -> JsonObject:
        """Return them as JSON."""
        calls = {i: [call.name, call.waits, call.approval, call.told] for i, call in self.open.items()}
        return {"open": calls, "questions": dict(self.questions), "decided": sorted(self.decided)}

    @classmethod
    def restored(cls, state: JsonObject) -> Calls:
        """Return the calls of a state."""
        calls = {
            call_id: OpenCall(name=name, waits=waits, approval=approval, told=told)
            for call_id, (name, waits, approval, told) in state["open"].items()
        }
        return cls(open=calls, questions=dict(state["questions"]), decided=set(state["decided"]))


def call_chunk(part: JsonObject) -> JsonObject:
    """Return the chunk of a call as its model asked for it."""
    chunk: JsonObject = {"toolCallId": part["tool_call_id"], "toolName": part["tool_name"], "dynamic": True}
    if part.get("provider_executed"):
        chunk["providerExecuted"] = True
    if isinstance(part.get("tool_metadata"), dict):
        chunk["toolMetadata"] = part["tool_metadata"]
    if "arguments" in part:
        return {"type": "tool-input-available", **chunk, "input": part["arguments"]}
    return {"type": "tool-input-error", **chunk, "input": part.get("arguments_text", ""), "errorText": NO_OBJECT}


def _response(approval_id: str, *, approved: bool, reason: str | None) -> JsonObject:
    chunk: JsonObject = {"type": "tool-approval-response", "approvalId": approval_id, "approved": approved}
    return chunk if reason is None else chunk | {"reason": reason}


def _question(data: JsonObject) -> JsonObject:
    return {"type": QUESTION, "id": data["interrupt_id"], "data": data}


def _ending(payload: JsonObject) -> str:
    if "cancellation_reason" in payload:
        return "withdrawn"
    if payload.get("answered"):
        return "answered"
    actor = payload.get("actor", {})
    late = (actor.get("issuer"), actor.get("subject")) == ("perdure", "deadline")
    return "deadline_passed" if late else "declined"
