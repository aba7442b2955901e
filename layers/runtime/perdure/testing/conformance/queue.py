"""What `StepQueue` promises."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure.core.expected import Dispatch
from perdure.ports import SessionKey
from perdure.testing.conformance.builders import A_SESSION, NOON
from perdure.testing.conformance.delivery import Came, Delivery

pytestmark = pytest.mark.asyncio

MODEL_STEP = Dispatch(kind="run_model", step_id="model-1-0", attempt=1)
A_MOMENT = timedelta(milliseconds=1)


async def test_a_step_that_is_ready_comes_out_at_once_with_its_ids(delivery: Delivery) -> None:
    await delivery.queue.send(A_SESSION, MODEL_STEP)

    await delivery.until(NOON)

    assert delivery.steps == [Came(NOON, A_SESSION, "model-1-0", 1, "run_model")]


async def test_every_kind_of_step_comes_out_as_what_it_is(delivery: Delivery) -> None:
    kinds = ("run_model", "call_tool", "call_single_attempt_tool", "poll_tool_task", "cancel_tool_task", "write_title")

    for kind in kinds:
        await delivery.queue.send(A_SESSION, Dispatch(kind=kind, step_id=f"{kind}-step", attempt=2))
    await delivery.until(NOON)

    assert {(came.kind, came.name, came.number) for came in delivery.steps} == {(k, f"{k}-step", 2) for k in kinds}


@pytest.mark.parametrize(
    "delay", [timedelta(milliseconds=300), timedelta(seconds=14), timedelta(seconds=900), timedelta(minutes=40)]
)
async def test_a_step_never_comes_out_before_its_time_and_soon_after_it(delivery: Delivery, delay: timedelta) -> None:
    await delivery.queue.send(
        A_SESSION, Dispatch(kind="call_tool", step_id="call-2-0", attempt=2, not_before=NOON + delay)
    )

    await delivery.until(NOON + delay - A_MOMENT)
    early = list(delivery.steps)
    await delivery.until(NOON + delay + timedelta(seconds=1))

    assert early == []
    assert [(came.name, came.number) for came in delivery.steps] == [("call-2-0", 2)]


async def test_a_step_that_is_sent_twice_comes_out_at_least_once(delivery: Delivery) -> None:
    await delivery.queue.send(A_SESSION, MODEL_STEP)
    await delivery.queue.send(A_SESSION, MODEL_STEP)

    await delivery.until(NOON)

    assert {(came.key, came.name, came.number) for came in delivery.steps} == {(A_SESSION, "model-1-0", 1)}


@pytest.mark.parametrize("tenant", ["", "acme/eu#1", "Grüße 🌍 \x00\ufffe", "t" * 500])
async def test_a_tenant_with_any_name_comes_out_as_it_was_sent(delivery: Delivery, tenant: str) -> None:
    key = SessionKey(tenant, "s.1:a-B_2")

    await delivery.queue.send(key, MODEL_STEP)
    await delivery.until(NOON)

    assert [came.key for came in delivery.steps] == [key]
