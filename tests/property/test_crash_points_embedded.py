"""A crash before and after every single port call, and a lost answer of the store at each, lead to the same end.

Every call of the undisturbed run is swept, none is sampled. On AWS the same is done in `tests/handlers`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from perdure import ToolContext, function_tool
from perdure.agents.definition import AgentDefinition
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results
from perdure.testing.clock import VirtualClock
from tests.property.crashing import Fault, World, open_world


@dataclass
class Told:
    """What a run left behind."""

    transcript: list[tuple[str, str]]
    results: dict[str, tuple[str, str]]
    outcome: str
    ran: Counter[str]
    keys: dict[str, set[str]]


@dataclass
class Tools:
    """Tools that count how often their bodies ran."""

    ran: Counter[str] = field(default_factory=Counter)
    keys: dict[str, set[str]] = field(default_factory=dict)

    def make(self, name: str, effect: Any, *, asks: bool = False) -> Any:
        @function_tool(name=name, effect=effect, requires_approval=asks)
        async def body(context: ToolContext) -> str:
            self.ran[name] += 1
            self.keys.setdefault(name, set()).add(context.idempotency_key)
            return f"{name} is done"

        return body


LONG_ANSWER = "a long answer " * 5

Script = Callable[[World], Awaitable[None]]


@dataclass(frozen=True)
class Scenario:
    """An agent, and what a person does with it."""

    agent: Callable[[Tools, VirtualClock], AgentDefinition]
    script: Script


def _asking_for(*names: str) -> ScriptedModel:
    return ScriptedModel(lambda request: "Done." if tool_results(request) else Reply(calls=tuple(map(call, names))))


def _agent(model: ScriptedModel, *tools: Any) -> AgentDefinition:
    return AgentDefinition(name="support", model=model, tools=tools)


async def _one_message(world: World) -> None:
    await world.ask(lambda stage: stage.send("go", idempotency_key="k1"))
    await world.work()


async def _one_message_and_an_approval(world: World) -> None:
    await _one_message(world)
    pending = (await world.real.snapshot())["pending_interrupts"]
    await world.ask(lambda stage: stage.approve(pending[0]["interrupt_id"], idempotency_key="k2"))
    await world.work()


async def _a_stop_in_mid_answer(world: World) -> None:
    await world.ask(lambda stage: stage.send("go", idempotency_key="k1"))
    await world.ask(lambda stage: stage.stop(idempotency_key="k2"), meanwhile=5.0)
    await world.work()


SCENARIOS = {
    "one read": Scenario(lambda tools, _: _agent(_asking_for("look"), tools.make("look", "read")), _one_message),
    "a write that a person approves": Scenario(
        lambda tools, _: _agent(_asking_for("pay"), tools.make("pay", "non_idempotent_write", asks=True)),
        _one_message_and_an_approval,
    ),
    "a stop in the middle of an answer": Scenario(
        lambda _, clock: _agent(ScriptedModel(lambda _: LONG_ANSWER, delay=timedelta(seconds=2), clock=clock)),
        _a_stop_in_mid_answer,
    ),
    "two tools at once": Scenario(
        lambda tools, _: _agent(
            _asking_for("look", "store"), tools.make("look", "read"), tools.make("store", "idempotent_write")
        ),
        _one_message,
    ),
}


async def _told(scenario: Scenario, fault: Fault, *, at_once: bool = True) -> Told:
    tools, clock = Tools(), VirtualClock()
    async with open_world(scenario.agent(tools, clock), fault, at_once=at_once, clock=clock) as world:
        await scenario.script(world)

        stage = world.real
        events = await stage.events()
        sequences = [event["sequence"] for event in events if "sequence" in event]
        assert sequences == list(range(1, len(sequences) + 1))
        finished = Counter(e["payload"]["tool_call_id"] for e in events if e["type"] == "tool_call_finished")
        assert set(finished.values()) <= {1}, "a call has two results"
        snapshot = await stage.snapshot()
        assert snapshot["state"]["status"] == "waiting_for_user_message"
        assert snapshot["state"]["turn_count"] == 1
        head = await stage.head()
        assert head.last_turn is not None
        return Told(await stage.transcript(), await stage.results(), head.last_turn.outcome, tools.ran, tools.keys)


def _check(told: Told, clean: Told, fault: Fault) -> None:
    assert told.outcome == clean.outcome
    assert all(len(keys) == 1 for keys in told.keys.values()), "an attempt had another idempotency key"
    assert told.ran["pay"] <= 1, "a tool that runs once ran twice"
    if told.results.get("pay", ("", ""))[0] == "outcome_unknown":  # said out loud, and only after a start
        assert fault.crash
        return
    if clean.outcome == "cancelled":
        assert told.transcript[:1] == [("user", "go")]  # and what of the answer had been shown, if it is still known
        assert all(role == "assistant" and LONG_ANSWER.startswith(text) for role, text in told.transcript[1:])
        return
    assert sorted(told.transcript) == sorted(clean.transcript)  # results come in the order in which the tools end
    assert told.results == clean.results
    assert set(told.ran) == set(clean.ran)


FAULTS: dict[str, Any] = {
    "the process dies before": {"crash": True, "landed": False},
    "the process dies after": {"crash": True, "landed": True},
    "the store is silent before": {"crash": False, "landed": False},
    "the store is silent after": {"crash": False, "landed": True},
}


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # the dead send nothing
@pytest.mark.parametrize("at_once", [True, False], ids=["restart", "sweep only"])
@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_fault_at_any_port_call_leads_to_the_same_end(name: str, kind: str, at_once: bool) -> None:
    scenario = SCENARIOS[name]
    counting = Fault(crash=FAULTS[kind]["crash"])
    clean = await _told(scenario, counting)
    assert len(counting.calls) > 10
    for at in range(1, len(counting.calls) + 1):
        fault = Fault(at=at, **FAULTS[kind])
        try:
            told = await _told(scenario, fault, at_once=at_once)
            assert fault.hit
            _check(told, clean, fault)
        except BaseException as error:
            error.add_note(f"at call {at}, {counting.calls[at - 1]}")
            raise
