"""Load, decide, commit, send: lost answers, lost races, duplicates, and what a crash left unsent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.core.commands import ModelFinished, SendInput
from perdure.core.entries import Actor, ReceiptClaim
from perdure.core.ids import content_hash, key_hash
from perdure.errors import RequestConflictError, StaleSessionError, StoreUnavailableError
from perdure.ports import SessionStore
from perdure.steps.commit import (
    CONFLICT_DELAY_SECONDS,
    LONGEST_CONFLICT_DELAY_SECONDS,
    MAX_CONFLICTS,
    MAX_OUTAGES,
    conflict_delay,
    execute,
)
from perdure.testing.fixtures import SESSION, Stage, open_stage
from tests.unit.steps.builders import LosingAnswers, an_agent, losing_the_first

ANNA = Actor(issuer="local", subject="local")


def a_message(text: str = "hi", *, key: str | None = None) -> SendInput:
    claims = () if key is None else (ReceiptClaim(key_hash=key_hash(key), content_hash=content_hash(text)),)
    return SendInput(text=text, actor=ANNA, default_agent="support", receipts=claims)


async def an_answer(stage: Stage) -> ModelFinished:
    turn = (await stage.head()).turn
    assert turn is not None
    assert turn.step is not None
    return ModelFinished(
        turn_id=turn.turn_id,
        step_id=turn.step.step_id,
        attempt=turn.step.attempt,
        started_at=stage.clock.now(),
        ending="answer",
        parts=({"type": "text", "text": "hello"},),
    )


class Rivals:
    """A store in which others commit first, as often as a test wants."""

    def __init__(self, store: SessionStore, times: int) -> None:
        self._store = store
        self.left = times
        self.stage: Stage | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, key: Any, loaded: Any, decision: Any) -> None:
        if self.left and self.stage is not None:
            self.left -= 1
            stage, self.stage = self.stage, None
            await execute(stage.ports, key, a_message("a rival's"))
            self.stage = stage
        await self._store.commit(key, loaded, decision)


async def test_a_commit_sends_what_the_new_state_expects_and_the_old_one_did_not() -> None:
    async with open_stage(an_agent()) as stage:
        await execute(stage.ports, SESSION, a_message())
        await execute(stage.ports, SESSION, a_message("queued"))

        assert [d.step_id for _, d in stage.queue.all_sent] == ["model-1-0"]


@pytest.mark.parametrize("landing", [True, False], ids=["landed", "not-landed"])
async def test_x2_a_command_whose_answer_was_lost_is_carried_out_once(landing: bool) -> None:
    def losing(store: SessionStore) -> LosingAnswers:
        return LosingAnswers(store, lambda _, before: before == 0, landing=landing)

    async with open_stage(an_agent(), wrap_store=losing) as stage:
        executed = await stage.clock.run(execute(stage.ports, SESSION, a_message("once", key="k")))

        assert executed.entry is not None
        assert not executed.duplicate
        assert executed.reply["turn_id"] == "turn-1"
        assert [i.text for entry in await stage.entries() for i in entry.inputs] == ["once"]
        assert [d.step_id for _, d in stage.queue.sent] == ["model-1-0"]


async def test_x2_a_lost_answer_is_recognised_though_others_committed_behind_it() -> None:
    async with open_stage(an_agent(), wrap_store=losing_the_first("send_input")) as stage:
        command = asyncio.create_task(execute(stage.ports, SESSION, a_message("once")))
        await stage.clock.settle()
        for text in ("second", "third"):
            await execute(stage.ports, SESSION, a_message(text))

        await stage.clock.advance(1)

        assert (await command).reply["version"] == 1
        assert [i.text for entry in await stage.entries() for i in entry.inputs] == ["once", "second", "third"]


async def test_a_lost_answers_timers_are_set_again() -> None:
    from datetime import timedelta

    from perdure import ToolPolicy, function_tool
    from tests.unit.steps.builders import asking_for

    @function_tool(effect="non_idempotent_write")
    async def refund() -> str:
        return "paid"

    agent = an_agent(
        refund, model=asking_for("refund"), tool_policies={"refund": ToolPolicy(approval_deadline=timedelta(hours=1))}
    )
    async with open_stage(agent, wrap_store=losing_the_first("model_finished")) as stage:
        await stage.send("go")
        await stage.run_next()

        assert [timer.timer_id for _, timer in stage.timers.pending] == ["call-2-0"]


async def test_a_store_that_stays_silent_is_asked_again_with_doubling_waits_and_then_given_up() -> None:
    store: list[LosingAnswers] = []

    def silent(inner: SessionStore) -> LosingAnswers:
        store.append(LosingAnswers(inner, lambda *_: True, landing=False))
        return store[0]

    async with open_stage(an_agent(), wrap_store=silent) as stage:
        began = stage.clock.now()
        with pytest.raises(StoreUnavailableError):
            await stage.clock.run(execute(stage.ports, SESSION, a_message()))

        assert store[0].lost == MAX_OUTAGES + 1
        assert (stage.clock.now() - began).total_seconds() == pytest.approx(0.2 + 0.4 + 0.8 + 1.6)


async def test_a_lost_race_is_decided_again_on_the_new_state() -> None:
    rivals: list[Rivals] = []

    def with_rivals(store: SessionStore) -> Rivals:
        rivals.append(Rivals(store, 3))
        return rivals[0]

    async with open_stage(an_agent(), wrap_store=with_rivals) as stage:
        rivals[0].stage = stage

        executed = await execute(stage.ports, SESSION, a_message("mine"))

        assert executed.reply["version"] == 4
        assert [i.text for entry in await stage.entries() for i in entry.inputs] == ["a rival's"] * 3 + ["mine"]


async def test_a_storm_of_conflicts_ends_with_an_error_and_changes_nothing() -> None:
    rivals: list[Rivals] = []

    def with_rivals(store: SessionStore) -> Rivals:
        rivals.append(Rivals(store, MAX_CONFLICTS + 1))
        return rivals[0]

    async with open_stage(an_agent(), wrap_store=with_rivals) as stage:
        rivals[0].stage = stage

        with pytest.raises(StaleSessionError):
            await execute(stage.ports, SESSION, a_message("mine"))

        assert "mine" not in [i.text for entry in await stage.entries() for i in entry.inputs]


async def test_a_command_that_loses_race_after_race_waits_a_bounded_while_that_no_other_command_waits() -> None:
    waits = {name: [conflict_delay(name, conflicts) for conflicts in range(2, 65)] for name in ("anna", "bert")}

    for number, (anna, bert) in enumerate(zip(waits["anna"], waits["bert"], strict=True)):
        longest = min(CONFLICT_DELAY_SECONDS * 2**number, LONGEST_CONFLICT_DELAY_SECONDS)
        assert 0 < anna < longest
        assert 0 < bert < longest
        assert anna != bert
    assert waits["anna"] == [conflict_delay("anna", conflicts) for conflicts in range(2, 65)]
    assert sum(waits["anna"]) < 10  # well within the 29 s that a request may take


@pytest.mark.parametrize(("lost", "waits"), [(1, False), (3, True)])
async def test_only_the_first_lost_race_is_tried_again_at_once(lost: int, waits: bool) -> None:
    rivals: list[Rivals] = []

    def with_rivals(store: SessionStore) -> Rivals:
        rivals.append(Rivals(store, lost))
        return rivals[0]

    async with open_stage(an_agent(), wrap_store=with_rivals, in_process=False) as stage:
        rivals[0].stage = stage
        began_at = stage.clock.now()

        executed = await stage.clock.run(execute(stage.ports, SESSION, a_message("mine")))

        assert executed.reply["version"] == lost + 1
        assert (stage.clock.now() > began_at) == waits


async def test_many_commands_at_once_are_all_carried_out_each_once() -> None:
    async with open_stage(an_agent()) as stage:
        texts = [f"m{number}" for number in range(30)]

        await asyncio.gather(*(execute(stage.ports, SESSION, a_message(text)) for text in texts))

        assert sorted(i.text for entry in await stage.entries() for i in entry.inputs) == sorted(texts)


async def test_f136_the_same_key_at_once_from_two_senders_is_accepted_once() -> None:
    async with open_stage(an_agent()) as stage:
        both = await asyncio.gather(*(execute(stage.ports, SESSION, a_message("hi", key="m-1")) for _ in range(5)))

        assert sorted(executed.duplicate for executed in both) == [False, True, True, True, True]
        assert len({executed.reply["turn_id"] for executed in both}) == 1
        assert (await stage.head()).version == 1


async def test_x9_a_duplicate_sends_again_what_a_crash_between_commit_and_send_left_unsent() -> None:
    async with open_stage(an_agent()) as stage:
        await execute(stage.ports, SESSION, a_message("hi", key="m-1"))
        stage.queue.sent.clear()  # the crash

        duplicate = await execute(stage.ports, SESSION, a_message("hi", key="m-1"))

        assert duplicate.duplicate
        assert [d.step_id for _, d in stage.queue.sent] == ["model-1-0"]


async def test_x9_old_news_sends_again_what_a_crash_between_commit_and_send_left_unsent() -> None:
    async with open_stage(an_agent()) as stage:
        await execute(stage.ports, SESSION, a_message())
        answer = await an_answer(stage)
        await execute(stage.ports, SESSION, answer)
        await execute(stage.ports, SESSION, a_message("next"))
        stage.queue.sent.clear()  # the crash

        executed = await execute(stage.ports, SESSION, answer)

        assert executed.entry is None
        assert [d.step_id for _, d in stage.queue.sent] == ["model-3-0"]


async def test_what_somebody_has_claimed_is_not_sent_again() -> None:
    async with open_stage(an_agent()) as stage:
        await execute(stage.ports, SESSION, a_message("hi", key="m-1"))
        await stage.leases.claim(SESSION, "model-1-0", 1, "me", stage.clock.now())
        stage.queue.sent.clear()

        await execute(stage.ports, SESSION, a_message("hi", key="m-1"))

        assert stage.queue.sent == []


async def test_a_key_that_was_used_with_other_content_is_refused_and_nothing_changes() -> None:
    async with open_stage(an_agent()) as stage:
        await execute(stage.ports, SESSION, a_message("hi", key="m-1"))

        with pytest.raises(RequestConflictError) as caught:
            await execute(stage.ports, SESSION, a_message("bye", key="m-1"))

        assert caught.value.code == "idempotency_mismatch"
        assert (await stage.head()).version == 1


async def test_a_command_may_be_forbidden_by_the_very_state_that_it_is_decided_on() -> None:
    async with open_stage(an_agent()) as stage:
        seen: list[int] = []

        def allow(head: Any) -> None:
            seen.append(head.version)
            if head.version:
                raise RequestConflictError("no more")

        await execute(stage.ports, SESSION, a_message(), allow=allow)
        with pytest.raises(RequestConflictError):
            await execute(stage.ports, SESSION, a_message(), allow=allow)

        assert seen == [0, 1]
        assert (await stage.head()).version == 1


async def test_an_effect_that_can_not_be_sent_is_left_to_the_sweep() -> None:
    async with open_stage(an_agent(), in_process=False) as stage:

        async def unsent(*_: Any) -> None:
            raise StoreUnavailableError("the queue gives no answer")

        stage.queue.send = unsent  # type: ignore[method-assign, assignment]

        executed = await execute(stage.ports, SESSION, a_message())

        assert executed.entry is not None
