"""What each event does to the state; what was seen before has been dropped.

Every fact may be told twice, first live and then by the durable record, so all of this is either "set to what the event
says" or counted per attempt and source. A step keeps only its highest attempt (spec EVT-02).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.reducer.local import without

JsonObject = dict[str, Any]


def fold_event(state: JsonObject, event: JsonObject) -> JsonObject:
    """Return the state after an event that is new; an unknown type changes nothing."""
    fold = _FOLDS.get(event["type"])
    return fold(state, {**event, "payload": event.get("payload") or {}}) if fold is not None else state


# --- turns --------------------------------------------------------------------------------------


def _with_turn(state: JsonObject, turn_id: str | None, **change: Any) -> JsonObject:
    if turn_id is None:
        return state
    turn = state["turns"].get(turn_id) or {"turn_id": turn_id, "status": "running", "steps": []}
    return {**state, "turns": {**state["turns"], turn_id: {**turn, **change}}}


def _turn_started(state: JsonObject, event: JsonObject) -> JsonObject:
    payload = event["payload"]
    return _with_turn(
        state,
        event.get("turn_id"),
        status="running",
        started_at=event["at"],
        started_sequence=event.get("sequence"),
        started_version=event.get("version"),
        message_ids=payload.get("message_ids") or [payload.get("message_id")],
        retry_of=payload.get("retry_of"),
    )


def _turn_ended(status: str) -> Callable[[JsonObject, JsonObject], JsonObject]:
    def ended(state: JsonObject, event: JsonObject) -> JsonObject:
        why = {name: event["payload"][name] for name in ("error", "reason") if name in event["payload"]}
        return _with_turn(state, event.get("turn_id"), status=status, ended_at=event["at"], **why)

    return ended


# --- steps --------------------------------------------------------------------------------------


def _current(state: JsonObject, event: JsonObject) -> tuple[JsonObject, JsonObject] | None:
    """Return the state with the step known, and the step at the event's attempt; None: the event is an older one's."""
    step_id = event.get("step_execution_id")
    if step_id is None:
        return None
    known = state["steps"].get(step_id)
    attempt = event.get("attempt") or (known["attempt"] if known else 1)
    if known is not None and attempt < known["attempt"]:
        return None
    if known is not None and attempt == known["attempt"]:
        return state, known
    turn_id = event.get("turn_id")
    step: JsonObject = {"step_id": step_id, "turn_id": turn_id, "kind": "model"} if known is None else known
    gone = ("ended_at", "retry")
    step = {name: value for name, value in step.items() if name not in gone} | {"attempt": attempt, "status": "waiting"}
    if known is not None:
        return state, step
    listed = [*state["turns"].get(turn_id, {}).get("steps", ()), step_id]
    return _with_turn(state, turn_id, steps=listed), step


def _with_step(state: JsonObject, event: JsonObject, **change: Any) -> JsonObject:
    current = _current(state, event)
    if current is None:
        return state
    known, step = current
    return {**known, "steps": {**known["steps"], step["step_id"]: {**step, **change}}}


def _start(state: JsonObject, event: JsonObject, kind: str, **named: Any) -> JsonObject:
    known = state["steps"].get(event.get("step_execution_id"))
    ended = known is not None and "ended_at" in known and known["attempt"] == event.get("attempt")
    return _with_step(state, event, kind=kind, **named, **({} if ended else {"status": "running"}))


def _end(state: JsonObject, event: JsonObject) -> JsonObject:
    return _with_step(state, event, status=event["payload"].get("status"), ended_at=event["at"], retry=None)


def _model_finished(state: JsonObject, event: JsonObject) -> JsonObject:
    ended = _end(state, event)
    partial = ended["partials"].get(event.get("step_execution_id"))
    if event.get("sequence") is None or partial is None:
        return ended
    finished = {**partial, "finished_sequence": event["sequence"], "finished_version": event.get("version")}
    return {**ended, "partials": {**ended["partials"], event["step_execution_id"]: finished}}


def _attempt_reset(state: JsonObject, event: JsonObject) -> JsonObject:
    """Drop the partial, but not again when a live reset's record arrives: by then it is already the next try's."""
    step_id, attempt, is_durable = event.get("step_execution_id"), event.get("attempt", 1), "sequence" in event
    if step_id is None:
        return state
    key = f"{step_id}/{attempt}"
    before = state["resets"].get(key, {"live": 0, "durable": 0})
    source = "durable" if is_durable else "live"
    counted = {**state, "resets": {**state["resets"], key: {**before, source: before[source] + 1}}}
    if is_durable and before["durable"] < before["live"]:
        return counted
    partial = counted["partials"].get(step_id)
    if partial is not None and partial["attempt"] <= attempt:
        counted = {**counted, "partials": without(counted["partials"], step_id)}
    step = counted["steps"].get(step_id)
    if step is None or step["attempt"] > attempt or "ended_at" in step:
        return counted
    return _with_step(counted, event, status="waiting")


# --- live text ----------------------------------------------------------------------------------


def _change_partial(state: JsonObject, event: JsonObject, change: Callable[[JsonObject], JsonObject]) -> JsonObject:
    current = _current(state, event)
    if current is None:
        return state
    known, step = current
    partial = state["partials"].get(step["step_id"])
    if partial is None or partial["attempt"] != step["attempt"]:
        about = {"step_id": step["step_id"], "turn_id": event.get("turn_id"), "attempt": step["attempt"]}
        partial = {**about, "segments": [], "drafts": {}}
    running = {**step, "retry": None, "status": step["status"] if "ended_at" in step else "running"}
    return {
        **known,
        "steps": {**known["steps"], step["step_id"]: running},
        "partials": {**state["partials"], step["step_id"]: {**partial, **change(partial)}},
    }


def _piece(kind: str) -> Callable[[JsonObject, JsonObject], JsonObject]:
    def appended(state: JsonObject, event: JsonObject) -> JsonObject:
        text, number = event["payload"].get("text", ""), event["payload"].get("segment")
        return _change_partial(
            state, event, lambda partial: {"segments": _with_piece(partial["segments"], kind, number, text)}
        )

    return appended


def _with_piece(segments: list[JsonObject], kind: str, number: int | None, text: str) -> list[JsonObject]:
    """Return the parts that the message will have. Without a number a piece goes on with the last of its type."""
    if number is None:
        number = len(segments) - 1 if segments and segments[-1]["type"] == kind else len(segments)
    if all(part["segment"] != number for part in segments):
        return [*segments, {"segment": number, "type": kind, "text": text}]
    return [{**part, "text": joined(part["text"], text)} if part["segment"] == number else part for part in segments]


def _draft(state: JsonObject, event: JsonObject) -> JsonObject:
    payload = event["payload"]
    index = str(payload["index"])

    def change(partial: JsonObject) -> JsonObject:
        before = partial["drafts"].get(index, {"tool_name": None, "text": ""})
        name = payload.get("tool_name") or before["tool_name"]
        return {
            "drafts": {
                **partial["drafts"],
                index: {"tool_name": name, "text": joined(before["text"], payload.get("text", ""))},
            }
        }

    return _change_partial(state, event, change)


def _progress_gap(state: JsonObject, event: JsonObject) -> JsonObject:
    if event.get("step_execution_id") not in state["partials"]:
        return state
    return _change_partial(state, event, lambda _: {"incomplete": True})


def joined(text: str, more: str) -> str:
    """Return two pieces of a text as one; a character that was cut into two surrogates becomes whole."""
    if text[-1:] < "\ud800" or text[-1:] > "\udbff":
        return text + more
    return (text + more).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


# --- calls and interrupts -----------------------------------------------------------------------


def _tool_step(event: JsonObject) -> JsonObject:
    """A call is its own step; its first event still belongs to the model step that asked for it."""
    own = event["payload"].get("tool_call_id") or event.get("step_execution_id")
    return event if event.get("step_execution_id") == own else {**event, "step_execution_id": own, "attempt": None}


def _with_call(state: JsonObject, call_id: str | None, **change: Any) -> JsonObject:
    if call_id is None:
        return state
    return {**state, "calls": {**state["calls"], call_id: {**state["calls"].get(call_id, {}), **change}}}


def _deferred(state: JsonObject, event: JsonObject) -> JsonObject:
    payload = event["payload"]
    asks = payload.get("requires_approval")
    known = _with_call(state, payload["tool_call_id"], effect=payload.get("effect"), requires_approval=asks)
    status = "awaiting_approval" if asks else "approved"
    return _with_step(known, _tool_step(event), kind="tool", name=payload["tool_name"], status=status)


def _call_finished(state: JsonObject, event: JsonObject) -> JsonObject:
    own = _tool_step(event)
    return _end(_with_step(state, own, kind="tool", name=event["payload"].get("tool_name")), own)


def _call_status(status: str) -> Callable[[JsonObject, JsonObject], JsonObject]:
    def told(state: JsonObject, event: JsonObject) -> JsonObject:
        return _set_status(state, event["payload"].get("tool_call_id"), status)

    return told


def _set_status(state: JsonObject, call_id: str | None, status: str) -> JsonObject:
    step = state["steps"].get(call_id)
    if step is None or "ended_at" in step:
        return state
    return {**state, "steps": {**state["steps"], call_id: {**step, "status": status}}}


def _raised(state: JsonObject, event: JsonObject) -> JsonObject:
    """A request of an application has its name as its id: the same one may be asked for again."""
    payload = event["payload"]
    interrupt_id, call_id = payload["interrupt_id"], payload.get("tool_call_id")
    asked = {**state, "decisions": without(state["decisions"], interrupt_id)}
    if payload.get("kind") == "approval" or call_id is None:
        return asked
    questions = [*asked["calls"].get(call_id, {}).get("questions", ()), interrupt_id]
    return _set_status(_with_call(asked, call_id, questions=questions), call_id, "awaiting_answer")


def _resolved(state: JsonObject, event: JsonObject) -> JsonObject:
    payload = event["payload"]
    interrupt_id = payload["interrupt_id"]
    decided = {**state, "decisions": {**state["decisions"], interrupt_id: {**payload, "at": event["at"]}}}
    asking = (call_id for call_id, call in state["calls"].items() if interrupt_id in call.get("questions", ()))
    step_id = next(asking, interrupt_id)
    step = state["steps"].get(step_id)
    settled = payload.get("approved") or payload.get("answered")
    if step is None or not settled or not step["status"].startswith("awaiting_"):
        return decided
    return {**decided, "steps": {**decided["steps"], step_id: {**step, "status": "approved"}}}


_FOLDS: dict[str, Callable[[JsonObject, JsonObject], JsonObject]] = {
    "turn_started": _turn_started,
    "turn_stopping": lambda state, event: _with_turn(state, event.get("turn_id"), status="stopping"),
    "turn_completed": _turn_ended("completed"),
    "turn_failed": _turn_ended("failed"),
    "turn_cancelled": _turn_ended("cancelled"),
    "turn_steered": _turn_ended("steered"),
    "title_changed": lambda state, event: {**state, "title": event["payload"].get("title")},
    "inbox.joined": lambda s, e: {**s, "joined": {**s["joined"], e["payload"]["message_id"]: True}},
    "model_started": lambda state, event: _start(state, event, "model"),
    "model_finished": _model_finished,
    "model_retry_scheduled": lambda s, e: _with_step(s, e, retry={**e["payload"], "at": e["at"]}),
    "attempt_reset": _attempt_reset,
    "text_delta": _piece("text"),
    "reasoning_delta": _piece("reasoning"),
    "tool.arguments_delta": _draft,
    "progress.gap": _progress_gap,
    "tool_call_deferred": _deferred,
    "tool_call_started": lambda s, e: _start(s, _tool_step(e), "tool", name=e["payload"]["tool_name"]),
    "tool_progress": lambda s, e: _with_call(s, _tool_step(e)["step_execution_id"], progress=e["payload"]),
    "tool_call_finished": _call_finished,
    "timer_started": _call_status("waiting_for_timer"),
    "tool.awaits_event": _call_status("waiting_for_event"),
    "tool_task_started": _call_status("waiting_for_task"),
    "task.reconciling": _call_status("waiting_for_task"),
    "interrupt_raised": _raised,
    "interrupt_resolved": _resolved,
}
