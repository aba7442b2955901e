"""Which turn runs, and what it does: derived, because the server stores neither."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from perdure.core.codec import format_time

JsonObject = dict[str, Any]


def told_of(state: JsonObject) -> JsonObject:
    """Return what the snapshot says of the session's state; empty: nothing."""
    told: JsonObject = (state["snapshot"] or {}).get("state") or {}
    return told


def is_in_snapshot(state: JsonObject, sequence: int | None, version: int | None) -> bool:
    """Whether an event is part of the snapshot that the state holds. Without a `version` its `sequence` tells."""
    if version is not None:
        return version <= int(told_of(state).get("version", 0))
    return sequence is not None and sequence <= int(state["as_of"])


def is_newer(state: JsonObject, turn: JsonObject | None) -> bool:
    """Whether a turn is known to have begun behind the snapshot."""
    if turn is None or turn.get("started_sequence") is None:
        return False
    return not is_in_snapshot(state, turn["started_sequence"], turn.get("started_version"))


def running_turn(state: JsonObject) -> JsonObject | None:
    """Return the running turn, or None: events that came after the snapshot win over it."""
    latest = next(reversed(state["turns"].values()), None)
    if latest is not None and "ended_at" not in latest and is_newer(state, latest):
        return dict(latest)
    told = told_of(state)
    turn_id = told.get("turn_id")
    known = state["turns"].get(turn_id)
    if turn_id is None or (known is not None and "ended_at" in known):
        return None
    if known is None:
        return {"turn_id": turn_id, "status": "stopping" if told.get("stopping") else "running", "steps": []}
    return {**known, "status": "stopping"} if told.get("stopping") else dict(known)


def frontier_of(state: JsonObject, turn: JsonObject | None) -> str | None:
    """Return the cursor of the last event that was taken, for a stop to cut at (spec STOP-05).

    A snapshot that is ahead of the events may show more; then it is None, because nothing that was seen may be cut.
    """
    if turn is None or turn.get("started_sequence") is None:
        return None
    shown = sum(m["turn_id"] == turn["turn_id"] and m["role"] == "assistant" for m in state["messages"])
    steps = [state["steps"].get(step_id, {}) for step_id in turn["steps"]]
    ended = sum(step.get("kind") == "model" and "ended_at" in step for step in steps)
    cursor: str | None = state["cursor"]
    return None if shown > ended else cursor


def open_interrupts(state: JsonObject) -> list[JsonObject]:
    """Return the interrupts that wait for a person; one that is decided is not offered again (field case F045)."""
    pending = (state["snapshot"] or {}).get("pending_interrupts", ())
    return [interrupt for interrupt in pending if interrupt["interrupt_id"] not in state["decisions"]]


def open_question(state: JsonObject) -> str | None:
    """Return the id of the one question that is open, if a text can answer it (field case F064)."""
    asked = [
        i for i in open_interrupts(state) if i["kind"] == "question" and i["interrupt_id"] not in state["deciding"]
    ]
    return asked[0]["interrupt_id"] if len(asked) == 1 and asked[0].get("allows_free_text") is not False else None


def _open_steps(state: JsonObject, turn: JsonObject) -> list[JsonObject]:
    steps = (state["steps"].get(step_id) for step_id in turn["steps"])
    return [step for step in steps if step is not None and "ended_at" not in step]


def is_stopping(state: JsonObject, turn: JsonObject | None) -> bool:
    """Whether a turn is being stopped, or will be by this viewer's own command."""
    if turn is None:
        return False
    own = state["stopping"]
    return turn["status"] == "stopping" or (own is not None and own["turn_id"] == turn["turn_id"])


def is_paused(state: JsonObject) -> bool:
    """Whether the gate is closed, or will be by this viewer's own command."""
    return bool(state["doing"].get("gate", {}).get("paused", told_of(state).get("paused", False)))


def has_failed(state: JsonObject) -> bool:
    """Whether the latest turn has failed. Events that came after the snapshot win over it."""
    latest = next(reversed(state["turns"].values()), None)
    if latest is not None and "ended_at" in latest:
        return bool(latest["status"] == "failed")
    return bool(told_of(state).get("last_turn_error"))


def status_of(state: JsonObject, turn: JsonObject | None) -> str:
    """Return the server's word for what a session does, or `failed` while its latest turn has failed and none runs."""
    if turn is None:
        return "failed" if has_failed(state) else "waiting_for_user_message"
    steps = _open_steps(state, turn)
    if any(step["kind"] == "model" for step in steps):
        return "running_model"
    if steps:
        return "running_tools"
    told = told_of(state)
    same = not turn["steps"] and told.get("turn_id") == turn["turn_id"]
    return str(told["status"]) if same else "running_model"


def indicator_of(state: JsonObject, turn: JsonObject | None) -> str | None:
    """Return `starting` until a model has begun, `thinking` until its text comes, None when that is to be seen."""
    if turn is None:
        return "starting" if any(not item["problem"] for item in state["outbox"]) else None
    if is_stopping(state, turn) or status_of(state, turn) != "running_model":
        return None
    model = next((step for step in _open_steps(state, turn) if step["kind"] == "model"), None)
    if model is None:
        return "thinking" if turn["steps"] else "starting"
    if model["status"] != "running":
        return "starting"
    return None if model.get("retry") or _writes(state, model) else "thinking"


def _writes(state: JsonObject, model: JsonObject) -> bool:
    segments = state["partials"].get(model["step_id"], {}).get("segments", ())
    return any(part["type"] == "text" and part["text"] for part in segments)


def waiting_of(state: JsonObject, turn: JsonObject | None) -> list[JsonObject]:
    """Return what a session waits for besides the provider. An application's requests need no turn."""
    waiting = told_of(state).get("waiting_for", ())
    return [
        item
        for item in waiting
        if item["kind"] != "retry"
        and item["id"] not in state["decisions"]
        and (turn is not None or item["kind"] == "input")
    ]


def activity_of(state: JsonObject, turn: JsonObject | None) -> JsonObject:
    """Return what a turn is doing, for one line of text."""
    if turn is None:
        return {"kind": "idle"}
    if is_stopping(state, turn):
        return {"kind": "stopping"}
    steps = _open_steps(state, turn)
    model = next((step for step in steps if step["kind"] == "model"), None)
    if (retry := _retry_of(state, model)) is not None:
        return retry
    told = told_of(state)
    if told.get("steering") and told.get("turn_id") == turn["turn_id"]:
        return {"kind": "steering"}
    if names := [step["name"] for step in steps if step["kind"] == "tool" and step["status"] == "running"]:
        return {"kind": "tools", "names": names}
    if any(item["kind"] != "input" for item in waiting_of(state, turn)):
        return {"kind": "waiting"}
    if is_paused(state) and (model is None or model["status"] != "running"):
        return {"kind": "paused"}
    writing = model is not None and _writes(state, model)
    return {"kind": "writing" if writing else "thinking", "attempt": model["attempt"] if model is not None else 1}


def _retry_of(state: JsonObject, model: JsonObject | None) -> JsonObject | None:
    """Return the wait for the provider: a short one runs its course, a long one (`skippable`) nobody holds."""
    if model is not None and not model.get("retry") and model["status"] == "running":
        return None
    retry = (model or {}).get("retry") or {}
    long = next((item for item in told_of(state).get("waiting_for", ()) if item["kind"] == "retry"), None)
    if long is not None:
        return {"kind": "retry", "reason": retry.get("reason"), "until": long.get("until"), "skippable": True}
    if not retry:
        return None
    until = datetime.fromisoformat(retry["at"]) + timedelta(milliseconds=retry["retry_in_ms"])
    return {"kind": "retry", "reason": retry.get("reason"), "until": format_time(until), "skippable": False}
