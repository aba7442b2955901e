"""A command without an answer names what was active, and an operator may give up a run that nobody will finish."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from perdure.core.commands import ToolStarted
from perdure.core.limits import LEASE_DURATION, LEASE_GRACE, START_LEASE
from perdure.errors import (
    ForbiddenError,
    NotFoundError,
    RequestConflictError,
    RequestError,
    StoreUnavailableError,
    UnsettledError,
)
from perdure.steps.commit import execute
from perdure.steps.recover import sweep_session
from perdure.testing.fixtures import SESSION, Stage, open_stage
from tests.unit.desk import Desk, booking
from tests.unit.steps.builders import OTHER, LosingAnswers, an_agent, asking_for

MODEL: dict[str, Any] = {"turn_id": "turn-1", "step_execution_id": "model-1-0", "attempt": 1}


def silent(kind: str) -> Callable[[Any], LosingAnswers]:
    """Return what makes a store never answer, and never carry out, commits of a kind."""
    return lambda store: LosingAnswers(store, lambda entry_kind, _: entry_kind == kind, landing=False)


async def refusal(awaitable: Any) -> tuple[type[RequestError], str]:
    with pytest.raises(RequestError) as caught:
        await awaitable
    return type(caught.value), caught.value.code


async def abandon(stage: Stage, **changes: Any) -> Any:
    named = {**MODEL, "version": (await stage.head()).version} | changes
    return await stage.session().abandon(**named)


async def with_a_dead_worker(stage: Stage) -> None:
    """Let a worker claim the model step, and then never be heard of again."""
    await stage.send("go")
    message = stage.taken()
    expires_at = stage.clock.now() + LEASE_DURATION
    assert await stage.leases.claim(SESSION, message.step_id, message.attempt, "dead", expires_at)


async def until_its_lease_is_over(stage: Stage) -> None:
    await stage.clock.advance((LEASE_DURATION + LEASE_GRACE).total_seconds() + 1)


# --- no answer -------------------------------------------------------------------------------------------------------


async def test_a_command_that_gets_no_answer_names_the_turn_and_the_run_that_were_active() -> None:
    async with open_stage(an_agent(), wrap_store=silent("stop_turn")) as stage:
        await stage.send("go")

        with pytest.raises(UnsettledError) as caught:
            await stage.clock.run(stage.session().stop(idempotency_key="k"))

        error = caught.value
        assert error.run == {"session_id": "s-1", **MODEL}
        assert (error.code, error.idempotency_key) == ("store_unavailable", "k")
        assert "turn-1 was active with attempt 1 of model-1-0" in error.message


async def test_a_command_that_gets_no_answer_says_so_when_nothing_was_active() -> None:
    async with open_stage(an_agent(), wrap_store=silent("pause_session")) as stage:
        await stage.send("go")
        await stage.run_all()

        with pytest.raises(UnsettledError, match="no turn was active") as caught:
            await stage.clock.run(stage.session().pause())

        assert caught.value.run == {"session_id": "s-1"}


async def test_a_session_that_could_not_be_looked_at_is_named_alone() -> None:
    class Dead:
        def __init__(self, store: Any) -> None:
            self._store = store

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

        async def load(self, *_: Any, **__: Any) -> Any:
            raise StoreUnavailableError("no answer came")

    async with open_stage(an_agent(), wrap_store=Dead) as stage:
        with pytest.raises(UnsettledError) as caught:
            await stage.clock.run(stage.session().send("go"))

        assert caught.value.run == {"session_id": "s-1"}


async def test_nobody_learns_by_an_outage_what_runs_in_a_session_of_somebody_else() -> None:
    async with open_stage(an_agent(), wrap_store=silent("stop_turn")) as stage:
        await stage.send("go")

        assert await refusal(stage.service.stop(OTHER, "s-1")) == (NotFoundError, "session_not_found")


# --- abandoning ------------------------------------------------------------------------------------------------------


async def test_a_model_step_whose_worker_is_gone_is_given_up_by_name_and_its_turn_fails() -> None:
    async with open_stage(an_agent()) as stage:
        await with_a_dead_worker(stage)
        await until_its_lease_is_over(stage)

        assert await abandon(stage) == {"result": "abandoned"}

        state = (await stage.snapshot())["state"]
        assert state["last_turn_error"]["code"] == "internal"
        assert "abandoned by local" in state["last_turn_error"]["message"]
        assert "turn_id" not in state


async def test_a_run_whose_lease_has_not_expired_is_not_given_up() -> None:
    async with open_stage(an_agent()) as stage:
        await with_a_dead_worker(stage)

        assert await refusal(abandon(stage)) == (RequestConflictError, "still_running")

        head = await stage.head()
        assert head.turn is not None
        assert head.turn.step is not None
        assert (lease := await stage.leases.read_lease(SESSION, "model-1-0")) is not None
        assert not lease.revoked


@pytest.mark.parametrize(("waited", "given_up"), [(START_LEASE - timedelta(seconds=1), False), (START_LEASE, True)])
async def test_a_run_that_nobody_has_begun_is_given_up_only_once_it_is_overdue(
    waited: timedelta, given_up: bool
) -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("go")
        late = stage.taken()
        await stage.clock.advance(waited.total_seconds())

        if not given_up:
            assert await refusal(abandon(stage)) == (RequestConflictError, "still_running")
            return
        assert await abandon(stage) == {"result": "abandoned"}
        await stage.run(late)  # its message arrives after all
        assert (await stage.snapshot())["state"]["last_turn_error"]["code"] == "internal"
        assert [m["role"] for m in (await stage.snapshot())["messages"]] == ["user"]


async def test_a_write_that_had_begun_ends_with_an_unknown_outcome_and_is_not_repeated() -> None:
    desk = Desk()
    async with open_stage(desk.agent(asking_for("log_visit"))) as stage:
        await stage.send("go")
        await stage.run_next()
        message = stage.taken()
        expires_at = stage.clock.now() + LEASE_DURATION
        await stage.leases.claim(SESSION, message.step_id, 1, "dead", expires_at)
        await execute(stage.ports, SESSION, ToolStarted(call_id=message.step_id, attempt=1, owner="dead"))
        await until_its_lease_is_over(stage)

        assert await abandon(stage, step_execution_id=message.step_id) == {"result": "abandoned"}
        await stage.run_all()

        assert (await stage.results())["log_visit"][0] == "outcome_unknown"
        assert desk.visits == 0


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"version": 1}, "stale_revision"),
        ({"version": 99}, "stale_revision"),
        ({"turn_id": "turn-2"}, "not_running"),
        ({"step_execution_id": "model-1-1"}, "not_running"),
        ({"attempt": 2}, "not_running"),
    ],
    ids=str,
)
async def test_anything_but_the_one_run_that_was_looked_at_is_refused(changes: dict[str, Any], code: str) -> None:
    async with open_stage(an_agent()) as stage:
        await with_a_dead_worker(stage)
        await stage.session().pause()
        await until_its_lease_is_over(stage)
        before = await stage.head()

        assert await refusal(abandon(stage, **changes)) == (RequestConflictError, code)

        assert await stage.head() == before


async def test_a_session_that_moved_on_in_the_last_moment_is_left_alone() -> None:
    class Interfering:
        """Lets somebody pause the session just before the run is given up."""

        def __init__(self, leases: Any) -> None:
            self._leases = leases
            self.interfere: Any = None

        def __getattr__(self, name: str) -> Any:
            return getattr(self._leases, name)

        async def revoke(self, *arguments: Any) -> Any:
            await self.interfere()
            return await self._leases.revoke(*arguments)

    async with open_stage(an_agent()) as stage:
        await with_a_dead_worker(stage)
        await until_its_lease_is_over(stage)
        leases = Interfering(stage.leases)
        leases.interfere = stage.session().pause
        stage.service._deps = replace(stage.deps, ports=replace(stage.ports, leases=leases))

        assert await refusal(abandon(stage)) == (RequestConflictError, "stale_revision")

        await stage.session().resume()
        await sweep_session(stage.deps, SESSION)  # which goes on as ever
        await stage.run_all()
        assert (await stage.snapshot())["messages"][-1]["role"] == "assistant"


async def test_a_run_that_is_over_and_a_session_that_never_was_are_told_apart() -> None:
    async with open_stage(Desk().agent(booking())) as stage:
        assert await refusal(abandon(stage)) == (NotFoundError, "session_not_found")
        await stage.send("go")
        await stage.run_all()

        assert await refusal(abandon(stage)) == (RequestConflictError, "not_running")


async def test_only_who_may_control_a_session_gives_up_its_runs() -> None:
    def reader(principal: Any, operation: str, facts: Any) -> bool | None:
        return operation == "read" if principal.actor.subject == "other" else None

    async with open_stage(an_agent(), authorize=reader) as stage:
        await with_a_dead_worker(stage)
        await until_its_lease_is_over(stage)

        refused = stage.service.abandon(OTHER, "s-1", **MODEL, version=1)

        assert await refusal(refused) == (ForbiddenError, "forbidden")


def test_an_unsettled_error_names_only_what_is_known() -> None:
    assert UnsettledError("m", session_id="s").run == {"session_id": "s"}
