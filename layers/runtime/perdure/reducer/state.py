"""The state and what each action does to it. Nothing is changed in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce as fold
from typing import Any

from perdure.core.cursor import advance_sequence
from perdure.reducer.events import fold_event
from perdure.reducer.local import take_local
from perdure.reducer.turns import is_in_snapshot

JsonObject = dict[str, Any]

_OWN = ("snapshot", "messages", "next_before", "outbox", "doing", "deciding", "stopping")
"""What outlives a break in what a viewer was told."""

_LOCAL = ("outbox", "doing", "deciding", "stopping")


def initial_state(session_id: str) -> JsonObject:
    """Return the state of a session of which nothing is known yet."""
    return {
        "session_id": session_id,
        "snapshot": None,  # the latest one, without its messages
        "as_of": 0,  # every event up to this sequence is part of the snapshot
        "messages": [],  # oldest first, contiguous
        "next_before": None,  # where older messages are, if there are any
        "sequence": None,  # the last durable event that was taken
        "cursor": None,  # the last event of any kind: where a new stream goes on
        "gap": None,  # {expected, got, step_id?, attempt?}: something was missed; the stream starts again at the cursor
        "lost": None,  # the gap in live events that a new start of the stream did not fill: they are gone
        "progress": {},  # by step id: {attempt, seen}: how far its live events were taken
        "title": None,  # as the last event told
        "resets": {},  # by step id and attempt: how often its text was dropped, as seen live and as told by the record
        "turns": {},  # by turn id, in the order in which they started
        "steps": {},  # by step id, in the order in which they were heard of
        "calls": {},  # by tool call id: what only events tell about a call
        "partials": {},  # by step id: live text of the highest attempt
        "decisions": {},  # by interrupt id: closed ones, whoever closed them
        "joined": {},  # by message id: those that joined a turn that was running
        "outbox": [],  # what this viewer sent and the server has not shown yet
        "doing": {},  # by command: its own commands that are on their way, and what they will do
        "deciding": {},  # by interrupt id: its own decision that is on its way
        "stopping": None,  # {turn_id, partials}: the turn that it asked to stop, and the live text at that moment
    }


def reduce(state: JsonObject, action: Mapping[str, Any]) -> JsonObject:
    """Return the state after one action; unknown actions and old news change nothing."""
    take = _ACTIONS.get(action["type"])
    return take(state, action) if take is not None else take_local(state, action)


def _take_event(state: JsonObject, event: JsonObject) -> JsonObject:
    """Durable events are numbered without gaps; an event that was seen live comes again as a durable one."""
    sequence = event.get("sequence")
    if sequence is None:
        return state if state["gap"] else _take_live(state, event)
    last = state["sequence"]
    verdict = advance_sequence(last, sequence)
    if verdict == "duplicate":
        return state
    if verdict == "gap":
        return {**state, "gap": {"expected": last + 1, "got": sequence}}
    taken = {**state, "gap": None, "sequence": sequence, "cursor": event.get("cursor", state["cursor"])}
    return fold_event(taken, event)


def _take_live(state: JsonObject, event: JsonObject) -> JsonObject:
    """Live events are numbered per attempt of their step. Of those that are gone for good the rest is shown."""
    step_id, attempt, got = event.get("step_execution_id"), event.get("attempt", 1), event.get("progress_sequence")
    known = state["progress"].get(step_id)
    if known is not None and attempt < known["attempt"]:
        return state
    cursor = event.get("cursor", state["cursor"])
    if got is None:
        return fold_event({**state, "cursor": cursor}, event)
    seen = known["seen"] if known is not None and known["attempt"] == attempt else 0
    verdict = advance_sequence(seen, got)
    if verdict == "duplicate":
        return state
    gap = {"expected": seen + 1, "got": got, "step_id": step_id, "attempt": attempt}
    if verdict == "gap" and not _is_lost(state["lost"], gap):
        return {**state, "gap": gap}
    progress = {**state["progress"], step_id: {"attempt": attempt, "seen": got}}
    taken = fold_event({**state, "cursor": cursor, "progress": progress}, event)
    partial = taken["partials"].get(step_id)
    if verdict == "accepted" or partial is None:
        return taken
    return {**taken, "partials": {**taken["partials"], step_id: {**partial, "incomplete": True}}}


def _is_lost(lost: JsonObject | None, gap: JsonObject) -> bool:
    return lost is not None and all(lost[name] == gap[name] for name in ("step_id", "attempt", "expected"))


def _take_events(state: JsonObject, events: Sequence[JsonObject]) -> JsonObject:
    return fold(_take_event, events, state)


def _take_page(state: JsonObject, action: Mapping[str, Any]) -> JsonObject:
    """A page holds all that follows its cursor, so nothing is missing before its first event."""
    first = next((event["sequence"] for event in action["events"] if "sequence" in event), None)
    last = state["sequence"]
    if first is not None and last is not None and first > last + 1:
        state = {**state, "sequence": first - 1}
    return _at_cursor(_take_events(state, action["events"]), action.get("cursor"))


def _at_cursor(state: JsonObject, cursor: str | None) -> JsonObject:
    return state if cursor is None or state["gap"] else {**state, "cursor": cursor}


def _take_snapshot(state: JsonObject, action: Mapping[str, Any]) -> JsonObject:
    snapshot, restart = action["snapshot"], action.get("restart", False)
    if restart:
        state = {**initial_state(state["session_id"]), **{name: state[name] for name in _OWN}}
    known = _version(state["snapshot"])
    rest = {name: value for name, value in snapshot.items() if name not in ("messages", "next_before")}
    cursor = action.get("from", snapshot.get("cursor")) if restart else state["cursor"]
    if snapshot["state"] is None and known:  # purged
        return {**initial_state(state["session_id"]), "snapshot": rest, "cursor": snapshot.get("cursor")}
    if snapshot["state"] is not None and _version(snapshot) < known:  # it was overtaken
        return {**state, "cursor": cursor}
    shown = {message["message_id"] for message in (*snapshot["messages"], *snapshot.get("inbox", ()))}
    as_of = max(state["as_of"], action.get("as_of", 0))
    taken = {**state, "snapshot": rest, "as_of": as_of, "cursor": cursor}
    stopping = state["stopping"]
    still = stopping is not None and (rest["state"] or {}).get("turn_id") == stopping["turn_id"]
    return {
        **taken,
        **_with_newest(state, snapshot["messages"], snapshot.get("next_before")),
        "partials": {
            step_id: partial
            for step_id, partial in state["partials"].items()
            if not is_in_snapshot(taken, partial.get("finished_sequence"), partial.get("finished_version"))
        },
        "outbox": [item for item in state["outbox"] if item["message_id"] not in shown],
        "title": None if as_of >= (state["sequence"] or 0) else state["title"],  # the snapshot's is as new
        "stopping": stopping if still else None,
    }


def _version(snapshot: JsonObject | None) -> int:
    version: int = ((snapshot or {}).get("state") or {}).get("version", 0)
    return version


def _with_newest(state: JsonObject, newest: list[JsonObject], next_before: str | None) -> JsonObject:
    """The newest messages replace those with their numbers; older ones stay unless there is a hole in between."""
    if newest:
        first = newest[0]["sequence"]
        older = [message for message in state["messages"] if message["sequence"] < first]
        if older and older[-1]["sequence"] == first - 1:
            return {"messages": [*older, *newest], "next_before": state["next_before"]}
    return {"messages": newest, "next_before": next_before if newest else None}


def _take_older(state: JsonObject, action: Mapping[str, Any]) -> JsonObject:
    page, messages = action["page"], state["messages"]
    older = [m for m in page["messages"] if not messages or m["sequence"] < messages[0]["sequence"]]
    return {**state, "messages": [*older, *messages], "next_before": page.get("next_before")}


def _take_messages(state: JsonObject, action: Mapping[str, Any]) -> JsonObject:
    given = {message["sequence"]: message for message in action["messages"]}
    merged = {message["sequence"]: message for message in state["messages"]} | given
    ids = {message["message_id"] for message in given.values()}
    return {
        **state,
        "messages": [merged[sequence] for sequence in sorted(merged)],
        "outbox": [item for item in state["outbox"] if item["message_id"] not in ids],
    }


def _take_initial(state: JsonObject, action: Mapping[str, Any]) -> JsonObject:
    """Somebody else's state is a beginning, and no news to a viewer that knows as much.

    Not even that there is no session: it was made before this one began.
    """
    begun = initial_state(state["session_id"])
    initial = action.get("state") or _take_snapshot(begun, {"snapshot": action["snapshot"], "restart": True})
    if state["snapshot"] is None and state["sequence"] is None:
        return {**initial, **{name: state[name] for name in _LOCAL}}
    if initial["snapshot"] is None or _is_known(state, initial):
        return state
    snapshot = {**initial["snapshot"], "messages": initial["messages"], "next_before": initial["next_before"]}
    return _take_snapshot(state, {"snapshot": snapshot, "as_of": initial["as_of"]})


def _is_known(state: JsonObject, initial: JsonObject) -> bool:
    known, version = _version(state["snapshot"]), _version(initial["snapshot"])
    same = version == known and initial["as_of"] <= state["as_of"]
    return state["snapshot"] is not None and (version < known or same)


def _restarted(state: JsonObject, _action: Mapping[str, Any]) -> JsonObject:
    gap = state["gap"]
    return {**state, "gap": None, "lost": gap if gap and "step_id" in gap else None}


_ACTIONS: dict[str, Callable[[JsonObject, Mapping[str, Any]], JsonObject]] = {
    "event": lambda state, action: _take_event(state, action["event"]),
    "stream": lambda state, action: _at_cursor(_take_events(state, action["events"]), action.get("cursor")),
    "events": _take_page,
    "snapshot": _take_snapshot,
    "messages": _take_messages,
    "older_messages": _take_older,
    "initial": _take_initial,
    "stream_restarted": _restarted,
}
