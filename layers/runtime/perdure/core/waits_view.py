"""Why a session waits: every blocker, since when, until when, who or what unblocks it, and the calls that do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from perdure.core.codec import format_time
from perdure.core.entries import Entry
from perdure.core.head import Call, Head, Interrupt, Schedule
from perdure.core.public import questions_of
from perdure.core.schedules import TIMER_PREFIX

JsonObject = dict[str, Any]

TITLE_CHARACTERS = 300
"""Length of what a title quotes, in characters; the whole is in the snapshot. Our own choice."""

APPROVER = "a person who may approve"
CONTROLLER = "a person who may control the session"
STOPPER = "a person who may stop it"
TIME = "its time"
APPLICATION = "trusted code of the application"
OPERATOR = "whoever runs the deployment"

ANSWER, VALUE, UNTIL, FRESH_ID = "<answer>", "<value>", "<RFC 3339 time>", "<fresh id>"
"""What a caller puts into a body before it is sent."""

_BLOCKED = {
    "auth": "The model refused the credential of the latest turn; later messages wait behind it.",
    "credits": "The model's account has no credit left; later messages wait behind the latest turn.",
}


def versions_shown(head: Head) -> tuple[int, ...]:
    """Return the versions of the entries that `waits_of` wants to see: where the words behind the blockers are."""
    turn = head.turn
    asked = {request.raised_version for request in head.requests}
    if turn is not None:
        asked |= {i.raised_version for i in turn.interrupts if i.raised_at is not None and i.kind != "approval"}
        if turn.model_version is not None and any(call.wait is not None and call.built_in for call in turn.calls):
            asked.add(turn.model_version)
    return tuple(sorted(asked))


def waits_of(session_id: str, head: Head, entries: Iterable[Entry] = ()) -> list[JsonObject]:
    """Return what keeps a session from going on by itself; nothing for one that works, or has nothing to do.

    Each is `{kind, id?, since, until?, title, unblocked_by, calls}`, and what else there is to say of its kind. A call
    is `{label, operation, method, path, body?}`; values in angle brackets are the caller's to fill in.

    Args:
        entries: Those of `versions_shown`.
    """
    if not head.exists:
        return []
    read = tuple(entries)
    view = _View(session_id)
    questions = questions_of(read)
    waits = [view.gate(head), *view.behind_failure(head)]
    waits += [view.request(request, questions.get(request.interrupt_id, {})) for request in head.requests]
    if head.turn is not None:
        turn, reasons = head.turn, _reasons(read)
        asked = [i for i in turn.interrupts if i.raised_at is not None]
        waits += [view.interrupt(each, turn.call(each.call_id), questions) for each in asked]
        waits += [view.call(call, reasons) for call in turn.open_calls]
        waits.append(view.reconnect(head))
    waits += [view.schedule(each) for each in sorted(head.schedules, key=lambda each: each.due_at)]
    if head.closed_at is not None:
        title = "The session is closed: it takes no more messages."
        waits.append(_blocker("closed", None, head.closed_at, title, (APPLICATION,)))
    return [wait for wait in waits if wait is not None]


def _reasons(entries: Iterable[Entry]) -> dict[str, str]:
    """Return the reasons that the model gave for its waits, by call id."""
    parts = (part for entry in entries for message in entry.messages for part in message.parts)
    calls = (part for part in parts if part["type"] == "tool_call" and part["tool_name"] == "durable_wait")
    return {part["tool_call_id"]: reason for part in calls if (reason := (part.get("arguments") or {}).get("reason"))}


class _View:
    """The blockers of one session, with the addresses of the calls that end them."""

    def __init__(self, session_id: str) -> None:
        self._path = f"/v1/sessions/{quote(session_id, safe=':')}"

    def gate(self, head: Head) -> JsonObject | None:
        if head.paused_at is None:
            return None
        title = "The session is paused: what runs finishes, and nothing new begins."
        resume = self._call("resume it", "resume", "POST", "/resume", {})
        return _blocker("pause", None, head.paused_at, title, (CONTROLLER,), (resume,))

    def behind_failure(self, head: Head) -> list[JsonObject]:
        hold = head.hold
        if hold is None:
            return []
        error = head.last_turn_error
        said = f" ({error.code}: {_shortened(error.message)})" if error else ""
        title = f"The latest turn failed{said}; later messages wait behind it."
        retry = self._call("run it again", "retry", "POST", "/retry", {"retry_id": FRESH_ID})
        dismiss = self._call("dismiss it", "stop", "POST", "/stop", {})
        who = (CONTROLLER, STOPPER) if hold.reason is None else (OPERATOR, CONTROLLER, STOPPER)
        kind, title = ("hold", title) if hold.reason is None else (hold.reason, _BLOCKED.get(hold.reason, title))
        return [_blocker(kind, None, hold.at, title, who, (retry, dismiss))]

    def interrupt(self, interrupt: Interrupt, call: Call | None, questions: JsonObject) -> JsonObject:
        assert interrupt.raised_at is not None, "it was raised"
        path = f"/interrupts/{interrupt.interrupt_id}"

        def decide(label: str, body: JsonObject) -> JsonObject:
            return self._call(label, "resolve_interrupt", "POST", path, body)

        more: JsonObject = {"tool_name": call.tool_name} if call is not None else {}
        if interrupt.kind == "approval":
            title = f"A person has to approve or reject {call.tool_name if call else 'a call'}."
            shown = {"arguments_hash": interrupt.arguments_hash}
            calls = [decide("approve", {"approved": True} | shown), decide("reject", {"approved": False} | shown)]
        else:
            asked = questions.get(interrupt.interrupt_id, {})
            title = f"A person has to answer: {_shortened(asked.get('question', 'a question'))}"
            calls = [decide("answer", {"answer": ANSWER}), decide("decline", {"approved": False})]
            more |= {"choices": asked["choices"]} if "choices" in asked else {}
            more["allows_free_text"] = interrupt.free_text
        who = (APPROVER, TIME) if interrupt.deadline is not None else (APPROVER,)
        calls.append(self._change(interrupt.interrupt_id))
        shown = _blocker(interrupt.kind, interrupt.interrupt_id, interrupt.raised_at, title, who, calls)
        return _until(shown, interrupt.deadline) | more

    def request(self, request: Interrupt, asked: JsonObject) -> JsonObject:
        """Return that the application asks people for a value. The session goes on meanwhile."""
        assert request.raised_at is not None, "it was raised at once"
        path = f"/interrupts/{quote(request.interrupt_id, safe=':')}"
        calls = (
            self._call("give the value", "resolve_interrupt", "POST", path, {"value": VALUE}),
            self._call("decline", "resolve_interrupt", "POST", path, {"approved": False}),
            self._change(quote(request.interrupt_id, safe=":")),
        )
        who = (APPROVER, TIME, APPLICATION) if request.deadline is not None else (APPROVER, APPLICATION)
        title = f"The application asks for a value: {_shortened(asked.get('question', request.interrupt_id))}"
        shown = _blocker("input", request.interrupt_id, request.raised_at, title, who, calls)
        return _until(shown, request.deadline)

    def call(self, call: Call, reasons: JsonObject) -> JsonObject | None:
        """Return what an open call waits for, if that is neither a worker nor a person."""
        if call.status == "waiting_for_task" and call.task is not None:
            return self._task(call)
        wait = call.wait
        if wait is None:
            return None
        name, tool = _shortened(wait.name), call.tool_name
        cancel = self._cancel(call)
        if wait.kind == "result":
            title = f"The result of {tool} comes from outside."
            return self._of_call("result", call, wait.since, title, (APPLICATION, CONTROLLER), [cancel])
        if wait.kind == "event":
            calls = [self._skip(call), self._change(call.call_id), cancel]
            who = (APPLICATION, CONTROLLER) if wait.until is None else (APPLICATION, TIME, CONTROLLER)
            title = f"{tool} waits for the event {name!r}."
            shown = self._of_call("event", call, wait.since, title, who, calls if wait.until else calls[1:])
            return _until(shown, wait.until) | {"name": wait.name}
        reason = reasons.get(call.call_id)
        title = "The agent waits" if call.built_in else f"{tool} waits ({name})"
        title += f" for its time to come: {_shortened(reason)}" if reason else " for its time to come."
        calls = [self._skip(call), self._change(call.call_id), cancel]
        shown = self._of_call("timer", call, wait.since, title, (TIME, CONTROLLER), calls)
        return (
            _until(shown, wait.until)
            | ({"reason": reason} if reason else {})
            | ({"name": wait.name} if wait.name else {})
        )

    def schedule(self, schedule: Schedule) -> JsonObject:
        """Return that a message comes by itself. Nothing else waits for it."""
        wait_id = f"{TIMER_PREFIX}{schedule.schedule_id}"
        path = quote(wait_id, safe=":")
        calls = (
            self._call("send it now", "skip_wait", "POST", f"/waits/{path}/skip", {}),
            self._change(path),
            self._call("cancel it", "cancel_wait", "DELETE", f"/waits/{path}"),
        )
        title = f"A message of the schedule {schedule.schedule_id!r} comes at its time."
        return _until(_blocker("schedule", wait_id, schedule.set_at, title, (TIME, CONTROLLER), calls), schedule.due_at)

    def reconnect(self, head: Head) -> JsonObject | None:
        """Return that a model's provider is called again later."""
        step = head.turn.step if head.turn else None
        if head.turn is None or step is None or step.waiting_since is None or step.not_before is None:
            return None
        calls = (
            self._call("ask now", "retry", "POST", "/retry", {"retry_id": FRESH_ID}),
            self._call("stop the turn", "stop", "POST", "/stop", {"turn_id": head.turn.turn_id}),
        )
        title = "The model gave no whole answer and is asked again later."
        who = (TIME, CONTROLLER, STOPPER)
        return _until(_blocker("retry", step.step_id, step.waiting_since, title, who, calls), step.not_before)

    def _task(self, call: Call) -> JsonObject:
        task = call.task
        assert task is not None, "it has remote work"
        later = call.wait.until if call.wait is not None else call.not_before
        if task.kind == "task":
            title, what = f"{call.tool_name} has started remote work, which is looked at from time to time.", "work"
        else:
            title, what = f"What became of {call.tool_name} is being looked up.", "lookup"
        calls = [self._cancel(call)]
        if call.wait is not None:
            calls = [self._skip(call, "look now"), self._change(call.call_id), *calls]
        who = ("the remote work", CONTROLLER)
        shown = self._of_call("task", call, task.since, title, who, calls) | {"task": what, "looks": task.looks}
        return shown if later is None else shown | {"next_look_at": format_time(later)}

    def _of_call(
        self, kind: str, call: Call, since: Any, title: str, who: tuple[str, ...], calls: list[JsonObject]
    ) -> JsonObject:
        return _blocker(kind, call.call_id, since, title, who, calls) | {"tool_name": call.tool_name}

    def _skip(self, call: Call, label: str = "do not wait any longer") -> JsonObject:
        return self._call(label, "skip_wait", "POST", f"/waits/{call.call_id}/skip", {})

    def _change(self, wait_id: str) -> JsonObject:
        return self._call("wait until another time", "change_wait", "PATCH", f"/waits/{wait_id}", {"until": UNTIL})

    def _cancel(self, call: Call) -> JsonObject:
        return self._call("cancel it", "cancel_wait", "DELETE", f"/waits/{call.call_id}")

    def _call(self, label: str, operation: str, method: str, path: str, body: JsonObject | None = None) -> JsonObject:
        call: JsonObject = {"label": label, "operation": operation, "method": method, "path": self._path + path}
        return call if body is None else call | {"body": body}


def _blocker(
    kind: str,
    wait_id: str | None,
    since: Any,
    title: str,
    unblocked_by: Iterable[str],
    calls: Iterable[JsonObject] = (),
) -> JsonObject:
    shown: JsonObject = {"kind": kind} if wait_id is None else {"kind": kind, "id": wait_id}
    shown |= {"since": format_time(since), "title": title}
    return shown | {"unblocked_by": list(unblocked_by), "calls": list(calls)}


def _until(shown: JsonObject, until: Any) -> JsonObject:
    return shown if until is None else shown | {"until": format_time(until)}


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= TITLE_CHARACTERS else line[: TITLE_CHARACTERS - 1] + "…"
