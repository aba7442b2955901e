"""What a viewer itself did, shown until the server's data says the same or refuses it (spec STOP-07)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

JsonObject = dict[str, Any]
Action = Mapping[str, Any]


def take_local(state: JsonObject, action: Action) -> JsonObject:
    """Return the state after one of the viewer's own actions; an unknown one changes nothing.

    A command shows at once what it will do (`begin`) and gives way to the snapshot that was read after its answer
    (`end`). A refused one ends the same way.
    """
    take = _ACTIONS.get(action["type"])
    return take(state, action) if take is not None else state


def _send(state: JsonObject, action: Action) -> JsonObject:
    item = {name: action.get(name) for name in ("message_id", "text", "delivery")}
    item |= {"waits": action.get("waits", False), "problem": None}
    return {**state, "outbox": [*_others(state, action), item]}


def _delayed(state: JsonObject, action: Action) -> JsonObject:
    problem = {"problem": action["problem"]}
    outbox = [item | problem if item["message_id"] == action["message_id"] else item for item in state["outbox"]]
    return {**state, "outbox": outbox}


def _settled(state: JsonObject, action: Action) -> JsonObject:
    return {**state, "outbox": _others(state, action)}


def _others(state: JsonObject, action: Action) -> list[JsonObject]:
    return [item for item in state["outbox"] if item["message_id"] != action["message_id"]]


def _decide(state: JsonObject, action: Action) -> JsonObject:
    return {**state, "deciding": {**state["deciding"], action["interrupt_id"]: action["decision"]}}


def _decided(state: JsonObject, action: Action) -> JsonObject:
    return {**state, "deciding": without(state["deciding"], action["interrupt_id"])}


def _stop(state: JsonObject, action: Action) -> JsonObject:
    partials = action.get("partials") or state["partials"]
    return {**state, "stopping": {"turn_id": action["turn_id"], "partials": partials}}


def _stop_refused(state: JsonObject, action: Action) -> JsonObject:
    same = state["stopping"] is not None and state["stopping"]["turn_id"] == action["turn_id"]
    return {**state, "stopping": None} if same else state


def _begin(state: JsonObject, action: Action) -> JsonObject:
    return {**state, "doing": {**state["doing"], action["key"]: {**action["what"], "id": action["id"]}}}


def _end(state: JsonObject, action: Action) -> JsonObject:
    done = state["doing"].get(action["key"])
    if done is None or done["id"] != action["id"]:
        return state  # a newer one of the same kind goes on
    return {**state, "doing": without(state["doing"], action["key"])}


def without(mapping: Mapping[str, Any], key: str) -> JsonObject:
    """Return a mapping without one key."""
    return {name: value for name, value in mapping.items() if name != key}


_ACTIONS: dict[str, Callable[[JsonObject, Action], JsonObject]] = {
    "send": _send,
    "send_delayed": _delayed,
    "send_answered": _settled,
    "send_refused": _settled,
    "decide": _decide,
    "decide_answered": _decided,
    "stop": _stop,
    "stop_refused": _stop_refused,
    "begin": _begin,
    "end": _end,
}
