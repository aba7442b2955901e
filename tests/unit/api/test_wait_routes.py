"""Waits and answers over HTTP and by the `Session` object: the same in one process, but for what is trusted code's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import httpx
import pytest

import perdure
from perdure.api import result_shapes, shapes
from perdure.api.messages import json_bytes
from perdure.api.payload_shapes import PAYLOADS
from perdure.core.codec import format_time
from perdure.embedded.runtime import EmbeddedRuntime
from perdure.embedded.server import create_app
from perdure.errors import ForbiddenError, InvalidRequestError, StoreUnavailableError, UnsettledError
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results, user_texts
from perdure.session import Session
from tests.unit.api.builders import Api, code
from tests.unit.api.test_openapi import fits
from tests.unit.steps.builders import an_agent
from tests.unit.waiting import Remote, deploy

SESSION = "/v1/sessions/s-1"
WAIT = "call-2-0"
SOON = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
FAR = SOON.astimezone(timezone(timedelta(hours=2))).isoformat()


def waiter(remote: Remote | None = None) -> Any:
    """An agent that does what the user says: ask, choose, sleep, deploy, render or book."""

    @perdure.function_tool(effect="non_idempotent_write")
    def book(room: str) -> str:
        """Book a room."""
        return f"booked {room}"

    calls = {
        "ask": call("ask_user", question="Which colour?"),
        "choose": call("ask_user", question="Which?", choices=["a", "b"], allows_free_text=False),
        "sleep": call("durable_wait", duration_seconds=86400, reason="overnight"),
        "deploy": call("deploy", target="web"),
        "render": call("render"),
        "book": call("book", room="r1"),
    }
    model = ScriptedModel(
        lambda request: "done" if tool_results(request) else Reply(calls=(calls[user_texts(request)[-1]],))
    )
    tools = (deploy, book, (remote or Remote(timedelta(hours=1))).tool)
    return an_agent(*tools, model=model, built_in_tools=["ask_user", "durable_wait"])


@pytest.fixture(params=["in-process", "http"])
async def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    async with EmbeddedRuntime(tmp_path / "sessions.db", [waiter()], grace_seconds=0) as embedded:
        if request.param == "in-process":
            yield embedded
            return
        transport = httpx.ASGITransport(create_app(embedded.service))
        async with perdure.connect("http://127.0.0.1:8787", transport=transport) as client:
            yield client


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with EmbeddedRuntime(tmp_path / "sessions.db", [waiter()], grace_seconds=0) as embedded:
        yield Api(embedded.service)


async def waiting(runtime: Any, text: str, kind: str) -> Session:
    """Say something to the agent; return the session once it waits in the way that follows."""
    session: Session = runtime.session("s-1")
    receipt = await session.send(text)
    async for event in session.events(after=receipt.cursor, follow=True):
        if event.type == kind:
            break
    return session


async def blocked(api: Api, text: str, kind: str) -> dict[str, Any]:
    await api.post(f"{SESSION}/inputs", {"text": text})
    await api.until("s-1", kind)
    _, reply = await api.get(f"{SESSION}/waits")
    (wait,) = reply["waits"]
    fits(result_shapes.Waits, reply)
    return dict(wait)


async def over(session: Session) -> str:
    """Wait for the turn's end; return the output of its call."""
    async for event in session.events(follow=True):
        if event.type == "turn_completed":
            break
    (shown,) = (await session.snapshot())["tool_calls"]
    return str(shown.get("output") or shown.get("error"))


# --- by the session object -------------------------------------------------------------------------------------------


async def test_a_question_is_answered_with_a_word_besides(runtime: Any) -> None:
    session = await waiting(runtime, "ask", "interrupt_raised")

    assert await session.answer(WAIT, "red", "or orange") == {"result": "resolved"}

    assert await over(session) == '{"status": "answered", "answer": "red", "message": "or orange"}'


async def test_a_question_is_declined(runtime: Any) -> None:
    session = await waiting(runtime, "ask", "interrupt_raised")

    assert await session.decline(WAIT, "not now") == {"result": "resolved"}

    assert await over(session) == "not now"


async def test_a_call_is_approved_with_other_arguments(runtime: Any) -> None:
    session = await waiting(runtime, "book", "interrupt_raised")
    (interrupt,) = (await session.snapshot())["pending_interrupts"]

    with pytest.raises(InvalidRequestError, match="arguments_hash"):
        await session.resolve(WAIT, approved=True, arguments={"room": "r2"})
    shown = interrupt["arguments_hash"]
    with pytest.raises(InvalidRequestError, match="invalid book arguments: room"):
        await session.resolve(WAIT, approved=True, arguments={"room": 2}, arguments_hash=shown)
    await session.resolve(WAIT, approved=True, arguments={"room": "r2"}, arguments_hash=shown)

    assert (await over(session)).startswith("booked r2")


async def test_a_wait_is_looked_at_moved_and_skipped(runtime: Any) -> None:
    session = await waiting(runtime, "sleep", "timer_started")

    (before,) = await session.waits()
    assert await session.change_wait(WAIT, FAR) == {"result": "recorded"}
    (after,) = await session.waits()
    assert await session.change_wait(WAIT, SOON + timedelta(days=30)) == {"result": "recorded"}
    (again,) = await session.waits()
    assert await session.skip_wait(WAIT) == {"result": "recorded"}

    assert (before["kind"], before["reason"]) == ("timer", "overnight")
    assert after == before | {"until": format_time(SOON)}
    assert again["until"] == format_time(SOON + timedelta(days=30))
    assert '"status": "skipped"' in await over(session)
    assert await session.waits() == []


async def test_a_wait_is_cancelled(runtime: Any) -> None:
    session = await waiting(runtime, "sleep", "timer_started")

    assert await session.cancel_wait(WAIT) == {"result": "recorded"}

    assert "cancelled" in await over(session)


async def test_a_deadline_is_set_and_taken_away(runtime: Any) -> None:
    session = await waiting(runtime, "ask", "interrupt_raised")

    await session.change_wait(WAIT, FAR)
    (limited,) = await session.waits()
    await session.change_wait(WAIT, None)
    (unlimited,) = await session.waits()

    assert limited["until"] == format_time(SOON)
    assert "until" not in unlimited


@pytest.mark.parametrize(
    "command",
    [
        lambda session: session.send_event(WAIT, "deployed", 1),
        lambda session: session.bring_result(WAIT, "web_search", "x"),
        lambda session: session.approval_request(WAIT),
        lambda session: session.approval_response({}, True),
        lambda session: session.abandon(turn_id="turn-1", step_execution_id="model-1-0", attempt=1, version=1),
    ],
)
async def test_what_is_trusted_codes_is_refused_over_http_without_a_request(command: Any) -> None:
    def nothing(request: httpx.Request) -> httpx.Response:
        raise AssertionError(f"a request went out: {request.url}")

    async with perdure.connect("http://127.0.0.1:1", transport=httpx.MockTransport(nothing)) as client:
        with pytest.raises(ForbiddenError, match="trusted code"):
            await command(client.session("s-1"))


# --- on the wire -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "event", "kind"),
    [("ask", "interrupt_raised", "question"), ("choose", "interrupt_raised", "question"),
     ("book", "interrupt_raised", "approval"), ("sleep", "timer_started", "timer"),
     ("render", "tool_task_started", "task"), ("deploy", "interrupt_raised", "question")],
)  # fmt: skip
async def test_what_is_told_of_a_wait_fits_the_document(api: Api, text: str, event: str, kind: str) -> None:
    wait = await blocked(api, text, event)
    _, snapshot = await api.get(SESSION)
    _, sessions = await api.get("/v1/sessions")
    _, page = await api.get(f"{SESSION}/events")

    assert wait["kind"] == kind
    fits(shapes.Snapshot, snapshot)
    fits(shapes.SessionPage, sessions)
    for each in page["events"]:
        fits(PAYLOADS[each["type"]], each["payload"])


@pytest.mark.parametrize(
    ("text", "event", "label"),
    [("sleep", "timer_started", "do not wait any longer"), ("sleep", "timer_started", "cancel it"),
     ("ask", "interrupt_raised", "decline"), ("book", "interrupt_raised", "approve"),
     ("book", "interrupt_raised", "reject"), ("render", "tool_task_started", "cancel it")],
)  # fmt: skip
async def test_a_request_that_is_told_ends_the_wait_as_it_stands(api: Api, text: str, event: str, label: str) -> None:
    wait = await blocked(api, text, event)
    (told,) = [each for each in wait["calls"] if each["label"] == label]

    status, _ = await api.command(told["method"], told["path"], told.get("body"))

    assert status == 200
    await api.until("s-1", "turn_completed")
    assert (await api.get(f"{SESSION}/waits")) == (200, {"waits": []})


async def test_everything_that_happens_to_waits_is_in_the_document(api: Api) -> None:
    await blocked(api, "deploy", "interrupt_raised")
    question = f"{WAIT}-input-1"
    await api.command("PATCH", f"{SESSION}/waits/{question}", {"until": FAR})
    _, answered = await api.post(f"{SESSION}/interrupts/{question}", {"answer": "eu", "message": "please"})
    await api.until("s-1", "timer_started")
    await api.post(f"{SESSION}/waits/{WAIT}/skip", {})
    await api.until("s-1", "tool.awaits_event")
    await api.command("DELETE", f"{SESSION}/waits/{WAIT}")
    await api.until("s-1", "turn_completed")

    _, page = await api.get(f"{SESSION}/events")

    fits(result_shapes.Resolution, answered)
    types = [each["type"] for each in page["events"]]
    assert {"wait.changed", "wait.skipped", "wait.cancelled", "tool.awaits_event"} <= set(types)
    for each in page["events"]:
        fits(PAYLOADS[each["type"]], each["payload"])


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("PATCH", f"waits/{WAIT}", {}, (400, "invalid_request")),
        ("PATCH", f"waits/{WAIT}", {"until": 5}, (400, "invalid_request")),
        ("PATCH", f"waits/{WAIT}", {"until": "soon"}, (400, "invalid_request")),
        ("PATCH", f"waits/{WAIT}", {"until": "2099-01-01T00:00:00Z"}, (400, "invalid_request")),
        ("PATCH", f"waits/{WAIT}", {"until": None}, (400, "invalid_request")),
        ("PATCH", f"waits/{WAIT}", {"until": FAR, "why": 1}, (400, "invalid_request")),
        ("PATCH", "waits/call-9-9", {"until": FAR}, (404, "wait_not_found")),
        ("POST", "waits/call-9-9/skip", {}, (404, "wait_not_found")),
        ("POST", "waits/%00/skip", {}, (404, "wait_not_found")),
        ("DELETE", "waits/..%2Fstop", None, (404, "wait_not_found")),
        ("POST", f"waits/{WAIT}/skip", {"now": True}, (400, "invalid_request")),
        ("POST", f"interrupts/{WAIT}", {"answer": "a"}, (404, "interrupt_not_found")),
    ],
)
async def test_a_bad_command_on_a_wait_is_refused_and_changes_nothing(
    api: Api, method: str, path: str, body: Any, expected: tuple[int, str]
) -> None:
    await blocked(api, "sleep", "timer_started")
    before = await api.everything("s-1")

    assert code(await api.command(method, f"{SESSION}/{path}", body)) == expected

    assert await api.everything("s-1") == before


async def test_a_wait_of_a_session_that_was_never_written(api: Api) -> None:
    assert await api.get("/v1/sessions/never/waits") == (200, {"waits": []})
    assert code(await api.post("/v1/sessions/never/waits/x/skip", {})) == (404, "session_not_found")


@pytest.mark.parametrize("method", ["PATCH", "POST", "DELETE"])
async def test_a_key_gives_the_first_reply_again(api: Api, method: str) -> None:
    await blocked(api, "sleep", "timer_started")
    path = f"{SESSION}/waits/{WAIT}" + ("/skip" if method == "POST" else "")
    body = {"PATCH": {"until": FAR}, "POST": {}, "DELETE": None}[method]

    first = await api.command(method, path, body, key="k")
    again = await api.command(method, path, body, key="k")

    assert first == again == (200, {"result": "recorded"})


async def test_choices_hold_over_http(api: Api) -> None:
    await blocked(api, "choose", "interrupt_raised")
    path = f"{SESSION}/interrupts/{WAIT}"

    assert code(await api.post(path, {"answer": "c"})) == (400, "invalid_request")
    assert await api.post(path, {"answer": "b"}) == (200, {"result": "resolved"})


# --- no answer -------------------------------------------------------------------------------------------------------


class Silent:
    """A service whose store never answers a stop."""

    def __init__(self, error: StoreUnavailableError) -> None:
        self._error = error

    async def stop(self, *_: Any, **__: Any) -> Any:
        raise self._error


@pytest.mark.parametrize(
    "run",
    [
        {"session_id": "s-1"},
        {"session_id": "s-1", "turn_id": "turn-1", "step_execution_id": "model-1-0", "attempt": 2},
    ],
    ids=["nothing", "a run"],
)
async def test_a_command_without_an_answer_names_the_run_over_http_as_well(run: dict[str, Any]) -> None:
    app = create_app(Silent(UnsettledError("no answer", **run)))  # type: ignore[arg-type]
    async with perdure.connect("http://127.0.0.1:8787", transport=httpx.ASGITransport(app)) as client:
        with pytest.raises(UnsettledError) as caught:
            await client.session("s-1").stop(idempotency_key="k")

    assert caught.value.run == run
    assert (caught.value.code, caught.value.idempotency_key) == ("store_unavailable", "k")


async def test_the_document_knows_what_an_error_says_of_a_run() -> None:
    api = Api(Silent(UnsettledError("no answer", session_id="s-1", turn_id="turn-1")))

    status, reply = await api.post(f"{SESSION}/stop", {})

    assert (status, reply["error"]["run"]) == (503, {"session_id": "s-1", "turn_id": "turn-1"})
    fits(shapes.Error, reply)
    assert b'"retryable":true' in json_bytes(reply).replace(b" ", b"")
