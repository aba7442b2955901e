"""What `Results` promises. Only adapters whose commits of one session may race have this port."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from perdure.core.commands import ToolFinished
from perdure.ports import Results, SessionKey
from perdure.testing.conformance.builders import A_SESSION, NOON

pytestmark = pytest.mark.asyncio


def a_result(
    call_id: str = "call-2-0", *, turn_id: str = "turn-1", attempt: int = 1, output: str = "7"
) -> ToolFinished:
    return ToolFinished(
        turn_id=turn_id, call_id=call_id, attempt=attempt, started_at=NOON, outcome="succeeded", output=output
    )


def in_order(results: Sequence[ToolFinished]) -> list[ToolFinished]:
    return sorted(results, key=lambda result: (result.call_id, result.attempt))


async def test_a_turn_without_outcomes_has_none(results: Results) -> None:
    assert list(await results.of_turn(A_SESSION, "turn-1")) == []


@pytest.mark.parametrize(
    "output", ["7", "", '{"a": [1.5, null, "é"]}', "🙂 \n\x00\u2028", "long " * 12_000], ids=lambda output: output[:5]
)
async def test_an_outcome_comes_back_as_it_was_put(results: Results, output: str) -> None:
    put = replace(a_result(output=output), outcome="error")

    await results.put(A_SESSION, put)

    assert list(await results.of_turn(A_SESSION, "turn-1")) == [put]


async def test_an_outcome_that_is_put_again_stays_what_it_was_first(results: Results) -> None:
    await results.put(A_SESSION, a_result(output="first"))
    await results.put(A_SESSION, a_result(output="first"))
    await results.put(A_SESSION, a_result(output="second"))

    assert [result.output for result in await results.of_turn(A_SESSION, "turn-1")] == ["first"]


async def test_each_attempt_of_a_call_has_an_outcome_of_its_own(results: Results) -> None:
    both = [a_result(attempt=1), a_result(attempt=2, output="8")]
    for result in both:
        await results.put(A_SESSION, result)

    assert in_order(await results.of_turn(A_SESSION, "turn-1")) == both


async def test_a_turn_has_the_outcomes_of_no_other_turn_and_no_other_session(results: Results) -> None:
    mine = a_result("call-2-0")
    await results.put(A_SESSION, mine)
    await results.put(A_SESSION, a_result("call-12-0", turn_id="turn-10"))
    await results.put(SessionKey(A_SESSION.tenant, "s-2"), a_result("call-2-1"))
    await results.put(SessionKey("another", A_SESSION.session_id), a_result("call-2-2"))

    assert list(await results.of_turn(A_SESSION, "turn-1")) == [mine]


async def test_sixty_four_outcomes_that_are_put_at_once_are_all_there_for_whoever_looks_next(results: Results) -> None:
    put = [a_result(f"call-2-{number:02}", output=f"result {number} " * 200) for number in range(64)]

    await asyncio.gather(*(results.put(A_SESSION, result) for result in put))

    assert in_order(await results.of_turn(A_SESSION, "turn-1")) == put
