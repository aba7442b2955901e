"""How sessions look in a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

JsonObject = Mapping[str, Any]

_CONTROLS = [code for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"]
_REORDERING = [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_SEPARATORS = [0x2028, 0x2029]
_SURROGATES = range(0xD800, 0xE000)
_VISIBLE = {code: f"\\x{code:02x}" for code in _CONTROLS} | {
    code: f"\\u{code:04x}" for code in (*_REORDERING, *_SEPARATORS, *_SURROGATES)
}


def plain(text: str) -> str:
    """Return a text that shows as what it is: what would move the cursor, change colours or reorder becomes visible.

    Nobody can be made to approve arguments that only look different. Lone surrogates, which a terminal can't be sent,
    become visible as well.
    """
    return text.replace("\r\n", "\n").translate(_VISIBLE)


def indented(text: str) -> str:
    """Return a text whose further lines are indented, so that none of them looks like a line of ours."""
    return text.replace("\n", "\n  ")


def one_line(text: str) -> str:
    """Return a text without line breaks and runs of white space."""
    return " ".join(text.split())


def say(text: str = "", *, end: str = "\n", stream: TextIO | None = None) -> None:
    """Print at once."""
    print(plain(text), end=end, flush=True, file=stream or sys.stdout)


def arguments_of(item: JsonObject) -> str:
    """Return the arguments of a call or interrupt on one line."""
    if "arguments" in item:
        return json.dumps(item["arguments"], ensure_ascii=False)
    cut = f"… (only the start is shown, of {item['bytes']} bytes)" if item.get("truncated") else ""
    return one_line(str(item.get("arguments_text", ""))) + cut


def text_of(message: JsonObject) -> str:
    """Return the text of a message."""
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


def writer_of(message: JsonObject) -> str | None:
    """Return who wrote a message; None: a person on this machine (spec INBOX-18)."""
    source, actor = message.get("source", "person"), message.get("actor") or {}
    subject = str(actor["subject"]) if actor.get("issuer", "local") != "local" else None
    if source == "person":
        return subject
    return f"{source} for {subject}" if subject else str(source)


def print_message(message: JsonObject) -> None:
    """Print one message of a transcript."""
    status = f" ({message['status']})" if "status" in message else ""
    if text := text_of(message):
        roles: dict[str, str] = {"user": writer_of(message) or "you", "assistant": "agent"}
        who = one_line(roles.get(message["role"], str(message["role"])))
        say(f"{who}{status}: {indented(text)}")
    for part in message["parts"]:
        if part["type"] == "tool_call":
            say(f"  tool {part['tool_name']} {arguments_of(part)}")
        elif part["type"] == "tool_result":
            say(f"  -> {part['status']}: {shortened(part['output'])}")
        elif part["type"] == "file":
            say(f"  file {part.get('name') or part['reference']}")
        if part.get("truncated"):
            say(f"  (only the start is shown, of {part['bytes']} bytes)")


def notes_of(entry: JsonObject) -> str:
    """Return what else there is to say of a message that waits: ` (urgent, from webhook, 2 files)`."""
    writer, files = writer_of(entry), len(entry.get("files", ()))
    notes = ["urgent" if entry.get("urgent") else "", f"from {writer}" if writer else ""]
    notes.append(f"{files} file{'s' if files > 1 else ''}" if files else "")
    said = ", ".join(note for note in notes if note)
    return f" ({one_line(said)})" if said else ""


def shortened(text: str, longest: int = 200) -> str:
    """Return the start of a text on one line."""
    line = one_line(text)
    return line if len(line) <= longest else line[: longest - 1] + "…"


def describe_event(event: JsonObject) -> str | None:
    """Return one line for a timeline, or None for what it leaves out."""
    payload = event["payload"]
    kind = event["type"]
    name = payload.get("tool_name", "")
    lines = {
        "turn_started": "turn started",
        "turn_completed": f"turn completed{_why(payload)}",
        "turn_cancelled": f"turn {_STOPPED.get(payload.get('reason', ''), 'stopped')}",
        "turn_steered": "turn steered",
        "message_removed": "message taken back",
        "inbox.joined": "message joined the turn",
        "inbox.edited": f"message edited by {_subject(payload)}",
        "inbox.moved": f"message moved by {_subject(payload)}",
        "session_paused": f"paused by {_subject(payload)}",
        "session_resumed": f"resumed by {_subject(payload)}",
        "hold.released": f"let go by {_subject(payload)}",
        "settings.changed": f"settings changed by {_subject(payload)}",
        "session.started": f"started by {_subject(payload)}",
        "session.closed": f"closed by {_subject(payload)}",
        "session.reopened": f"opened again by {_subject(payload)}",
        "title_changed": f"called {one_line(str(payload.get('title')))}, by {_namer(payload)}",
        "session.seeded": f"{payload.get('message_count')} messages imported",
        "turn_stopping": "stop requested",
        "model_started": "model step started",
        "model_finished": f"model step {payload.get('status')}",
        "tool_call_deferred": f"wants {name} ({payload.get('effect')})",
        "tool_call_started": f"{name} started",
        "tool_call_finished": f"{name} {payload.get('status')}",
        "message_queued": "message queued",
        "attempt_reset": f"attempt given up: {payload.get('reason')}",
        "model_retry_scheduled": f"reconnect {payload.get('attempt')} in {payload.get('retry_in_ms')} ms",
    }
    if kind == "turn_failed":
        error = payload["error"]
        return f"turn failed: {error['code']}: {error['message']}"
    if kind == "interrupt_raised":
        what = f"an approval of {name}" if _is_approval(payload) else f"an answer: {_question(payload)}"
        return f"waits for {what} ({payload['interrupt_id']})"
    if kind == "interrupt_resolved":
        return f"{'approval' if _is_approval(payload) else 'question'} {_decision(payload)}"
    return lines.get(kind) or _described_wait(kind, payload)


def _is_approval(payload: JsonObject) -> bool:
    return bool(payload.get("kind", "approval") == "approval")


def _question(payload: JsonObject) -> str:
    return shortened(str(payload.get("question", "?")), 120)


def _described_wait(kind: str, payload: JsonObject) -> str | None:
    """Return one line for what happens to a call that waits."""
    call, name = payload.get("tool_call_id", payload.get("wait_id", "")), payload.get("name", "")
    lines = {
        "timer_started": f"{call} waits until {payload.get('until')}",
        "tool_task_started": f"{payload.get('tool_name')} started remote work",
        "task.looked": f"looked at {call}: {payload.get('status')}",
        "task.reconciling": f"looking up what became of {call}",
        "task.cancelled": f"remote work of {call} {'was asked to stop' if payload.get('cancelled') else 'goes on'}",
        "tool.step_recorded": f"{call} did {name}",
        "tool.awaits_event": f"{call} waits for the event {name}",
        "tool.event_arrived": f"event {name} came for {call}, from {_subject(payload)}",
        "wait.skipped": f"wait of {call} skipped by {_subject(payload)}",
        "wait.cancelled": f"wait of {call} cancelled by {_subject(payload)}",
        "wait.changed": f"{call} waits until {payload.get('until', 'somebody ends it')}, by {_subject(payload)}",
    }
    return one_line(lines[kind]) if kind in lines else None


_STOPPED = {"interrupted": "interrupted by a message", "superseded": "superseded by a message"}


def _subject(payload: JsonObject) -> str:
    """Return who did something; nobody did what happened by itself."""
    return str((payload.get("actor") or {}).get("subject", "itself"))


def _namer(payload: JsonObject) -> str:
    return "a model" if payload.get("by") == "model" else _subject(payload)


def _why(payload: JsonObject) -> str:
    reason = payload.get("policy_name") or payload.get("reason")
    return f" ({reason})" if reason else ""


def _decision(payload: JsonObject) -> str:
    if "cancellation_reason" in payload:
        return f"withdrawn ({payload['cancellation_reason']})"
    actor = _subject(payload)
    words = payload.get("message") or payload.get("rejection_message")
    said = f": {shortened(words)}" if words else ""
    if "answered" in payload:
        answer = payload.get("answer")
        told = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        return f"answered by {actor}: {shortened(told)}" if payload["answered"] else f"not answered by {actor}{said}"
    changed = f" with {json.dumps(payload['arguments'], ensure_ascii=False)}" if "arguments" in payload else ""
    return f"{'given' if payload.get('approved') else 'refused'} by {actor}{changed}{said}"


def stuck_as(state: JsonObject) -> list[str]:
    """Return what keeps a session from going on, in words for a list: `paused`, `held`, `blocked: auth`, `closed`."""
    found = [name for name in ("paused", "closed") if state.get(name)]
    if state.get("held"):
        reason = state.get("blocked_reason")
        found.append(f"blocked: {reason}" if reason else "held")
    return found


def next_step(state: JsonObject) -> str | None:
    """Return what would let a session go on that does not by itself, in the words of `perdure chat`."""
    if state.get("paused"):
        return "paused: /resume lets it go on"
    if state.get("blocked_reason"):
        what = _BLOCKED.get(state["blocked_reason"], state["blocked_reason"])
        return f"{what}: mend that and send anything, /retry, or /dismiss the failed turn"
    if state.get("held"):
        return "held behind the failed turn: /retry runs it again, /dismiss gives it up"
    return None


_BLOCKED = {"auth": "the model refused the credential", "credits": "the model's account has no credit left"}


def print_timeline(events: Sequence[JsonObject]) -> None:
    """Print a session's durable events, one line each."""
    for event in events:
        line = describe_event(event)
        if line is None:
            continue
        attempt = event.get("attempt", 1)
        again = f" [attempt {attempt}]" if attempt > 1 else ""
        say(f"  {event['at'][11:23]}  {event.get('turn_id', ''):8}  {line}{again}")


def heading_of(snapshot: JsonObject) -> str:
    """Return the id of a session, its title if it has one, and its agent."""
    title = f" ({snapshot['title']})" if snapshot.get("title") else ""
    return f"session {snapshot['session_id']}{title} · agent {snapshot['agent']}"


def print_state(snapshot: JsonObject) -> None:
    """Print what state a session is in, and the messages that wait for their turn."""
    state = snapshot["state"]
    say(f"{heading_of(snapshot)} · {state['status']} · version {state['version']}")
    if "last_turn_error" in state:
        error = state["last_turn_error"]
        say(f"the last turn failed: {error['code']}: {error['message']}")
    if operation := state.get("operation"):
        attempt = f", attempt {operation['attempt']}" if operation["attempt"] > 1 else ""
        say(f"model step {operation['step_execution_id']} is {operation['phase']}, since {operation['since']}{attempt}")
    for queued in snapshot["inbox"]:
        delivery = queued.get("delivery", "queue")
        say(f"{'queued' if delivery == 'queue' else delivery}{notes_of(queued)}: {shortened(queued['text'])}")


def lines_of_status(snapshot: JsonObject) -> list[str]:
    """Return what a session does, is kept from, waits for and has used, in a few lines."""
    state = snapshot["state"]
    if state is None:
        return [f"session {snapshot['session_id']}: nothing was said yet"]
    count = state["turn_count"]
    turn = f" · {state['turn_id']}" if "turn_id" in state else f" · {count} turn{'' if count == 1 else 's'} so far"
    lines = [f"{heading_of(snapshot)} · {state['status']}{turn}"]
    if "last_turn_error" in state:
        error = state["last_turn_error"]
        lines.append(f"the last turn failed: {error['code']}: {shortened(error['message'])}")
    if step := next_step(state):
        lines.append(step)
    for item in state.get("waiting_for", []):
        until = f", until {item['until']}" if "until" in item else ""
        lines.append(f"waits for {item['kind']} {item['id']}, since {item['since']}{until}")
    if snapshot["inbox"]:
        lines.append(f"{len(snapshot['inbox'])} waiting: /inbox")
    figures = [f"{name} {snapshot['usage'][name]['value']}" for name in _FIGURES if "value" in snapshot["usage"][name]]
    calls = snapshot["usage"]["model_calls"]
    lines.append(f"{calls} model call{'' if calls == 1 else 's'}" + "".join(f" · {figure}" for figure in figures))
    return lines


_FIGURES = ("input_tokens", "output_tokens")
