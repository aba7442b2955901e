"""What workers do when a session is paused, waits for a reconnect, is steered, or blocked by its credential."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from perdure.agents.reconnect import ReconnectPolicy
from perdure.agents.tools import function_tool
from perdure.models.base import ModelRequest, ReasoningDelta, TextDelta
from perdure.models.scripted import Reply, ScriptedModel, call, user_texts
from perdure.ports import SessionKey
from perdure.service import LOCAL_CALLER
from perdure.steps.call_tool import call_tool
from perdure.steps.recover import sweep_session
from perdure.steps.run_model import run_model
from perdure.testing.clock import VirtualClock
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.steps.builders import HangingModel, Provider, an_agent, asking_for, failing

KEY = SessionKey("local", "s-1")


async def pause(stage: Stage) -> None:
    await stage.service.pause(LOCAL_CALLER, "s-1")


async def resume(stage: Stage) -> None:
    await stage.service.resume(LOCAL_CALLER, "s-1")


# --- pause -----------------------------------------------------------------------------------------------------


async def test_a_step_that_is_claimed_in_a_pause_runs_when_the_pause_ends_and_loses_nothing() -> None:
    # U-13: the claim went out before the worker saw the pause, and an attempt is claimed at most once.
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")
        message = stage.taken()
        await pause(stage)
        await stage.run(message)
        assert (await stage.head()).turn is not None
        assert stage.queue.take() is None

        await resume(stage)
        await stage.run_all()

        assert (await stage.transcript())[-1] == ("assistant", "Hello!")
        head = await stage.head()
        assert head.usage.model_calls == 1


async def test_a_write_whose_start_meets_the_pause_runs_once_when_it_ends() -> None:
    ran: list[int] = []

    @function_tool(effect="non_idempotent_write", requires_approval=False)
    async def pay() -> str:
        """Pay."""
        ran.append(1)
        return "paid"

    async with open_stage(an_agent(pay, model=asking_for("pay"))) as stage:
        await stage.send("pay")
        await stage.run_next()
        message = stage.taken()
        await pause(stage)
        await stage.run(message)
        assert ran == []
        assert "tool_call_started" not in await stage.event_types()

        await resume(stage)
        await stage.run_all()

        assert ran == [1]
        assert (await stage.results())["pay"] == ("succeeded", "paid")


async def test_a_running_model_finishes_in_a_pause_and_what_it_asks_for_waits() -> None:
    @function_tool(effect="read")
    async def look() -> str:
        """Look."""
        return "seen"

    async with open_stage(an_agent(look, model=asking_for("look"))) as stage:
        await stage.send("look")
        message = stage.taken()
        step = asyncio.create_task(run_model(stage.deps, message))
        await asyncio.sleep(0)
        await pause(stage)
        await stage.clock.run(asyncio.wait({step}))
        assert stage.queue.take() is None

        await resume(stage)
        await stage.run_all()

        assert (await stage.transcript())[-1] == ("assistant", "done")


async def test_a_paused_session_costs_no_look_of_the_sweep() -> None:
    # U-13, design §1: a session that waits costs storage and nothing else
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")
        await pause(stage)
        await stage.clock.advance(3600)

        assert await stage.store.sessions_due(stage.clock.now(), 10) == []
        await resume(stage)
        await stage.clock.advance(60)
        assert await stage.store.sessions_due(stage.clock.now(), 10) == [KEY]


# --- reconnects that wait ---------------------------------------------------------------------------------------


async def test_f019_a_wait_of_forty_seconds_holds_no_worker() -> None:
    # RETRY-01, F019: no function is running during the wait, and exactly two requests are made.
    clock = VirtualClock()
    provider = Provider(clock, failing("rate_limited", status=429, retry_after_seconds=40), "at last")
    async with open_stage(an_agent(model=provider), clock=clock) as stage:
        await stage.send("hi")
        began = clock.now()
        await stage.run_next()
        assert clock.now() - began < timedelta(seconds=1)
        assert (await stage.snapshot())["state"]["waiting_for"][0]["kind"] == "retry"

        await stage.run_all()

        assert provider.waits == [40]
        assert (await stage.transcript())[-1] == ("assistant", "at last")
        (announced,) = [e["payload"] for e in await stage.events() if e["type"] == "model_retry_scheduled"]
        assert announced == {"retry_in_ms": 40_000, "attempt": 1, "reason": "rate_limited"}


@pytest.mark.parametrize(("partial", "told"), [("echo", True), ("drop", False)])
async def test_a_cut_answer_survives_the_wait_for_the_next_call_or_is_dropped(partial: str, told: bool) -> None:
    # RETRY-04: kept in the log meanwhile, because another process may make the next call
    clock = VirtualClock()
    cut = failing("malformed", partial_text="Half an ans", retry_after_seconds=60)
    provider = Provider(clock, cut, "The whole answer.")
    policy = ReconnectPolicy(partial=partial)  # type: ignore[arg-type]
    async with open_stage(an_agent(model=provider, reconnect=policy), clock=clock) as stage:
        await stage.send("hi")
        await stage.run_all()

        assert ("Half an ans" in str(provider.requests[1].messages)) == told
        assert await stage.transcript() == [("user", "hi"), ("assistant", "The whole answer.")]


async def test_the_reconnects_of_a_turn_are_one_budget_across_its_steps_and_waits() -> None:
    # U-7: one budget for the whole turn, whoever makes the calls
    clock = VirtualClock()
    slow = failing("rate_limited", retry_after_seconds=6)
    async with open_stage(an_agent(model=Provider(clock, slow)), clock=clock) as stage:
        await stage.send("hi")
        ran = await stage.run_all()

        assert len(ran) == 6  # each of the five waits came back as a message
        head = await stage.head()
        assert head.last_turn_error is not None
        assert head.usage.model_calls == 6


async def test_retry_now_calls_the_provider_at_once_and_the_message_of_the_wait_finds_nothing_to_do() -> None:
    # RETRY-03
    clock = VirtualClock()
    provider = Provider(clock, failing("rate_limited", retry_after_seconds=200), "at last")
    async with open_stage(an_agent(model=provider), clock=clock) as stage:
        await stage.send("hi")
        await stage.run_next()

        assert await stage.service.retry(LOCAL_CALLER, "s-1", retry_id="now") == {"result": "recorded"}
        await stage.run_all()

        assert len(provider.times) == 2
        assert provider.times[1] - provider.times[0] < 1
        again = await stage.service.retry(LOCAL_CALLER, "s-1", retry_id="now")
        assert again == {"result": "already_recorded"}


# --- steer -----------------------------------------------------------------------------------------------------


async def test_a_steer_lets_the_running_read_finish_and_the_next_turn_sees_what_it_found() -> None:
    reading, go_on = asyncio.Event(), asyncio.Event()

    @function_tool(effect="read")
    async def look() -> str:
        """Look."""
        reading.set()
        await go_on.wait()
        return "seen"

    def answer(request: ModelRequest) -> Reply | str:
        return "other" if "something else" in user_texts(request) else Reply(calls=(call("look"),))

    model = ScriptedModel(answer)
    async with open_stage(an_agent(look, model=model)) as stage:
        await stage.send("look")
        await stage.run_next()
        step = asyncio.create_task(call_tool(stage.deps, stage.taken()))
        await reading.wait()

        reply = await stage.send("something else", delivery="steer")
        assert reply["delivered_as"] == "steer"
        assert not step.done()
        go_on.set()
        await stage.clock.run(asyncio.wait({step}))
        await stage.run_all()

        types = await stage.event_types()
        assert types.count("turn_steered") == 1
        assert (await stage.transcript())[-1] == ("assistant", "other")
        assert any("look (succeeded)" in item.text for item in model.requests[-1].messages if hasattr(item, "text"))


# --- what dies -------------------------------------------------------------------------------------------------


async def test_what_viewers_saw_of_a_stopped_answer_survives_the_death_of_its_worker() -> None:
    # U-4: partial text is taken from the progress, so it survives a crash of the handler
    model = HangingModel(ReasoningDelta("hm"), TextDelta("Once upon "), TextDelta("a time"))
    async with open_stage(an_agent(model=model)) as stage:
        await stage.send("tell me a story")
        step = asyncio.create_task(run_model(stage.deps, stage.taken()))
        await model.waiting.wait()
        step.cancel()  # the process is gone
        await asyncio.gather(step, return_exceptions=True)
        await stage.stop()
        await stage.clock.advance(130)

        await sweep_session(stage.deps, KEY)

        snapshot = await stage.snapshot()
        assert snapshot["messages"][-1]["status"] == "interrupted"
        assert snapshot["messages"][-1]["parts"][-1] == {"type": "text", "text": "Once upon a time"}
        assert snapshot["state"]["status"] == "waiting_for_user_message"


async def test_a_stop_cuts_the_text_that_the_screen_had_not_shown_yet() -> None:
    # STOP-05
    model = HangingModel(TextDelta("Once upon "), TextDelta("a time"), TextDelta(", long ago"))
    async with open_stage(an_agent(model=model)) as stage:
        await stage.send("tell me a story")
        step = asyncio.create_task(run_model(stage.deps, stage.taken()))
        await model.waiting.wait()
        shown = [event for event in await stage.events() if event["type"] == "text_delta"][1]

        assert await stage.stop(frontier=shown["cursor"]) == {"result": "recorded"}
        await stage.clock.run(asyncio.wait({step}))

        (partial,) = (await stage.snapshot())["messages"][1:]
        assert partial["parts"] == [{"type": "text", "text": "Once upon a time"}]
        assert "long ago" in str([entry.messages for entry in await stage.entries()])


@pytest.mark.parametrize("ends", ["reconnect", "worker dies"])
async def test_a_stop_keeps_nothing_of_an_answer_that_began_anew_behind_what_the_screen_showed(ends: str) -> None:
    # STOP-05: how much was shown of the answer before is no measure for this one
    model = TwiceAsked()
    async with open_stage(an_agent(model=model)) as stage:
        await stage.send("tell me a story")
        step = asyncio.create_task(run_model(stage.deps, stage.taken()))
        await model.said[0].wait()
        await stage.clock.settle()
        shown = [event for event in await stage.events() if event["type"] == "text_delta"][-1]
        if ends == "reconnect":
            model.go_on.set()
        else:
            step.cancel()  # the process is gone
            await asyncio.gather(step, return_exceptions=True)
            await stage.clock.advance(130)
            await sweep_session(stage.deps, KEY)
            step = asyncio.create_task(run_model(stage.deps, stage.taken()))
        await stage.clock.advance(1)
        await model.said[1].wait()

        assert await stage.stop(frontier=shown["cursor"]) == {"result": "recorded"}
        await stage.clock.run(asyncio.wait({step}))

        assert "Bonjour" in str([entry.messages for entry in await stage.entries()])
        assert "Bonj" not in str((await stage.snapshot())["messages"])


class TwiceAsked:
    """Streams "Hello", and when it is asked again "Bonjour". The first stream breaks once `go_on` is set."""

    provider = "stub"
    model = "stub"

    def __init__(self) -> None:
        self._asked = 0
        self.said = (asyncio.Event(), asyncio.Event())
        self.go_on = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta]:
        number, self._asked = self._asked, self._asked + 1
        yield TextDelta(("Hello", "Bonjour")[number])
        self.said[number].set()
        await self.go_on.wait() if number == 0 else await asyncio.Event().wait()
        raise failing()


# --- credentials -----------------------------------------------------------------------------------------------


class Locked(Provider):
    """A provider that takes one key only."""

    key = "old"

    def credential_version(self) -> str:
        return self.key


async def test_the_sweep_goes_on_with_a_blocked_session_once_its_model_has_another_key() -> None:
    # RETRY-05, U-6
    clock = VirtualClock()
    model = Locked(clock, failing("auth", retryable=False, status=401), "Welcome back.")
    async with open_stage(an_agent(model=model), clock=clock) as stage:
        await stage.send("hi")
        await stage.run_all()
        await stage.send("and?")
        state = (await stage.snapshot())["state"]
        assert (state["held"], state["blocked_reason"]) == (True, "auth")

        await clock.advance(90)
        assert await stage.store.sessions_due(clock.now(), 10) == [KEY]
        await sweep_session(stage.deps, KEY)
        assert (await stage.head()).turn is None
        assert await stage.store.sessions_due(clock.now(), 10) == []

        model.key = "new"
        await clock.advance(120)
        await sweep_session(stage.deps, KEY)
        await stage.run_all()

        assert (await stage.transcript())[-1] == ("assistant", "Welcome back.")
