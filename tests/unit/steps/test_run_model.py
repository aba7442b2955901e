"""The model step: what it asks, stops, deadlines, lost leases, and what it shows."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from perdure.agents.definition import InstructionContext
from perdure.core.limits import LEASE_DURATION, LEASE_GRACE
from perdure.errors import ConfigurationError
from perdure.models.base import ReasoningDelta, TextDelta
from perdure.models.scripted import Reply, ScriptedModel, call, user_texts
from perdure.steps.recover import sweep_session
from perdure.steps.run_model import run_model
from perdure.testing.clock import VirtualClock
from perdure.testing.fixtures import SESSION, Stage, open_stage, redeployed
from tests.unit.steps.builders import HangingModel, Provider, an_agent, asking_for, failing


async def test_one_step_makes_one_provider_call_from_the_committed_state() -> None:
    model = ScriptedModel(lambda request: f"you said {user_texts(request)[-1]}")
    async with open_stage(an_agent(model=model)) as stage:
        for text in ("first", "second"):
            await stage.send(text)
            await stage.run_next()

        assert [user_texts(request) for request in model.requests] == [("first",), ("first", "second")]
        assert await stage.transcript() == [
            ("user", "first"),
            ("assistant", "you said first"),
            ("user", "second"),
            ("assistant", "you said second"),
        ]


async def test_instructions_are_asked_for_anew_for_every_step() -> None:
    seen: list[InstructionContext] = []

    def instructions(context: InstructionContext) -> str:
        seen.append(context)
        return "be kind"

    agent = an_agent(model=ScriptedModel(lambda request: request.instructions), instructions=instructions)
    async with open_stage(agent) as stage:
        await stage.send("hi")
        await stage.run_next()
        other = redeployed(stage, an_agent(model=agent.model, instructions="be brief"))
        await other.send("again")
        await other.run_next()

        assert [text for role, text in await stage.transcript() if role == "assistant"] == ["be kind", "be brief"]
        assert [(c.session_id, c.turn_id, c.attempt, c.interaction_mode) for c in seen] == [
            ("s-1", "turn-1", 1, "chat")
        ]


@pytest.mark.parametrize(("in_process", "seconds"), [(True, 0), (False, 1.1)], ids=["in-process", "elsewhere"])
async def test_a_stop_ends_the_call_at_once_or_within_a_second_and_keeps_what_was_shown_marked(
    in_process: bool, seconds: float
) -> None:
    model = HangingModel(ReasoningDelta("hm"), TextDelta("Once upon "), TextDelta("a time"))
    async with open_stage(an_agent(model=model), in_process=in_process) as stage:
        await stage.send("tell me a story")
        step = asyncio.create_task(run_model(stage.deps, stage.taken()))
        await stage.clock.settle()
        assert model.waiting.is_set()

        assert await stage.stop() == {"result": "recorded"}
        await stage.clock.advance(seconds)

        assert step.done()
        assert model.closed
        _, partial = (await stage.snapshot())["messages"]
        assert partial["status"] == "interrupted"
        assert partial["parts"] == [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "Once upon a time"}]
        assert (await stage.event_types())[-1] == "turn_cancelled"
        assert (await stage.head()).usage.model_calls == 1


async def test_a_stop_after_a_reconnect_keeps_only_what_the_last_call_showed() -> None:
    clock = VirtualClock()
    hanging = HangingModel(TextDelta("Again from the start"))
    provider = Provider(clock, failing(partial_text="Half an ans"))
    calls = iter([provider.stream, hanging.stream])

    class Both:
        provider = model = "both"

        def stream(self, request: Any) -> Any:
            return next(calls)(request)

    async with open_stage(an_agent(model=Both()), clock=clock) as stage:
        await stage.send("hi")
        step = asyncio.create_task(run_model(stage.deps, stage.taken()))
        await clock.advance(1)
        assert hanging.waiting.is_set()

        await stage.stop()
        await clock.advance(1.1)

        assert step.done()
        assert (await stage.transcript())[-1] == ("assistant", "Again from the start")


async def test_a_stop_that_discards_keeps_nothing_of_the_answer() -> None:
    async with open_stage(an_agent(model=HangingModel(TextDelta("Once")))) as stage:
        await stage.send("tell me a story")
        step = asyncio.create_task(run_model(stage.deps, stage.taken()))
        await stage.clock.settle()

        await stage.stop(disposition="discard")
        await stage.clock.advance(1.1)

        assert step.done()
        messages = (await stage.snapshot())["messages"]
        assert [(m["role"], m.get("status")) for m in messages] == [("user", None), ("assistant", "superseded")]


async def test_a_stop_during_the_wait_for_a_reconnect_ends_it() -> None:
    clock = VirtualClock()
    provider = Provider(clock, failing("rate_limited", retry_after_seconds=200), "never")
    async with open_stage(an_agent(model=provider), clock=clock) as stage:
        await stage.send("hi")
        step = asyncio.create_task(run_model(stage.deps, stage.taken()))
        await clock.advance(5)

        await stage.stop()
        await clock.advance(1.1)

        assert step.done()
        assert len(provider.times) == 1
        assert (await stage.event_types())[-1] == "turn_cancelled"


async def test_a_turn_that_was_stopped_before_its_step_began_ends_without_a_provider_call() -> None:
    clock = VirtualClock()
    provider = Provider(clock, "never")
    async with open_stage(an_agent(model=provider), clock=clock) as stage:
        await stage.send("hi")
        await stage.stop()
        await stage.run_next()

        assert provider.times == []
        assert (await stage.event_types())[-1] == "turn_cancelled"


async def test_a_worker_that_lost_its_lease_stops_and_commits_nothing(caplog: pytest.LogCaptureFixture) -> None:
    model = HangingModel(TextDelta("half"))
    async with open_stage(an_agent(model=model)) as stage:
        await stage.send("hi")
        message = stage.taken()
        step = asyncio.create_task(run_model(stage.deps, message))
        await stage.clock.settle()
        given_up = stage.clock.now() + LEASE_DURATION + LEASE_GRACE
        assert await stage.leases.revoke(SESSION, message.step_id, 1, given_up) == "claimed"

        await stage.clock.advance(25)  # the next renewal is refused

        assert step.done()
        assert model.closed
        assert (await stage.head()).version == 1
        assert [r.__dict__["event"] for r in caplog.records] == ["lease_lost"]


async def test_a_long_call_keeps_its_lease() -> None:
    model = HangingModel(TextDelta("thinking"))
    async with open_stage(an_agent(model=model)) as stage:
        await stage.send("hi")
        message = stage.taken()
        step = asyncio.create_task(run_model(stage.deps, message))
        await stage.clock.advance(600)

        assert await stage.leases.revoke(SESSION, message.step_id, 1, stage.clock.now()) == "alive"
        assert not step.done()
        step.cancel()
        await asyncio.wait({step})


async def test_an_attempt_that_runs_into_its_deadline_is_recorded_from_inside_and_tried_again() -> None:
    model = HangingModel(TextDelta("half"))
    async with open_stage(an_agent(model=model)) as stage:
        await stage.send("hi")
        deadline = stage.clock.now() + timedelta(seconds=30)

        await stage.run_next(deadline=deadline)

        assert stage.clock.now() - deadline < timedelta(seconds=1)
        reset = (await stage.events())[-1]
        assert (reset["type"], reset["attempt"]) == ("attempt_reset", 1)
        assert reset["payload"]["reason"] == "the model step ran into its deadline"
        assert stage.taken().attempt == 2


async def test_three_attempts_that_run_into_the_deadline_fail_the_turn_with_timeout() -> None:
    model = HangingModel()
    async with open_stage(an_agent(model=model)) as stage:
        await stage.send("hi")
        for _ in range(3):
            await stage.run_next(deadline=stage.clock.now() + timedelta(seconds=30))

        assert stage.queue.sent == []
        assert (await stage.snapshot())["state"]["last_turn_error"]["code"] == "timeout"
        assert model.calls == 3


async def test_an_unexpected_error_of_a_runner_makes_another_attempt_from_the_same_state() -> None:
    clock = VirtualClock()
    provider = Provider(clock, RuntimeError("secret detail"), "fine")
    async with open_stage(an_agent(model=provider), clock=clock) as stage:
        await stage.send("hi")
        first, second = await stage.run_all()

        assert (first.step_id, first.attempt + 1) == (second.step_id, second.attempt)
        assert provider.requests[0].messages == provider.requests[1].messages
        assert (await stage.transcript())[-1] == ("assistant", "fine")
        assert "secret detail" not in str(await stage.entries())


async def test_a_wrong_configuration_fails_the_turn_without_another_attempt() -> None:
    clock = VirtualClock()
    provider = Provider(clock, ConfigurationError("no key is set: set OPENAI_API_KEY"))
    async with open_stage(an_agent(model=provider), clock=clock) as stage:
        await stage.send("hi")
        await stage.run_all()

        error = (await stage.snapshot())["state"]["last_turn_error"]
        assert error == {"code": "internal", "message": "no key is set: set OPENAI_API_KEY"}
        assert len(provider.times) == 1


async def test_a_session_whose_agent_is_gone_fails_its_turn_and_says_which() -> None:
    async with open_stage(an_agent(name="billing")) as stage:
        await stage.send("hi")
        other = redeployed(stage, an_agent(name="billing_v2"))
        await other.run_all()

        error = (await stage.snapshot())["state"]["last_turn_error"]
        assert error["code"] == "configuration"
        assert "'billing'" in error["message"]


async def test_at_the_cap_of_model_calls_the_model_is_offered_no_tools_and_what_it_asks_for_is_not_run() -> None:
    model = ScriptedModel(lambda request: Reply(text="once more", calls=(call("again"),)))
    ran: list[int] = []
    async with open_stage(an_agent(a_counting_tool("again", ran), model=model, max_model_calls=3)) as stage:
        await stage.send("hi")
        await stage.run_all()

        assert [len(request.tools) for request in model.requests] == [1, 1, 1, 0]
        assert len(ran) == 3
        assert (await stage.events())[-1]["payload"]["reason"] == "model_call_limit"


def a_counting_tool(name: str, ran: list[int]) -> Any:
    from perdure import function_tool

    @function_tool(effect="read", name=name)
    async def tool() -> str:
        ran.append(1)
        return "ok"

    return tool


async def test_f020_a_later_model_failure_does_not_run_the_tool_again() -> None:
    ran: list[int] = []
    clock = VirtualClock()
    provider = Provider(clock, Reply(calls=(call("charge"),)), failing("invalid", retryable=False, status=400))
    async with open_stage(an_agent(a_counting_tool("charge", ran), model=provider), clock=clock) as stage:
        await stage.send("hi")
        ran_steps = await stage.run_all()
        for message in ran_steps:  # the whole run is delivered once more
            await stage.run(message)
        await stage.run_all()

        assert len(ran) == 1
        assert len(provider.times) == 2
        assert (await stage.snapshot())["state"]["last_turn_error"]["code"] == "provider"


async def test_f103_a_second_delivery_while_the_first_runs_and_after_it_calls_nobody() -> None:
    clock = VirtualClock()
    model = ScriptedModel(lambda _: "done", delay=timedelta(seconds=90), clock=clock, chunk=100)
    async with open_stage(an_agent(model=model), clock=clock) as stage:
        await stage.send("hi")
        message = stage.taken()
        first = asyncio.create_task(run_model(stage.deps, message))
        await clock.advance(60)

        await stage.run(message)
        await clock.advance(40)
        assert first.done()
        await stage.run(message)

        assert len(model.requests) == 1
        assert stage.queue.sent == []


async def test_f104_a_dead_workers_attempt_is_replaced_after_its_lease_and_its_late_answer_is_refused() -> None:
    clock = VirtualClock()
    model = ScriptedModel(lambda _: "late", delay=timedelta(seconds=100), clock=clock, chunk=1)
    async with open_stage(an_agent(model=model), clock=clock) as stage:
        await stage.send("hi")
        message = stage.taken()
        held = await claimed_and_dead(stage, message)
        await stage.run(message)  # a redelivery before the expiry is no failure
        assert (await stage.head()).version == 1

        await clock.advance(126)
        await sweep_session(stage.deps, SESSION)

        assert stage.taken().attempt == 2
        assert not await stage.leases.renew(SESSION, message.step_id, 1, held, clock.now() + LEASE_DURATION)


async def claimed_and_dead(stage: Stage, message: Any) -> str:
    """A worker claims an attempt and is never heard of again."""
    owner = "dead"
    await stage.leases.claim(SESSION, message.step_id, message.attempt, owner, stage.clock.now() + LEASE_DURATION)
    return owner


async def test_progress_is_gathered_when_the_host_wants_it_and_the_last_of_it_is_left_to_the_commit() -> None:
    clock = VirtualClock()
    model = ScriptedModel(lambda _: "abcdefghij", chunk=1, delay=timedelta(milliseconds=100), clock=clock)
    async with open_stage(an_agent(model=model), clock=clock, progress_interval_seconds=0.25) as stage:
        published: list[list[str]] = []
        publish = stage.live.publish

        async def note(*args: Any) -> None:
            published.append([event.payload.get("text", event.type) for event in args[-1]])
            await publish(*args)

        stage.live.publish = note  # type: ignore[method-assign, assignment]
        await stage.send("hi")
        await stage.run_next()

        seen = "".join(text for batch in published for text in batch)
        assert "model_startedabcdefghij".startswith(seen)
        assert len(seen) > len("model_startedabcde")
        assert len(published) <= 5
        assert (await stage.transcript())[-1] == ("assistant", "abcdefghij")


async def test_two_ports_are_asked_side_by_side_off_the_process_and_the_turn_is_the_same() -> None:
    async with open_stage(an_agent(model=asking_for("nothing")), in_process=False) as stage:
        await stage.send("hi")
        await stage.run_all()

        assert (await stage.event_types())[-1] == "turn_completed"
