"""Sinks of the embedded runtime: after the commit, at least once, in order per session, and nobody's trouble."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import AgentDefinition, EventSink, Notice
from perdure.embedded import sinks as sinks_module
from perdure.embedded.runtime import EmbeddedRuntime
from perdure.errors import ConfigurationError
from perdure.models.scripted import ScriptedModel
from perdure.service import LOCAL_CALLER
from perdure.sink_delivery import Place, deliver_next
from perdure.testing.clock import VirtualClock
from perdure.testing.processes import finished, poll_until
from tests.audit_log import Audit

JsonObject = dict[str, Any]


def opened(
    folder: Path, *sinks: EventSink, clock: VirtualClock | None = None, agents: Sequence[AgentDefinition] = ()
) -> EmbeddedRuntime:
    echo = AgentDefinition(name="echo", model=ScriptedModel(lambda _: "hello"))
    return EmbeddedRuntime(folder / "s.db", agents or [echo], clock=clock, sinks=sinks)


async def said(runtime: EmbeddedRuntime, session_id: str = "s-1", text: str = "hi") -> list[JsonObject]:
    """Have one turn, and return the session's durable events."""
    await runtime.session(session_id).send(text)
    await finished(runtime.session(session_id))
    return await said_so_far(runtime, session_id)


async def said_so_far(runtime: EmbeddedRuntime, session_id: str = "s-1") -> list[JsonObject]:
    events = (await runtime.service.events(LOCAL_CALLER, session_id, limit=500))["events"]
    return [event for event in events if "sequence" in event]


async def test_a_sink_gets_every_durable_event_once_in_order_and_as_the_events_route_shows_it(tmp_path: Path) -> None:
    audit = Audit()
    async with opened(tmp_path, EventSink("audit", audit.deliver)) as runtime:
        events = {session_id: await said(runtime, session_id) for session_id in ("s-1", "s-2")}

    for session_id, shown in events.items():
        assert audit.sequences(session_id) == list(range(1, len(shown) + 1))
        assert [without_cursor(e) for e in audit.events(session_id)] == [without_cursor(e) for e in shown]
    assert {notice.tenant for notice in audit.notices} == {"local"}


def without_cursor(event: JsonObject) -> JsonObject:
    return {name: value for name, value in event.items() if name != "cursor"}


async def test_a_restart_goes_on_where_the_sink_was(tmp_path: Path) -> None:
    audit, sink_down = Audit(), Audit(failing=1000)
    async with opened(tmp_path, EventSink("audit", audit.deliver)) as runtime:
        await said(runtime)
    before = len(audit.sequences())

    async with opened(tmp_path, EventSink("audit", sink_down.deliver)) as runtime:
        events = await said(runtime, text="again")
    async with opened(tmp_path, EventSink("audit", audit.deliver)):
        await until(lambda: len(audit.sequences()) > before)

    assert audit.sequences() == list(range(1, len(events) + 1))
    assert sink_down.tries > 0


async def test_a_new_sink_begins_behind_what_there_was_and_a_known_one_with_what_it_missed(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        there_before = len(await said(runtime))
    audit = Audit()
    async with opened(tmp_path, EventSink("audit", audit.deliver)):
        pass
    assert audit.notices == []

    async with opened(tmp_path) as runtime:
        events = await said(runtime, text="while the sink was not there")
        await said(runtime, "s-2")
    async with opened(tmp_path, EventSink("audit", audit.deliver)):
        await until(lambda: bool(audit.sequences("s-2") and audit.sequences()))

    assert audit.sequences() == list(range(there_before + 1, len(events) + 1))
    assert audit.sequences("s-2")[0] == 1


async def test_a_failing_sink_delays_no_turn_and_is_tried_again_with_growing_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, failing, fine = VirtualClock(), Audit(failing=3), Audit()
    sinks = (EventSink("failing", failing.deliver), EventSink("fine", fine.deliver))
    async with opened(tmp_path, *sinks, clock=clock) as runtime:
        events = await said(runtime)
        await until(lambda: len(fine.sequences()) == len(events) and failing.tries == 1)
        assert failing.notices == []
        for wait, tries in ((0.9, 1), (0.2, 2), (1.9, 2), (0.2, 3), (4.1, 4)):
            await clock.advance(wait)
            await settled(failing)
            assert failing.tries >= tries if tries == 4 else failing.tries == tries
        await until(lambda: len(failing.sequences()) == len(events))

    told = [r.__dict__ for r in caplog.records if getattr(r, "event", "") == "sink_failing"]
    assert [(r["sink"], r["session_id"], r["count"], r["seconds"]) for r in told] == [
        ("failing", "s-1", 1, 1.0),
        ("failing", "s-1", 2, 2.0),
        ("failing", "s-1", 3, 4.0),
    ]
    assert "audit log is down" not in caplog.text


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that the runtime does by itself."""
    await poll_until(condition)


async def settled(audit: Audit) -> None:
    """Let the threads of the database answer."""
    tries = -1
    while tries != audit.tries:
        tries = audit.tries
        for _ in range(20):
            await asyncio.sleep(0.001)


async def test_a_commit_just_behind_the_last_look_of_a_delivery_is_delivered_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit, again = Audit(), ["again"]
    async with opened(tmp_path, EventSink("audit", audit.deliver)) as runtime:

        async def with_a_turn_behind_it(*args: Any) -> tuple[Place, bool]:
            place, more = await deliver_next(*args)
            if not more and again:
                await said(runtime, text=again.pop())
            return place, more

        monkeypatch.setattr(sinks_module, "deliver_next", with_a_turn_behind_it)
        await said(runtime)
        await until(lambda: not again)
        events = await said_so_far(runtime)
        await until(lambda: audit.sequences() == [event["sequence"] for event in events])


async def test_a_delivery_whose_end_was_not_seen_comes_again(tmp_path: Path) -> None:
    clock, audit = VirtualClock(), Audit(losing=1)
    async with opened(tmp_path, EventSink("audit", audit.deliver), clock=clock) as runtime:
        events = await said(runtime)
        await until(lambda: audit.tries == 1)
        await clock.advance(1.1)
        await until(lambda: set(audit.sequences()) == set(range(1, len(events) + 1)))

    first = audit.notices[0].events
    assert audit.notices[1].events[: len(first)] == first
    assert sorted(set(audit.sequences())) == list(range(1, len(events) + 1))


async def test_a_sink_that_hangs_holds_up_neither_its_other_sessions_nor_the_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.embedded.runtime.SINK_GRACE_SECONDS", 0.05)
    got: list[str] = []

    async def deliver(notice: Notice) -> None:
        if notice.session_id == "s-1":
            await asyncio.Event().wait()
        got.append(notice.session_id)

    async with opened(tmp_path, EventSink("audit", deliver)) as runtime:
        await said(runtime)
        await said(runtime, "s-2")
        await until(lambda: "s-2" in got)

    assert "s-1" not in got


async def test_a_plain_function_delivers_in_a_thread_and_is_given_up_after_its_time(tmp_path: Path) -> None:
    release, threads = threading.Event(), []

    def deliver(notice: Notice) -> None:
        threads.append(threading.current_thread())
        release.wait(20)

    async with opened(tmp_path, EventSink("audit", deliver, timeout=timedelta(milliseconds=20))) as runtime:
        await said(runtime)
        await until(lambda: len(threads) > 1)  # the first one still waits
        release.set()

    assert threading.main_thread() not in threads


async def test_only_the_wanted_events_leave_and_only_as_they_were_redacted(tmp_path: Path) -> None:
    audit = Audit()

    def redact(event: JsonObject) -> JsonObject | None:
        if event["type"] == "turn_completed":
            return None
        event["payload"].clear()  # a copy: the session's own event stays as it is
        return event

    wanted = EventSink("audit", audit.deliver, events=["turn_started", "turn_completed", "myapp."], redact=redact)
    async with opened(tmp_path, wanted) as runtime:
        events = await said(runtime)

    assert [(e["type"], e["payload"]) for e in audit.events()] == [("turn_started", {})]
    assert [wanted.wants(kind) for kind in ("myapp.stage", "myapps.stage", "turn_failed")] == [True, False, False]
    assert all(event["payload"] for event in events if event["type"] == "turn_started")


async def test_what_can_not_be_redacted_does_not_leave(tmp_path: Path) -> None:
    clock, audit = VirtualClock(), Audit()

    def redact(event: JsonObject) -> JsonObject:
        raise KeyError(event["type"])

    async with opened(tmp_path, EventSink("audit", audit.deliver, redact=redact), clock=clock) as runtime:
        await said(runtime)
        await clock.advance(600)

    assert audit.tries == 0


async def test_what_a_sink_never_takes_is_dropped_and_counted_so_that_the_next_comes_through(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, audit = VirtualClock(), Audit(failing=10_000)
    sink = EventSink("audit", audit.deliver, give_up_after=timedelta(hours=1))
    async with opened(tmp_path, sink, clock=clock) as runtime:
        before = len(await said(runtime))
        await until(lambda: audit.tries == 1)
        for _ in range(30):
            await clock.advance(300)
            await settled(audit)
        audit.failing = 0
        events = await said(runtime, text="again")
        await clock.advance(300)
        await until(lambda: events[-1]["sequence"] in audit.sequences())

    dropped = [r.__dict__["count"] for r in caplog.records if getattr(r, "event", "") == "sink_dropped"]
    assert sum(dropped) == before
    assert audit.sequences() == list(range(before + 1, len(events) + 1))


async def test_sessions_that_are_too_many_to_remember_are_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks_module, "MAX_KNOWN", 2)
    monkeypatch.setattr(sinks_module, "MAX_PARALLEL", 1)
    audit, gate = Audit(), asyncio.Event()

    async def deliver(notice: Notice) -> None:
        await gate.wait()
        await audit.deliver(notice)

    async with opened(tmp_path, EventSink("audit", deliver)) as runtime:
        names = [f"s-{number}" for number in range(8)]
        last = [(await said(runtime, name))[-1]["sequence"] for name in names]
        gate.set()
        await until(lambda: all(audit.sequences(name)[-1:] == [last[0]] for name in names))

    assert all(audit.sequences(name) == list(range(1, last[0] + 1)) for name in names)


async def test_a_notice_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.sinks.MAX_NOTICE_EVENTS", 2)
    audit = Audit()
    async with opened(tmp_path, EventSink("audit", audit.deliver)) as runtime:
        events = await said(runtime)

    assert max(len(notice.events) for notice in audit.notices) == 2
    assert audit.sequences() == list(range(1, len(events) + 1))


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: EventSink("Audit Log", print), "no name of a sink"),
        (lambda: EventSink("audit", print, events="turn_started"), "list of types"),
        (lambda: EventSink("audit", print, timeout=timedelta(0)), "longer than nothing"),
        (lambda: EmbeddedRuntime(":memory:", [], sinks=[EventSink("a", print), EventSink("a", print)]), "two sinks"),
    ],
)
def test_a_sink_that_can_not_work_is_refused(make: Any, match: str) -> None:
    with pytest.raises(ConfigurationError, match=match):
        make()
