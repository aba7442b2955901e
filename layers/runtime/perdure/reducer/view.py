"""Everything that there is to show of a session, derived from its state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from perdure.reducer.state import initial_state, reduce
from perdure.reducer.turns import (
    activity_of,
    frontier_of,
    indicator_of,
    is_in_snapshot,
    is_newer,
    is_paused,
    is_stopping,
    open_interrupts,
    open_question,
    running_turn,
    status_of,
    told_of,
    waiting_of,
)

JsonObject = dict[str, Any]

_FINAL = frozenset({"succeeded", "failed", "rejected", "outcome_unknown"})


def view_of(state: JsonObject) -> JsonObject:
    """Return what is shown of a session."""
    turn, told, snapshot = running_turn(state), told_of(state), state["snapshot"] or {}
    return {
        "session_id": state["session_id"],
        "agent": snapshot.get("agent"),
        "exists": bool(told),
        "messages": messages_of(state),
        "has_older": state["next_before"] is not None,
        "status": status_of(state, turn),
        "indicator": indicator_of(state, turn),
        "activity": activity_of(state, turn),
        "waiting": waiting_of(state, turn),
        "turn_id": turn["turn_id"] if turn is not None else None,
        "stopping": is_stopping(state, turn),
        "error": _error_of(state) if turn is None else None,
        "tool_calls": _tool_calls_of(state, turn),
        "interrupts": [_with_decision(state, interrupt) for interrupt in open_interrupts(state)],
        "open_question": open_question(state),
        "inbox": _inbox_of(state),
        "paused": is_paused(state),
        "closed": bool(told.get("closed")),
        "held": turn is None and bool(told.get("held")),
        "blocked_reason": told.get("blocked_reason") if turn is None else None,
        "title": state["doing"].get("title", {}).get("title") or state["title"] or snapshot.get("title"),
        "settings": snapshot.get("settings", {}),
        "usage": snapshot.get("usage"),
        "frontier": frontier_of(state, turn),
    }


def messages_of(history: JsonObject | Sequence[Mapping[str, Any]]) -> list[JsonObject]:
    """Return the messages to show, oldest first: those that are stored, being written, and on their way.

    Each is a message as the server has it, with a stable `key` and its `origin`: `stored`, `live`, `finished` (it is
    about to be stored) or `sending`.

    Args:
        history: A state, or what `state_of` takes.
    """
    state = history if isinstance(history, dict) else state_of(history)
    return [*_stored(state), *_live(state), *_outgoing(state)]


def state_of(history: Iterable[Mapping[str, Any]], session_id: str = "") -> JsonObject:
    """Return the state that raw history leads to: events, snapshots, pages, commits and messages, in order.

    Raises:
        TypeError: Something is none of these.
    """
    state = initial_state(session_id)
    for item in history:
        for action in _actions_of(item):
            state = reduce(state, action)
    return state


def _actions_of(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if "payload" in item:
        return [{"type": "event", "event": item}]
    if "type" in item:
        return [item]
    if "state" in item and "messages" in item:
        return [{"type": "snapshot", "snapshot": item, "restart": True}]
    if "parts" in item:
        return [{"type": "messages", "messages": [item]}]
    if "messages" not in item and "events" not in item:
        raise TypeError(f"this is no part of a session's history: {item!r:.200}")
    messages = [{"type": "messages", "messages": item["messages"]}] if "messages" in item else []
    events = [{"type": "stream", "events": item["events"], "cursor": item.get("cursor")}] if "events" in item else []
    return [*messages, *events]


# --- messages -----------------------------------------------------------------------------------


def _stored(state: JsonObject) -> list[JsonObject]:
    answers: Counter[str] = Counter()
    shown = []
    for message in state["messages"]:
        if message.get("status") == "rehomed":
            continue
        key = message["message_id"]
        if message["role"] == "assistant":
            answers[message["turn_id"]] += 1
            key = f"{message['turn_id']}/{answers[message['turn_id']]}"
        shown.append({**message, "key": key, "origin": "stored"})
    return shown


def _live(state: JsonObject) -> list[JsonObject]:
    partials = [_preview_of(state, partial) for partial in state["partials"].values()]
    shown = [p for p in partials if _has_something(p) and not _is_stored(state, p)]
    return [_live_message(state, partial) for partial in shown]


def _has_something(partial: JsonObject) -> bool:
    return bool(partial["drafts"]) or any(part["text"] for part in partial["segments"])


def _preview_of(state: JsonObject, partial: JsonObject) -> JsonObject:
    """From the moment of the viewer's own stop on, an answer grows no more; what is stored comes with the snapshot."""
    stopping = state["stopping"]
    if stopping is None or stopping["turn_id"] != partial["turn_id"]:
        return partial
    segments = stopping["partials"].get(partial["step_id"], {}).get("segments", [])
    return {**partial, "segments": segments, "drafts": {}, "held": True}


def _live_message(state: JsonObject, partial: JsonObject) -> JsonObject:
    held, finished = partial.get("held", False), "finished_sequence" in partial
    drafts = () if held or finished else [partial["drafts"][index] for index in sorted(partial["drafts"], key=int)]
    message = {
        "key": f"{partial['turn_id']}/{_ordinal_of(state, partial) or partial['step_id']}",
        "origin": "finished" if held or finished else "live",
        "turn_id": partial["turn_id"],
        "role": "assistant",
        "parts": [{"type": part["type"], "text": part["text"]} for part in partial["segments"]]
        + [
            {"type": "tool_call", "draft": True, "tool_name": draft["tool_name"], "arguments_text": draft["text"]}
            for draft in drafts
        ],
    }
    status = {"status": "interrupted"} if held else {}
    return message | status | ({"incomplete": True} if partial.get("incomplete") else {})


def _is_stored(state: JsonObject, partial: JsonObject) -> bool:
    if is_in_snapshot(state, partial.get("finished_sequence"), partial.get("finished_version")):
        return True
    turn_id = partial["turn_id"]
    stored = [message for message in state["messages"] if message["turn_id"] == turn_id]
    told = state["snapshot"] is not None and not is_newer(state, state["turns"].get(turn_id))
    if told and stored and told_of(state).get("turn_id") != turn_id:
        return True  # the turn is over
    ordinal = _ordinal_of(state, partial)
    return ordinal is not None and sum(message["role"] == "assistant" for message in stored) >= ordinal


def _ordinal_of(state: JsonObject, partial: JsonObject) -> int | None:
    """Return the how-manieth model step of its turn it is. None: the start of the turn was not seen."""
    turn = state["turns"].get(partial["turn_id"])
    if turn is None or turn.get("started_sequence") is None:
        return None
    models = [step_id for step_id in turn["steps"] if state["steps"].get(step_id, {}).get("kind") == "model"]
    return models.index(partial["step_id"]) + 1 if partial["step_id"] in models else None


def _outgoing(state: JsonObject) -> list[JsonObject]:
    return [
        {
            "key": item["message_id"],
            "origin": "sending",
            "message_id": item["message_id"],
            "role": "user",
            "parts": [{"type": "text", "text": item["text"]}],
            **({"problem": item["problem"]} if item["problem"] else {}),
        }
        for item in state["outbox"]
        if not item["waits"]
    ]


# --- around the messages ------------------------------------------------------------------------


def _error_of(state: JsonObject) -> JsonObject | None:
    latest = next(reversed(state["turns"].values()), None)
    if latest is not None and "ended_at" in latest:
        error: JsonObject | None = latest.get("error")
        return error
    return told_of(state).get("last_turn_error")


def _with_decision(state: JsonObject, interrupt: JsonObject) -> JsonObject:
    deciding = state["deciding"].get(interrupt["interrupt_id"])
    return interrupt if deciding is None else {**interrupt, "deciding": deciding}


def _tool_calls_of(state: JsonObject, turn: JsonObject | None) -> list[JsonObject]:
    stored = (state["snapshot"] or {}).get("tool_calls", [])
    known = {call["tool_call_id"] for call in stored}
    steps = [state["steps"].get(step_id, {}) for step_id in (turn["steps"] if turn is not None else ())]
    newer = [_asked(state, step) for step in steps if step.get("kind") == "tool" and step["step_id"] not in known]
    return [_with_status(state, call) for call in (*stored, *newer)]


def _asked(state: JsonObject, step: JsonObject) -> JsonObject:
    call = state["calls"].get(step["step_id"], {})
    known = {name: call[name] for name in ("effect", "requires_approval") if call.get(name) is not None}
    return {"tool_call_id": step["step_id"], "tool_name": step.get("name"), **known, "attempt": step["attempt"]}


def _with_status(state: JsonObject, call: JsonObject) -> JsonObject:
    status = _status_of_call(state, call)
    text = state["calls"].get(call["tool_call_id"], {}).get("progress", {}).get("text")
    progress = {} if status in _FINAL or text is None else {"progress": text}
    return {**call, "status": status, **progress}


def _status_of_call(state: JsonObject, call: JsonObject) -> str:
    """What is stored of a call wins over what was decided, and that over what was asked."""
    call_id, stored = call["tool_call_id"], call.get("status")
    status: str | None = state["steps"].get(call_id, {}).get("status")
    if status in _FINAL:
        return str(status)
    interrupt = next((i for i in open_interrupts(state) if i.get("tool_call_id") == call_id), None)
    if interrupt is not None:
        return "awaiting_approval" if interrupt["kind"] == "approval" else "awaiting_answer"
    if status == "running":
        return "running"
    decision = state["decisions"].get(call_id)
    if decision is not None and stored == "awaiting_approval":
        return "approved" if decision.get("approved") else "rejected"
    if stored == "awaiting_answer" and status is not None and not status.startswith("awaiting_"):
        return status
    return stored or status or "unknown"


def _inbox_of(state: JsonObject) -> list[JsonObject]:
    """Return the entries as this viewer has changed them last, then what it is sending to wait."""
    entries = (state["snapshot"] or {}).get("inbox", [])
    ids = state["doing"].get("order", {}).get("ids")
    if ids is not None:
        places = {message_id: place for place, message_id in enumerate(ids)}
        entries = sorted(entries, key=lambda entry: places.get(entry["message_id"], len(ids)))
    sending = [item for item in state["outbox"] if item["waits"]]
    return [_as_changed(state, entry) for entry in entries] + [
        {
            "message_id": item["message_id"],
            "text": item["text"],
            **({"delivery": item["delivery"]} if item["delivery"] else {}),
            "sending": True,
            **({"problem": item["problem"]} if item["problem"] else {}),
        }
        for item in sending
    ]


def _as_changed(state: JsonObject, entry: JsonObject) -> JsonObject:
    doing = state["doing"].get(f"inbox/{entry['message_id']}")
    if doing is None:
        return entry
    text = {"text": doing["text"]} if doing.get("text") is not None else {}
    return {**entry, **text, "saving": True}
