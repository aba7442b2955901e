"""Approvals that go wrong in practice (field cases F049 to F063), from the message to the stored end of the turn.

The other cases of this group (F037 to F048, F050, F055, F061) are in `tests/unit/test_service_approvals.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

import perdure
from perdure import ToolPolicy, function_tool
from perdure.access import Principal, SessionFacts
from perdure.agents.tools import FunctionTool
from perdure.core.entries import Actor
from perdure.core.expected import Dispatch
from perdure.errors import ForbiddenError, NotFoundError, RequestConflictError
from perdure.models.base import ModelRequest
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results
from perdure.ports import SessionStore
from perdure.service import Caller
from perdure.steps.base import StepMessage
from perdure.steps.recover import sweep
from perdure.testing.fixtures import SESSION, Stage, open_stage
from tests.unit.steps.builders import an_agent, asking_for, failing


class Counted:
    """A write that asks for an approval, and counts how often its body ran."""

    def __init__(self) -> None:
        self.ran = 0

    def tool(self, name: str = "wipe", **policy: Any) -> FunctionTool:
        def body() -> str:
            self.ran += 1
            return f"{name} done"

        return function_tool(effect="non_idempotent_write", name=name, **policy)(body)


async def the_pending(stage: Stage) -> str:
    """Return the id of the one open approval."""
    (interrupt,) = (await stage.snapshot())["pending_interrupts"]
    return str(interrupt["interrupt_id"])


# --- who answers, and how often -------------------------------------------------------------------------------------


async def test_f049_a_client_that_repeats_itself_after_an_error_starts_nothing_new() -> None:
    wipe = Counted()
    model = ScriptedModel(_asks_and_then_fails)
    async with open_stage(an_agent(wipe.tool(), model=model)) as stage:
        await stage.send("Wipe it.")
        await stage.run_all()
        approval = await the_pending(stage)

        replies = []
        for _ in range(3):
            replies.append(await stage.approve(approval, idempotency_key="last-message"))
            await stage.run_all()

        assert replies == [{"result": "resolved"}] * 3
        assert wipe.ran == 1
        assert len(model.requests) == 2  # one that asked, one that failed: the error is final
        assert (await stage.snapshot())["state"]["last_turn_error"]["code"] == "provider"
        with pytest.raises(RequestConflictError, match="no longer open"):
            await stage.approve(approval)


def _asks_and_then_fails(request: ModelRequest) -> Reply:
    if tool_results(request):
        raise failing("invalid", retryable=False, status=400)
    return Reply(calls=(call("wipe"),))


async def test_f057_the_record_names_the_person_who_decided_and_a_stranger_finds_nothing() -> None:
    wipe = Counted()
    stranger = Caller(tenant="t2", actor=Actor(issuer="local", subject="u2"))
    async with open_stage(an_agent(wipe.tool(), model=asking_for("wipe"))) as stage:
        await stage.send("Wipe it.")
        await stage.run_all()
        approval = await the_pending(stage)

        with pytest.raises(NotFoundError) as refused:
            await stage.service.resolve_interrupt(stranger, "s-1", approval, approved=True)
        await stage.approve(approval)
        await stage.run_all()

        assert refused.value.code == "session_not_found"
        assert await _deciders(stage) == [{"issuer": "local", "subject": "local"}]
        assert wipe.ran == 1


async def test_f057_a_policy_lets_another_one_approve_and_not_the_one_who_asked() -> None:
    wipe = Counted()
    approver = Caller(tenant="local", actor=Actor(issuer="local", subject="approver"))
    onlooker = Caller(tenant="local", actor=Actor(issuer="local", subject="onlooker"))

    def authorize(who: Principal, operation: str, session: SessionFacts) -> bool | None:
        if operation == "approve":
            return who.actor.subject == "approver" and who.actor != session.owner
        return True if who.actor.subject == "approver" and operation == "read" else None

    async with open_stage(an_agent(wipe.tool(), model=asking_for("wipe")), authorize=authorize) as stage:
        await stage.send("Wipe it.")
        await stage.run_all()
        approval = await the_pending(stage)

        with pytest.raises(ForbiddenError) as own:
            await stage.approve(approval)
        with pytest.raises(NotFoundError):
            await stage.service.resolve_interrupt(onlooker, "s-1", approval, approved=True)
        with pytest.raises(ForbiddenError):
            await stage.service.stop(approver, "s-1")
        assert (await stage.service.snapshot(approver, "s-1"))["pending_interrupts"]
        await stage.service.resolve_interrupt(approver, "s-1", approval, approved=True)
        await stage.run_all()

        assert own.value.code == "forbidden"
        assert await _deciders(stage) == [{"issuer": "local", "subject": "approver"}]
        assert wipe.ran == 1


async def test_f057_a_decision_that_time_made_names_the_deadline_as_its_actor() -> None:
    wipe = Counted()
    policy = ToolPolicy(approval_deadline=timedelta(minutes=5))
    agent = an_agent(wipe.tool(), model=asking_for("wipe"), tool_policies={"wipe": policy})
    async with open_stage(agent) as stage:
        await stage.send("Wipe it.")
        await stage.run_all()

        await stage.clock.advance(300)
        await stage.fire_timers()
        await stage.run_all()

        assert await _deciders(stage) == [{"issuer": "perdure", "subject": "deadline"}]
        assert wipe.ran == 0


async def _deciders(stage: Stage) -> list[dict[str, str]]:
    return [event["payload"]["actor"] for event in await stage.events() if event["type"] == "interrupt_resolved"]


# --- what waits, and what goes on meanwhile -------------------------------------------------------------------------


async def test_an_approval_waits_through_a_restart_of_the_process(tmp_path: Path) -> None:
    wipe = Counted()
    agent = an_agent(wipe.tool(), model=asking_for("wipe"))
    async with perdure.open(tmp_path / "sessions.db", agents=[agent]) as runtime:
        session = runtime.session("s-1")
        receipt = await session.send("Wipe it.")
        async for event in session.events(after=receipt.cursor):
            if event.type == "interrupt_raised":
                break

    async with perdure.open(tmp_path / "sessions.db", agents=[agent]) as runtime:
        session = runtime.session("s-1")
        waiting = await session.snapshot()
        await session.resolve(waiting["pending_interrupts"][0]["interrupt_id"], approved=True)
        ended = [event.type async for event in session.events(after=waiting["cursor"])][-1]

    assert waiting["state"]["waiting_for"][0]["kind"] == "approval"
    assert ended == "turn_completed"
    assert wipe.ran == 1


async def test_f052_while_an_approval_is_open_no_model_is_asked_that_could_make_its_result_up() -> None:
    wipe = Counted()
    model = asking_for("wipe", answer="the total is 7")
    async with open_stage(an_agent(wipe.tool(), model=model)) as stage:
        await stage.send("Wipe it.")
        await stage.run_all()

        await stage.send("What is the total?")
        await stage.run_all()

        snapshot = await stage.snapshot()
        assert len(model.requests) == 1
        assert [entry["text"] for entry in snapshot["inbox"]] == ["What is the total?"]
        assert [call["status"] for call in snapshot["tool_calls"]] == ["awaiting_approval"]


async def test_f060_a_call_that_ends_the_history_without_a_decision_never_runs() -> None:
    wipe = Counted()
    async with open_stage(an_agent(wipe.tool(), model=asking_for("wipe"))) as stage:
        await stage.send("Wipe it.")
        await stage.run_all()
        approval = await the_pending(stage)

        forged = Dispatch(kind="call_single_attempt_tool", step_id=approval, attempt=1)
        await stage.run(StepMessage.of(SESSION, forged))
        await sweep(stage.deps)
        await stage.send("And now?")
        await stage.run_all()

        raised = [event for event in await stage.events() if event["type"] == "interrupt_raised"]
        assert wipe.ran == 0
        assert await the_pending(stage) == approval
        assert len(raised) == 1


# --- rules that decide instead of a person --------------------------------------------------------------------------


async def test_a_rule_is_asked_once_and_its_stored_word_holds_when_the_call_is_run_again() -> None:
    asked: list[Mapping[str, Any]] = []

    def rule(arguments: Mapping[str, Any]) -> Literal["approved", "ask"]:
        asked.append(arguments)
        return "approved" if len(asked) == 1 else "ask"

    bodies = []

    @function_tool(effect="idempotent_write", requires_approval=rule)
    async def note(text: str) -> str:
        bodies.append(text)
        if len(bodies) == 1:
            raise ConnectionError
        return "noted"

    model = ScriptedModel(lambda request: "done" if tool_results(request) else Reply(calls=(call("note", text="hi"),)))
    async with open_stage(an_agent(note, model=model)) as stage:
        await stage.send("Note it.")
        await stage.run_all()

        assert asked == [{"text": "hi"}]
        assert bodies == ["hi", "hi"]
        assert (await stage.results())["note"] == ("succeeded", "noted")


async def test_f053_the_same_call_in_other_words_is_answered_and_not_asked_again() -> None:
    booked: list[str] = []

    @function_tool(effect="non_idempotent_write")
    async def book(room: str, nights: int) -> str:
        booked.append(room)
        return "booked"

    stubborn = [call("book", room="r1", nights=2), call("book", nights=2, room="r1")]
    model = ScriptedModel(
        lambda request: Reply(calls=(stubborn[n],)) if (n := len(tool_results(request))) < 2 else "I will not."
    )
    async with open_stage(an_agent(book, model=model)) as stage:
        await stage.send("Book it.")
        await stage.run_all()
        await stage.approve(await the_pending(stage), approved=False)
        await stage.run_all()

        first, second = tool_results(model.requests[-1])
        assert booked == []
        assert [first.status, second.status] == ["rejected", "rejected"]
        assert "A person declined it" in first.output
        assert "already declined" in second.output
        assert [e["type"] for e in await stage.events()].count("interrupt_raised") == 1


# --- answers that cross something else ------------------------------------------------------------------------------


class Interleaved:
    """A store at which somebody else is faster, once: right before the first commit of a kind."""

    def __init__(self, store: SessionStore, kind: str) -> None:
        self._store = store
        self._kind = kind
        self.first: Callable[[], Awaitable[Any]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, key: Any, loaded: Any, decision: Any) -> None:
        if self.first is not None and decision.entry.kind == self._kind:
            first, self.first = self.first, None
            await first()
        await self._store.commit(key, loaded, decision)


async def test_f063_an_answer_that_lands_between_a_siblings_decision_and_its_commit_is_not_lost() -> None:
    wipe = Counted()
    log_visit = Counted()
    agent = an_agent(
        wipe.tool(), log_visit.tool("log_visit", requires_approval=False), model=asking_for("wipe", "log_visit")
    )
    stores: list[Interleaved] = []

    def interleaved(store: SessionStore) -> Interleaved:
        stores.append(Interleaved(store, "tool_finished"))
        return stores[0]

    async with open_stage(agent, wrap_store=interleaved) as stage:
        await stage.send("Wipe it.")
        await stage.run_next()
        approval = await the_pending(stage)
        stores[0].first = lambda: stage.approve(approval)

        await stage.run_all()

        types = await stage.event_types()
        assert stores[0].first is None
        assert (wipe.ran, log_visit.ran) == (1, 1)
        assert types.count("model_started") == 2
        assert types[-1] == "turn_completed"


async def test_f063_an_answer_before_there_is_anything_to_answer_is_told_so_and_holds_nothing_up() -> None:
    wipe = Counted()
    async with open_stage(an_agent(wipe.tool(), model=asking_for("wipe"))) as stage:
        await stage.send("Wipe it.")

        with pytest.raises(NotFoundError) as early:
            await stage.approve("call-2-0")
        await stage.run_all()
        assert wipe.ran == 0
        await stage.approve("call-2-0")
        await stage.run_all()

        assert early.value.code == "interrupt_not_found"
        assert wipe.ran == 1


async def test_f063_two_last_answers_at_once_ask_the_model_once() -> None:
    done: list[str] = []

    @function_tool(effect="non_idempotent_write")
    async def book(room: str) -> str:
        done.append(room)
        return "booked"

    model = ScriptedModel(
        lambda request: (
            "done" if tool_results(request) else Reply(calls=(call("book", room="r1"), call("book", room="r2")))
        )
    )
    async with open_stage(an_agent(book, model=model)) as stage:
        await stage.send("Book both.")
        await stage.run_all()
        one, two = (i["interrupt_id"] for i in (await stage.snapshot())["pending_interrupts"])

        await asyncio.gather(stage.approve(one, approved=False), stage.approve(two, approved=False))
        await stage.run_all()

        assert done == []
        assert len(model.requests) == 2
        assert [result.status for result in tool_results(model.requests[1])] == ["rejected", "rejected"]
