"""What once broke a promise, each as the smallest story that did."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

import perdure
from perdure import AgentDefinition, ToolExecutionError, ToolPolicy, function_tool
from perdure.agents.stepwise import StepwiseRunner
from perdure.core.limits import LEASE_RENEWAL
from perdure.core.usage import CallUsage
from perdure.errors import ConfigurationError, ModelCallError, UnknownRecordVersionError
from perdure.models.base import ModelResponse, ModelToolCall, TextDelta
from perdure.models.scripted import Reply, ScriptedModel, tool_results
from perdure.ports import SessionStore
from perdure.service import LOCAL_CALLER
from perdure.steps.commit import MAX_CONFLICTS
from perdure.steps.run_model import run_model
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.steps.builders import HangingModel, LosingAnswers, an_agent, asking_for


class Said:
    """A model whose stream is what a test makes of it."""

    provider = "said"
    model = "said"

    def __init__(self, stream: Callable[[Any], AsyncIterator[Any]]) -> None:
        self.stream = stream


def saying(*items: Any) -> Said:
    async def stream(_: Any) -> AsyncIterator[Any]:
        for item in items:
            if isinstance(item, BaseException):
                raise item
            yield item

    return Said(stream)


async def its_turn(agent: AgentDefinition) -> tuple[Stage, float, dict[str, tuple[str, str]]]:
    """Run one turn without any sweep; returns the stage as it was, the virtual seconds, and the tools' results."""
    async with open_stage(agent) as stage:
        began = stage.clock.now()
        await stage.send("go")
        await stage.run_all()
        assert (await stage.head()).turn is None, "the turn waits for the sweep"
        return stage, (stage.clock.now() - began).total_seconds(), await stage.results()


class OddError(BaseException):
    """Neither an `Exception` nor one of the two that asyncio lets through."""


@pytest.mark.parametrize("error", [OddError, KeyboardInterrupt, GeneratorExit, SystemExit, StopIteration])
async def test_whatever_a_tool_in_a_thread_raises_is_its_outcome_at_once(error: type[BaseException]) -> None:
    @function_tool(effect="read")
    def work() -> str:
        raise error

    _, seconds, results = await its_turn(an_agent(work, model=asking_for("work")))

    assert results["work"][0] == "failed"
    assert seconds == 3  # the waits before attempts 2 and 3, and no lease that had to end


async def test_an_async_tool_that_raises_no_exception_proper_does_not_hold_its_turn_up() -> None:
    @function_tool(effect="non_idempotent_write", requires_approval=False)
    async def work() -> str:
        raise OddError

    _, seconds, results = await its_turn(an_agent(work, model=asking_for("work")))

    assert (seconds, results["work"][0]) == (0, "outcome_unknown")


@pytest.mark.parametrize(
    ("message", "stored"), [("no \ud800 such", "no \ufffd such"), (b"x", "b'x'")], ids=["surrogate", "bytes"]
)
async def test_a_failure_whose_message_is_no_text_is_stored_all_the_same(message: Any, stored: str) -> None:
    @function_tool(effect="non_idempotent_write", requires_approval=False)
    async def work() -> str:
        raise ToolExecutionError(message)

    _, _, results = await its_turn(an_agent(work, model=asking_for("work")))

    assert results["work"] == ("failed", stored)


async def test_a_failure_with_a_huge_message_says_how_huge_it_was() -> None:
    @function_tool(effect="read")
    async def work() -> str:
        raise ToolExecutionError("z" * 17_000_000)

    _, _, results = await its_turn(an_agent(work, model=asking_for("work")))

    assert results["work"] == (
        "failed",
        "work failed; its message has 17000000 bytes, and at most 16777216 are kept",
    )


@pytest.mark.parametrize("output", [None, 7, b"x"])
async def test_a_runner_that_returns_no_text_has_failed_and_is_not_taken_for_cut_off(output: Any) -> None:
    class Runner(StepwiseRunner):
        async def execute_tool(self, agent: Any, context: Any, arguments: Any) -> Any:
            return output

    @function_tool(effect="non_idempotent_write", requires_approval=False)
    async def work() -> str:
        return "never"

    _, _, results = await its_turn(an_agent(work, model=asking_for("work"), runner=Runner()))

    assert results["work"][0] == "outcome_unknown"


async def test_lone_surrogates_of_a_model_are_mended_before_they_are_stored() -> None:
    model = saying(TextDelta("a\ud800"), ModelResponse(text="a\ud800", reasoning="\udc00b"))

    async with open_stage(an_agent(model=model)) as stage:
        await stage.send("go")
        await stage.run_all()

        assert (await stage.transcript())[-1] == ("assistant", "\ufffdb a\ufffd")


@pytest.mark.parametrize(
    "item", [{"x": object()}, {"x": float("nan")}, {"x": "\ud800"}], ids=["object", "nan", "surrogate"]
)
async def test_an_outcome_that_can_not_be_stored_fails_the_turn_without_waiting_for_leases(item: Any) -> None:
    model = saying(ModelResponse(text="a", provider_item=item))

    async with open_stage(an_agent(model=model)) as stage:
        await stage.send("go")
        await stage.run_all()

        error = (await stage.snapshot())["state"]["last_turn_error"]
        assert error["message"].startswith("the model step was given up after attempt 3: the model step failed with")


async def test_calls_whose_outcome_can_not_be_stored_are_counted_with_what_they_used() -> None:
    usage = CallUsage(input_tokens=10, output_tokens=5)
    model = saying(ModelResponse(text="a", provider_item={"x": object()}, usage=usage))

    async with open_stage(an_agent(model=model)) as stage:
        await stage.send("go")
        await stage.run_all()

        used = (await stage.snapshot())["usage"]
        assert (used["model_calls"], used["input_tokens"]["value"], used["output_tokens"]["value"]) == (3, 30, 15)


async def test_a_model_whose_usage_is_no_usage_fails_its_turn_without_waiting_for_leases() -> None:
    async with open_stage(an_agent(model=saying(ModelResponse(text="a", usage=None)))) as stage:  # type: ignore[arg-type]
        await stage.send("go")
        await stage.run_all()

        assert (await stage.snapshot())["state"]["last_turn_error"]["code"] == "internal"


@pytest.mark.parametrize("error", [asyncio.CancelledError(), OddError()], ids=["cancelled", "odd"])
async def test_a_model_that_ends_with_no_exception_proper_fails_its_turn(error: BaseException) -> None:
    async with open_stage(an_agent(model=saying(error))) as stage:
        await stage.send("go")
        await stage.run_all()

        assert (await stage.snapshot())["state"]["last_turn_error"]["code"] == "internal"


@pytest.mark.parametrize(("asked", "calls"), [(float("nan"), 6), (float("inf"), 1), (1e300, 1)])
async def test_a_provider_that_asks_for_an_impossible_wait_fails_the_turn_by_its_own_error(
    asked: float, calls: int
) -> None:
    error = ModelCallError("busy", kind="rate_limited", retryable=True, retry_after_seconds=asked)

    async with open_stage(an_agent(model=saying(error))) as stage:
        await stage.send("go")
        await stage.run_all()

        snapshot = await stage.snapshot()
        assert snapshot["state"]["last_turn_error"] == {"code": "provider", "message": "busy"}
        assert snapshot["usage"]["model_calls"] == calls


async def test_a_validator_of_the_user_that_breaks_fails_its_call_and_not_the_turn() -> None:
    class Place(BaseModel):
        x: int

        @field_validator("x")
        @classmethod
        def _check(cls, _: int) -> int:
            raise RuntimeError("the geography service is down")

    @function_tool(effect="read")
    async def work(place: Place) -> str:
        return "never"

    wanted = ModelToolCall(tool_name="work", arguments_text='{"place":{"x":1}}')
    model = ScriptedModel(lambda request: "done" if tool_results(request) else Reply(calls=(wanted,)))

    _, _, results = await its_turn(an_agent(work, model=model))

    assert results["work"] == ("failed", "invalid work arguments: their check failed with RuntimeError")


class Rivals:
    """A store in which others commit first, as often as a test wants."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self.stage: Stage | None = None
        self.left = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, key: Any, loaded: Any, decision: Any) -> None:
        if self.left and self.stage is not None and decision.entry.kind != "send_input":
            self.left -= 1
            await self.stage.send(f"a rival's {self.left}")
        await self._store.commit(key, loaded, decision)


async def test_a_known_outcome_is_not_lost_to_any_number_of_messages_that_come_first() -> None:
    async with open_stage(an_agent(), wrap_store=Rivals) as stage:
        await stage.send("go")
        rivals: Any = stage.store
        rivals.stage, rivals.left = stage, MAX_CONFLICTS + 10

        await stage.run_next()

        assert rivals.left == 0
        head = await stage.head()
        assert head.last_turn is not None
        assert (head.last_turn.turn_id, head.last_turn.outcome) == ("turn-1", "completed")


async def test_a_store_that_keeps_silent_for_a_while_does_not_make_a_known_outcome_unknown() -> None:
    def silent(store: SessionStore) -> LosingAnswers:
        return LosingAnswers(store, lambda kind, before: kind == "tool_finished" and before < 7, landing=False)

    @function_tool(effect="non_idempotent_write", requires_approval=False)
    async def pay() -> str:
        return "paid"

    async with open_stage(an_agent(pay, model=asking_for("pay")), wrap_store=silent) as stage:
        await stage.send("go")
        await stage.run_all()

        assert await stage.results() == {"pay": ("succeeded", "paid")}


async def test_hundreds_of_messages_at_once_are_all_accepted(tmp_path: Path) -> None:
    agent = an_agent(model=ScriptedModel(lambda _: "Hello!"))

    async with perdure.open(tmp_path / "sessions.db", agents=[agent]) as runtime:
        sends = (runtime.service.send_input(LOCAL_CALLER, "s-1", text=f"message {n}") for n in range(150))
        receipts = await asyncio.gather(*sends)

    assert len({receipt["message_id"] for receipt in receipts}) == 150


async def test_a_sender_that_goes_away_during_the_commit_leaves_a_message_that_is_answered_at_once() -> None:
    committing, go_on = asyncio.Event(), asyncio.Event()

    class Slow:
        def __init__(self, store: SessionStore) -> None:
            self._store = store

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

        async def commit(self, key: Any, loaded: Any, decision: Any) -> None:
            await self._store.commit(key, loaded, decision)
            committing.set()
            await go_on.wait()

    async with open_stage(an_agent(), wrap_store=Slow) as stage:
        sending = asyncio.ensure_future(stage.send("go"))
        await committing.wait()

        sending.cancel()
        await asyncio.wait({sending})
        go_on.set()
        await stage.clock.settle()

        assert sending.cancelled()
        assert [dispatch.step_id for _, dispatch in stage.queue.sent] == ["model-1-0"]


async def test_a_step_that_can_not_be_looked_at_for_a_while_keeps_its_lease() -> None:
    class Unreadable:
        def __init__(self, store: SessionStore) -> None:
            self._store = store
            self.broken = False

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

        async def peek(self, key: Any) -> Any:
            if self.broken:
                raise UnknownRecordVersionError("written by a newer version, and rolled back")
            return await self._store.peek(key)

    model = HangingModel(TextDelta("so "))
    async with open_stage(an_agent(model=model), wrap_store=Unreadable) as stage:
        await stage.send("go")
        message = stage.taken()
        running = asyncio.ensure_future(run_model(stage.deps, message))
        await model.waiting.wait()
        before = await stage.leases.read_lease(message.key, message.step_id)
        store: Any = stage.store
        store.broken = True
        await stage.clock.advance(2)
        store.broken = False

        await stage.clock.advance(LEASE_RENEWAL.total_seconds() + 2)

        after = await stage.leases.read_lease(message.key, message.step_id)
        assert before is not None
        assert after is not None
        assert after.expires_at > before.expires_at
        running.cancel()
        await asyncio.wait({running})


@pytest.mark.parametrize("deadline", [timedelta(0), timedelta(days=4000), timedelta.max])
def test_a_deadline_that_no_clock_can_tell_is_refused(deadline: timedelta) -> None:
    with pytest.raises(ConfigurationError, match="approval_deadline"):
        ToolPolicy(approval_deadline=deadline)


async def test_the_longest_timeout_that_there_is_means_the_longest_run_that_there_is() -> None:
    @function_tool(effect="read")
    async def work() -> str:
        return "ok"

    _, _, results = await its_turn(an_agent(work, model=asking_for("work"), tool_timeout=timedelta.max))

    assert results["work"] == ("succeeded", "ok")
