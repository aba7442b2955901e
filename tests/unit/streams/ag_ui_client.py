"""An AG-UI client for tests: strict about what it is sent, and it shows what the protocol says that it shows."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from ag_ui.core import Event
from ag_ui_validate.pytest_plugin import assert_valid_agui
from pydantic import TypeAdapter

from perdure.feed import Commit, Live
from perdure.streams.ag_ui import AgUiRun

JsonObject = dict[str, Any]

_EVENT: TypeAdapter[Any] = TypeAdapter(Event)
_OPENS = {
    "TEXT_MESSAGE_START": ("text", "messageId"),
    "REASONING_MESSAGE_START": ("reasoning", "messageId"),
    "TOOL_CALL_START": ("call", "toolCallId"),
}
_GROWS = {
    "TEXT_MESSAGE_CONTENT": ("text", "messageId"),
    "REASONING_MESSAGE_CONTENT": ("reasoning", "messageId"),
    "TOOL_CALL_ARGS": ("call", "toolCallId"),
}
_CLOSES = {
    "TEXT_MESSAGE_END": ("text", "messageId"),
    "REASONING_MESSAGE_END": ("reasoning", "messageId"),
    "TOOL_CALL_END": ("call", "toolCallId"),
}


def verified(events: Sequence[JsonObject], *, whole: bool = True) -> list[JsonObject]:
    """Return the events of a run, which are what the protocol allows and what we promise on top of it.

    Args:
        whole: False: the stream was cut somewhere.
    """
    for event in events:
        read = _EVENT.validate_python(event)
        assert not read.model_extra, f"{event['type']} has unknown fields: {sorted(read.model_extra)}"
        assert None not in event.values(), f"an optional field that is not set is absent: {event}"
    _check_order(events, whole=whole)
    if whole:
        assert_valid_agui(list(events), max_warnings=0)
    return list(events)


def _check_order(events: Sequence[JsonObject], *, whole: bool) -> None:
    """Nothing overlaps, no id is begun twice, and a run has one terminal event, which is its last."""
    open_one: tuple[str, str] | None = None
    steps: set[str] = set()
    begun: set[tuple[str, str]] = set()
    assert [event["type"] for event in events[:1]] in ([], ["RUN_STARTED"])
    for event in events:
        kind = event["type"]
        if kind in _OPENS:
            name, field = _OPENS[kind]
            assert open_one is None, f"{kind} while {open_one} is open"
            open_one = (name, event[field])
            assert open_one not in begun, f"{open_one} begins twice"
            begun.add(open_one)
        elif kind in _GROWS or kind in _CLOSES:
            name, field = (_GROWS | _CLOSES)[kind]
            assert open_one == (name, event[field]), f"{kind} of {event[field]} while {open_one} is open"
            assert event.get("delta") != "", "an empty piece"
            open_one = None if kind in _CLOSES else open_one
        elif kind not in ("CUSTOM", "REASONING_START", "REASONING_END"):
            assert open_one is None, f"{kind} while {open_one} is open"
        if kind == "STEP_STARTED":
            assert event["stepName"] not in steps
            steps.add(event["stepName"])
        elif kind == "STEP_FINISHED":
            steps.remove(event["stepName"])
    terminal = [event["type"] for event in events if event["type"] in ("RUN_FINISHED", "RUN_ERROR")]
    if whole:
        assert terminal == [events[-1]["type"]]
        assert not steps
    else:
        assert len(terminal) <= 1


class Screen:
    """What a client shows. The rules are those of the protocol's streaming pattern and its message snapshots."""

    def __init__(self, *messages: JsonObject) -> None:
        self.messages = [copy.deepcopy(message) for message in messages]

    def take(self, events: Iterable[JsonObject]) -> Screen:
        for event in events:
            getattr(self, f"_{event['type'].lower()}", lambda _: None)(event)
        return self

    def _find(self, message_id: str) -> JsonObject | None:
        return next((message for message in self.messages if message["id"] == message_id), None)

    def _begin(self, message_id: str, role: str) -> None:
        if self._find(message_id) is None:  # one that is there goes on where it was
            self.messages.append({"id": message_id, "role": role, "content": ""})

    def _grow(self, event: JsonObject) -> None:
        message = self._find(event["messageId"])
        assert message is not None
        message["content"] += event["delta"]

    def _text_message_start(self, event: JsonObject) -> None:
        self._begin(event["messageId"], event["role"])

    def _reasoning_message_start(self, event: JsonObject) -> None:
        self._begin(event["messageId"], "reasoning")

    _text_message_content = _reasoning_message_content = _grow

    def _tool_call_start(self, event: JsonObject) -> None:
        if self._call(event["toolCallId"]) is None:
            self._begin(event["parentMessageId"], "assistant")
            parent = self._find(event["parentMessageId"])
            assert parent is not None
            function = {"name": event["toolCallName"], "arguments": ""}
            parent.setdefault("toolCalls", []).append(
                {"id": event["toolCallId"], "type": "function", "function": function}
            )

    def _call(self, call_id: str) -> JsonObject | None:
        calls = [call for message in self.messages for call in message.get("toolCalls", ())]
        return next((call for call in calls if call["id"] == call_id), None)

    def _tool_call_args(self, event: JsonObject) -> None:
        call = self._call(event["toolCallId"])
        assert call is not None
        call["function"]["arguments"] += event["delta"]

    def _tool_call_result(self, event: JsonObject) -> None:
        owners = [
            place
            for place, message in enumerate(self.messages)
            if any(call["id"] == event["toolCallId"] for call in message.get("toolCalls", ()))
        ]
        place = owners[0] + 1 if owners else len(self.messages)
        while place < len(self.messages) and self.messages[place]["role"] == "tool":
            place += 1
        names = ("toolCallId", "content", "metadata")
        kept = {name: copy.deepcopy(event[name]) for name in names if name in event}
        self.messages.insert(place, {"id": event["messageId"], "role": "tool", **kept})

    def _messages_snapshot(self, event: JsonObject) -> None:
        news = {message["id"]: copy.deepcopy(message) for message in event["messages"]}
        has_reasoning = any(message["role"] == "reasoning" for message in news.values())
        kept = [
            news.pop(message["id"], message)
            for message in self.messages
            if message["id"] in news or (message["role"] == "reasoning" and not has_reasoning)
        ]
        self.messages = [*kept, *news.values()]

    @property
    def shown(self) -> list[tuple[Any, ...]]:
        """Who said what, with calls as `name(arguments)`."""
        return [
            (
                message["role"],
                message["content"],
                *(f"{c['function']['name']}({c['function']['arguments']})" for c in message.get("toolCalls", ())),
            )
            for message in self.messages
        ]


def told(items: Iterable[Commit | Live], **of_the_run: Any) -> list[JsonObject]:
    """Return the events of a run that ends with its items, or is cut behind them."""
    run = AgUiRun(**{"thread_id": "s-1", "run_id": "run-1", "message_id": "m-1"} | of_the_run)
    return [*run.begin(), *(event for item in items for event in run.take(item))]


def words(events: Iterable[JsonObject]) -> list[str]:
    """Return the events without our own, in short: `START model-1`, `CONTENT Hel`, …"""
    return [
        " ".join(
            [event["type"].removeprefix("TEXT_MESSAGE_").removeprefix("TOOL_CALL_")]
            + [
                str(event[name])
                for name in ("messageId", "toolCallId", "stepName", "delta", "content")
                if name in event
            ]
        )
        for event in events
        if event["type"] not in ("CUSTOM", "MESSAGES_SNAPSHOT")
    ]
