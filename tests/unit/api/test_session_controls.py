"""The controls of a `Session`: the same in the process of the runtime and over HTTP, but for what is trusted code's."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import (
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    PerdureError,
    RequestConflictError,
    TooLargeError,
)
from perdure.session import Session, SessionEvent
from tests.unit.api.builders import Desk, a_runtime


async def collected(events: AsyncIterator[SessionEvent]) -> list[SessionEvent]:
    return [event async for event in events]


async def thinking(runtime: Any, *waiting: str) -> tuple[Session, list[str]]:
    """Have a turn run that ends when the gate opens, and messages wait behind it; return their ids."""
    session: Session = runtime.session("s-1")
    await session.send("think")
    return session, [(await session.send(text)).message_id for text in waiting]


async def texts(session: Session) -> list[str]:
    return [entry["text"] for entry in (await session.inbox())["entries"]]


async def test_what_waits_is_edited_moved_taken_back_and_sent_now(runtime: Any) -> None:
    session, (one, two, three) = await thinking(runtime, "one", "two", "three")

    assert await session.edit(one, "1") == {"result": "recorded"}
    assert await session.move(three, position="first") == {"result": "recorded"}
    assert await texts(session) == ["three", "1", "two"]
    assert await session.move(three, after=one) == {"result": "recorded"}
    assert await session.move(two, before=one) == {"result": "recorded"}
    assert await texts(session) == ["two", "1", "three"]
    assert await session.remove(three) == {"result": "removed", "message_id": three, "text": "three"}
    assert await session.deliver(one, "interrupt_next") == {"message_id": one, "delivered_as": "interrupt_next"}


async def test_a_session_begins_without_a_message_and_a_known_one_is_not_reset(runtime: Any) -> None:
    """Spec SESS-01."""
    session: Session = runtime.session("s-1", agent="other")

    assert await session.start({"tone": "dry"}, idempotency_key="k") == {"result": "recorded"}
    begun = await session.snapshot()
    assert await session.start({"tone": "dry"}, idempotency_key="k") == {"result": "recorded"}
    assert await session.start({"tone": "wet"}) == {"result": "already_recorded"}

    assert (begun["agent"], begun["settings"], begun["messages"]) == ("other", {"tone": "dry"}, [])
    assert (begun["state"]["status"], begun["state"]["turn_count"]) == ("waiting_for_user_message", 0)
    assert (await session.snapshot())["settings"] == {"tone": "dry"}
    with pytest.raises(RequestConflictError) as caught:
        await runtime.session("s-1", agent="support").start()
    assert caught.value.code == "agent_mismatch"
    receipt = await session.send("hi")
    events = await collected(session.events(after=receipt.cursor))
    assert (receipt.turn_id, events[-1].type) == ("turn-1", "turn_completed")
    started = (await session.event_page())["events"][0]
    assert (started["type"], started["payload"]["actor"]["subject"]) == ("session.started", "local")


@pytest.mark.parametrize("how", [{"agent": "nobody"}, {"settings": {"x": "y" * 17_000}}, {"settings": {"x": {1}}}])
async def test_a_start_that_can_not_be_is_refused_and_there_is_no_session(runtime: Any, how: dict[str, Any]) -> None:
    session: Session = runtime.session("s-1", agent=how.get("agent"))

    with pytest.raises(InvalidRequestError):
        await session.start(how.get("settings"))

    assert (await session.snapshot())["state"] is None


async def test_a_session_is_paused_and_resumed(runtime: Any) -> None:
    session, _ = await thinking(runtime)

    assert await session.pause() == {"result": "recorded"}
    assert (await session.snapshot())["state"]["paused"] is True
    assert await session.resume() == {"result": "recorded"}
    assert await session.resume() == {"result": "already_recorded"}


async def test_settings_come_with_a_message_and_are_replaced_whole(runtime: Any) -> None:
    session: Session = runtime.session("s-1")

    await session.send("hi", settings={"tone": "dry", "absent": None}, run_settings={"effort": "low"})
    assert (await session.snapshot())["settings"] == {"tone": "dry", "absent": None}
    assert await session.update_settings({"a": None}) == {"result": "recorded"}
    assert (await session.snapshot())["settings"] == {"a": None}
    await session.update_settings({})
    assert (await session.snapshot())["settings"] == {}


async def test_each_retry_is_a_click_of_its_own_unless_it_says_which(runtime: Any, desk: Desk) -> None:
    session: Session = runtime.session("s-1")
    receipt = await session.send("fail")
    await collected(session.events(after=receipt.cursor))

    first = await session.retry()
    failed_again = await collected(session.events(after=(await session.snapshot())["cursor"]))
    third_try = await session.retry()
    await collected(session.events(after=(await session.snapshot())["cursor"]))
    desk.mended = True
    second = await session.retry("click-2")
    sent_again = await session.retry("click-2")

    assert first == {"result": "recorded", "turn_id": "turn-2"}
    assert [event.type for event in failed_again][-1:] in ([], ["turn_failed"])
    assert third_try == {"result": "recorded", "turn_id": "turn-3"}
    assert second == {"result": "recorded", "turn_id": "turn-4"}
    assert sent_again == {"result": "already_recorded", "turn_id": "turn-4"}


async def test_a_stop_means_what_it_names(runtime: Any) -> None:
    session, (waiting,) = await thinking(runtime, "later")
    cursor = (await session.snapshot())["cursor"]

    assert await session.stop("turn-9") == {"result": "other_turn"}
    assert await session.stop(step_execution_id="step-9") == {"result": "other_turn"}
    assert await session.stop(message_id=waiting) == {"result": "recorded"}
    assert await session.stop(message_id=waiting) == {"result": "already_recorded"}
    assert await texts(session) == []
    assert await session.stop("turn-1", cursor, "discard") == {"result": "recorded"}
    stopping = [e for e in (await session.event_page(after=cursor))["events"] if e["type"] == "turn_stopping"]
    assert [event["payload"]["disposition"] for event in stopping] == ["discard"]


# --- which turn a receipt's events end with -----------------------------------------------------


@pytest.mark.parametrize("delivery", ["interrupt", "interrupt_next", "supersede", "steer"])
async def test_events_behind_a_receipt_end_with_the_turn_of_the_message_that_made_the_other_one_end(
    runtime: Any, desk: Desk, delivery: str
) -> None:
    session, _ = await thinking(runtime)

    receipt = await session.send("instead", delivery=delivery)
    desk.gate.set()
    events = await collected(session.events(after=receipt.cursor))

    assert (events[-1].type, events[-1].turn_id) == ("turn_completed", "turn-2")


async def test_events_behind_a_receipt_end_with_it_also_when_a_waiting_turn_is_stopped_at_once(runtime: Any) -> None:
    session: Session = runtime.session("s-1")
    async for event in session.events(after=(await session.send("refund order 7")).cursor):
        if event.type == "interrupt_raised":
            break

    receipt = await session.send("forget it", delivery="interrupt")
    events = await collected(session.events(after=receipt.cursor))

    assert [event.type for event in events][:1] == ["turn_stopping"]
    assert (events[-1].type, events[-1].turn_id) == ("turn_completed", "turn-2")


async def test_events_behind_an_injected_messages_receipt_end_with_the_turn_that_answers_it(
    runtime: Any, desk: Desk
) -> None:
    session, _ = await thinking(runtime)

    receipt = await session.send("and mind the gap", delivery="inject")
    desk.gate.set()
    events = await collected(session.events(after=receipt.cursor))

    ends = [event.turn_id for event in events if event.type == "turn_completed"]
    assert ends in (["turn-1"], ["turn-1", "turn-2"])  # it came before or after the last prompt was put together
    assert events[-1].turn_id == (await session.snapshot())["messages"][-1]["turn_id"]


async def test_events_behind_the_receipt_of_a_message_that_was_taken_back_end(runtime: Any) -> None:
    session, _ = await thinking(runtime)
    receipt = await session.send("never mind")

    await session.remove(receipt.message_id)

    assert (await collected(session.events(after=receipt.cursor)))[-1].type == "message_removed"


async def test_events_of_a_steered_turn_end_with_it(runtime: Any, desk: Desk) -> None:
    session: Session = runtime.session("s-1")
    first = await session.send("refund order 7")
    async for event in session.events(after=first.cursor):
        if event.type == "interrupt_raised":
            break

    await session.send("no, order 8", delivery="steer")

    ends = await collected(session.events(after=first.cursor))
    assert (ends[-1].type, ends[-1].turn_id) == ("turn_steered", "turn-1")


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "code", "act"),
    [
        (InvalidRequestError, "invalid_request", lambda s: s.send("hi", delivery="shout")),
        (InvalidRequestError, "invalid_request", lambda s: s.send("hi", settings={"approval_mode": "never"})),
        (InvalidRequestError, "invalid_request", lambda s: s.update_settings({"x": "y" * 17_000})),
        (InvalidRequestError, "invalid_request", lambda s: s.update_settings({"x": {1, 2}})),
        (InvalidRequestError, "invalid_request", lambda s: s.stop("turn-1", message_id="m")),
        (InvalidRequestError, "invalid_cursor", lambda s: s.stop(frontier="broken")),
        (NotFoundError, "message_not_found", lambda s: s.stop(message_id="gone")),
        (InvalidRequestError, "invalid_request", lambda s: s.retry("")),
        (InvalidRequestError, "invalid_request", lambda s: s.retry("r" * 129)),
        (RequestConflictError, "not_failed", lambda s: s.retry()),
        (NotFoundError, "message_not_found", lambda s: s.edit("gone", "new")),
        (InvalidRequestError, "invalid_request", lambda s: s.edit("waits", " ")),
        (InvalidRequestError, "invalid_text", lambda s: s.edit("waits", "\ud800")),
        (NotFoundError, "message_not_found", lambda s: s.remove("a/b?c#d\ud800")),
        (NotFoundError, "message_not_found", lambda s: s.remove("..")),
        (NotFoundError, "message_not_found", lambda s: s.remove("")),
        (RequestConflictError, "already_delivered", lambda s: s.edit("runs", "new")),
        (RequestConflictError, "already_delivered", lambda s: s.remove("runs")),
        (RequestConflictError, "not_pending", lambda s: s.deliver("back", "steer")),
        (RequestConflictError, "stale_revision", lambda s: s.move("waits", before="gone")),
        (InvalidRequestError, "invalid_request", lambda s: s.move("waits")),
        (InvalidRequestError, "invalid_request", lambda s: s.move("waits", before="a", after="b")),
        (InvalidRequestError, "invalid_request", lambda s: s.move("waits", position="middle")),
        (InvalidRequestError, "invalid_request", lambda s: s.deliver("waits", "now")),
    ],
)
async def test_a_refusal_is_the_same_error_here_and_over_http(
    runtime: Any, kind: type[PerdureError], code: str, act: Any
) -> None:
    session: Session = runtime.session("s-1")
    await session.send("think", message_id="runs")
    await session.send("later", message_id="waits")
    await session.send("oops", message_id="back")
    await session.remove("back")
    before = await session.snapshot()

    with pytest.raises(kind) as caught:
        await act(session)

    assert type(caught.value) is kind
    assert caught.value.code == code
    assert await session.snapshot() == before


@pytest.mark.parametrize(
    "act",
    [
        lambda s: s.send("hi", source="webhook"),
        lambda s: s.append("hi", event_id="e-1"),
        lambda s: s.close(),
        lambda s: s.reopen(),
        lambda s: s.seed([{"role": "user", "text": "hi"}]),
    ],
)
async def test_what_is_for_trusted_code_needs_the_process_of_the_runtime(runtime: Any, act: Any) -> None:
    """Spec HOOK-02."""
    over_http = not hasattr(runtime, "service")
    session: Session = runtime.session("s-1")
    if over_http:
        with pytest.raises(ForbiddenError):
            await act(session)
        assert (await session.snapshot())["state"] is None
        return
    if act.__code__.co_names[0] in ("close", "reopen"):
        await session.send("hi")
    assert await act(session)


# --- trusted code -------------------------------------------------------------------------------


@pytest.fixture
async def session(tmp_path: Path, desk: Desk) -> AsyncIterator[Session]:
    async with a_runtime(tmp_path, desk) as runtime:
        yield runtime.session("s-1")


async def test_a_closed_session_refuses_messages_until_it_is_open_again(session: Session) -> None:
    """Spec SESS-19."""
    await session.send("hi")

    assert await session.close() == {"result": "recorded"}
    assert await session.close() == {"result": "already_recorded"}
    with pytest.raises(RequestConflictError) as caught:
        await session.send("again")
    assert caught.value.code == "session_closed"
    assert await session.reopen() == {"result": "recorded"}
    await session.send("again")


async def test_an_event_becomes_one_message_however_often_it_is_tried(session: Session) -> None:
    """Spec HOOK-01, HOOK-03, HOOK-04."""
    first = await session.append("stock is low", event_id="evt-7", source="schedule")
    shown = await session.snapshot()
    again = await session.append("stock is low", event_id="evt-7", source="schedule")
    other = await session.append("stock is low", event_id="evt-8", source="schedule")

    assert (first.message_id, first.duplicate) == ("schedule:evt-7", False)
    assert shown["messages"][0]["message_id"] == "schedule:evt-7"
    assert (again.message_id, again.duplicate) == (first.message_id, True)
    assert other.duplicate is False


async def test_everybody_who_sees_a_message_sees_who_wrote_it(session: Session) -> None:
    """Spec INBOX-18."""
    local = {"issuer": "local", "subject": "local"}
    await session.send("think")
    await session.append("stock is low", event_id="evt-7", source="schedule")

    waiting = (await session.inbox())["entries"]
    (asked, *_) = (await session.messages())["messages"]

    assert [(entry["source"], entry["actor"]) for entry in waiting] == [("schedule", local)]
    assert (asked["source"], asked["actor"]) == ("person", local)
    assert (await session.snapshot())["messages"][0]["source"] == "person"


@pytest.mark.parametrize("event_id", ["", "x" * 1000, "message-1-0"])
async def test_any_event_id_makes_a_message_id(session: Session, event_id: str) -> None:
    first = await session.append("hi", event_id=event_id)

    assert len(first.message_id) <= 128
    assert (await session.append("hi", event_id=event_id)).duplicate is True


async def test_who_wrote_a_message_is_one_of_the_known_sources(session: Session) -> None:
    with pytest.raises(InvalidRequestError, match="source 'robot' is unknown"):
        await session.send("hi", source="robot")


HISTORY = [{"role": "user", "text": "hello"}, {"role": "assistant", "text": "good day"}]


async def test_a_history_is_imported_once_and_its_receipt_kept(session: Session) -> None:
    """Spec STORE-14."""
    first = await session.seed(HISTORY, agent="other")
    again = await session.seed(HISTORY, agent="other")
    receipt = await session.send("go on")
    await collected(session.events(after=receipt.cursor))

    assert first == {"result": "recorded", "message_count": 2, "duplicate": False}
    assert again == {**first, "duplicate": True}
    snapshot = await session.snapshot()
    assert snapshot["agent"] == "other"
    assert [(m["role"], m["parts"][0]["text"]) for m in snapshot["messages"]] == [
        ("user", "hello"),
        ("assistant", "good day"),
        ("user", "go on"),
        ("assistant", "You said: go on"),
    ]


async def test_a_history_goes_into_a_new_session_only(session: Session) -> None:
    await session.send("hi")

    with pytest.raises(RequestConflictError) as caught:
        await session.seed(HISTORY)

    assert caught.value.code == "already_started"


async def test_another_history_is_not_the_same_one(session: Session) -> None:
    await session.seed(HISTORY)

    with pytest.raises(RequestConflictError) as caught:
        await session.seed(HISTORY[:1])

    assert caught.value.code == "idempotency_mismatch"


@pytest.mark.parametrize(
    ("messages", "kind"),
    [
        ([], InvalidRequestError),
        ([{"role": "user", "text": "x"}] * 1001, InvalidRequestError),
        ([{"role": "system", "text": "x"}], InvalidRequestError),
        ([{"role": "user", "text": " "}], InvalidRequestError),
        ([{"role": "user", "text": 7}], InvalidRequestError),
        ([{"role": "user", "text": "x", "at": "now"}], InvalidRequestError),
        ([{"role": "user", "text": "x", "message_id": "m"}, {"role": "assistant", "text": "y"}], InvalidRequestError),
        ([{"role": "user", "text": "x", "message_id": "m"}] * 2, InvalidRequestError),
        ([{"role": "user", "text": "x" * 1_048_577}] * 4, TooLargeError),
    ],
)
async def test_a_history_that_is_none_is_refused_whole(
    session: Session, messages: list[dict[str, Any]], kind: type[PerdureError]
) -> None:
    with pytest.raises(kind):
        await session.seed(messages)

    assert (await session.snapshot())["state"] is None
