"""Conversations over the deployed HTTP API, with tokens of a local issuer and a model over HTTP."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from perdure.errors import ForbiddenError, UnauthorizedError
from perdure.testing.processes import poll_until
from tests.e2e.outside import MODEL_KEY, SLOWLY
from tests.e2e.people import User, answered, asked, ended, last_text
from tests.e2e.world import World

T1 = 'call lookup_order {"order_id": "7"}'
REFUND = 'call refund_order {"order_id": "%s", "amount": %s}'


FAR = "far"
"""A session whose deadline `test_later` looks at."""


async def begin_far(world: World) -> None:
    """Let a session wait for a decision whose deadline only a schedule can keep."""
    async with world.user().session(FAR, agent="patient") as session:
        await session.send(REFUND % (9, 34.2), idempotency_key="begin")
        await asked(session)
        world.begun.add(FAR)


def schedules(world: World) -> list[str]:
    """Return the names of the schedules in the stack's group."""
    group = world.stack.ids["TimersScheduleGroup"]
    found = world.stack.client("scheduler").list_schedules(GroupName=group)["Schedules"]
    return sorted(schedule["Name"] for schedule in found)


def refunds(world: World, order_id: str) -> list[float]:
    """Return what the shop has really paid back for an order; every function writes into the same books."""
    books = world.emulator.temporary / "perdure-shop.jsonl"
    lines = books.read_text(encoding="utf-8").splitlines() if books.exists() else []
    entries = [json.loads(line) for line in lines]
    return [entry["amount"] for entry in entries if entry["order_id"] == order_id and "amount" in entry]


async def test_a_question_is_looked_up_and_answered(world: World) -> None:
    async with world.user().session("t1") as session:
        await session.send(T1)
        snapshot = await ended(session)

    assert "walking boots" in last_text(snapshot)
    assert [call["status"] for call in snapshot["tool_calls"]] == ["succeeded"]
    assert snapshot["usage"]["model_calls"] == 2
    assert world.outside.model_keys() == {f"Bearer {MODEL_KEY}"}


async def test_the_same_input_sent_twice_is_one_message(world: World) -> None:
    async with world.user().session("twice") as session:
        first, second = await asyncio.gather(*(session.send("hello", idempotency_key="one") for _ in range(2)))
        snapshot = await ended(session)

    assert first.message_id == second.message_id
    assert sorted([first.duplicate, second.duplicate]) == [False, True]
    assert [message["role"] for message in snapshot["messages"]] == ["user", "assistant"]


async def test_two_tools_that_are_asked_for_at_once_both_run(world: World) -> None:
    async with world.user().session("parallel") as session:
        await session.send('call lookup_order {"order_id": "1"}\ncall lookup_order {"order_id": "2"}')
        snapshot = await ended(session)

    assert "espresso cups" in last_text(snapshot)
    assert "desk lamp" in last_text(snapshot)
    assert [call["status"] for call in snapshot["tool_calls"]] == ["succeeded", "succeeded"]
    assert snapshot["usage"]["model_calls"] == 2


async def test_what_a_person_approves_runs_once_and_what_a_person_declines_never(world: World) -> None:
    async with world.user().session("approve") as session:
        await session.send(REFUND % (5, 18.75))
        interrupt = await asked(session)
        assert refunds(world, "5") == []
        await session.resolve(interrupt, approved=True)
        snapshot = await ended(session)
        assert "Refunded 18.75 euros" in last_text(snapshot)

        await session.send(REFUND % (1, 24.5))
        await session.resolve(await asked(session), approved=False, message="not this one")
        snapshot = await ended(session, turns=2)

    assert [call["status"] for call in snapshot["tool_calls"]] == ["rejected"]
    assert refunds(world, "5") == [18.75]
    assert refunds(world, "1") == []


async def test_a_decision_that_comes_too_late_is_made_by_the_deadline(world: World) -> None:
    async with world.user().session("hasty", agent="hasty") as session:
        await session.send(REFUND % (2, 79))
        interrupt = await asked(session)
        waiting = await session.snapshot()
        snapshot = await ended(session)

    assert waiting["pending_interrupts"][0]["deadline"]
    assert interrupt == waiting["pending_interrupts"][0]["interrupt_id"]
    assert [call["status"] for call in snapshot["tool_calls"]] == ["rejected"]
    assert refunds(world, "2") == []


async def test_a_deadline_beyond_a_messages_delay_is_a_schedule(world: World) -> None:
    user = world.user()
    await begin_far(world)
    (begun,) = schedules(world)
    async with user.session("decided-early", agent="patient") as session:
        await session.send(REFUND % (10, 27))
        interrupt = await asked(session)
        await poll_until(lambda: len(schedules(world)) == 2)
        await session.resolve(interrupt, approved=True)
        snapshot = await ended(session)

    assert "Refunded 27.00 euros" in last_text(snapshot)
    assert schedules(world) == [begun], "a decision removes its schedule"


async def test_a_stop_in_mid_stream_ends_the_turn_and_the_request_to_the_model(world: World) -> None:
    departures = world.outside.model_departures()
    async with world.user().session("stop") as session:
        await session.send(SLOWLY)
        async for event in session.events(follow=True):
            if event.type == "text_delta":
                break
        started = time.monotonic()
        assert (await session.stop())["result"] == "recorded"
        snapshot = await ended(session)
        took = time.monotonic() - started

        await session.send("and now?")
        later = await ended(session, turns=2)

    assert took < 10, "the answer alone would have taken 15 s"
    assert snapshot["state"]["status"] == "waiting_for_user_message"
    await poll_until(lambda: world.outside.model_departures() == departures + 1)
    assert "You said: and now?" in last_text(later)


async def test_an_output_too_large_for_the_table_comes_back_whole(world: World) -> None:
    async with world.user().session("large") as session:
        await session.send('call read_archive {"kilobytes": 600}')
        snapshot = await ended(session)
        bucket = world.stack.outputs["BodiesBucketName"]
        objects = world.stack.client("s3").list_objects_v2(Bucket=bucket).get("Contents", [])

    assert any(entry["Size"] > 300 * 1024 for entry in objects)
    assert [call["status"] for call in snapshot["tool_calls"]] == ["succeeded"]
    sent = world.outside.model_requests()[-1]["messages"]
    assert len(str(next(message["content"] for message in sent if message["role"] == "tool"))) == 600 * 1024


async def test_twenty_sessions_at_once_are_all_answered(world: World) -> None:
    user = world.user()

    async def talk(number: int) -> str:
        async with user.session(f"crowd-{number}") as session:
            question = f'call lookup_order {{"order_id": "{number % 10 + 1}"}}'
            # Twenty processes begin on two cores: a first answer may take longer than a client waits.
            await answered(lambda: session.send(question, idempotency_key=f"crowd-{number}"))
            # Twenty that look as often as one would take the two cores from what they wait for.
            return last_text(await ended(session, interval_seconds=4))

    answers = await asyncio.gather(*(talk(number) for number in range(20)))
    async with user.client() as client:
        listed = await answered(lambda: client.sessions(limit=200))

    assert [f'"order_id": "{n % 10 + 1}"' in text for n, text in enumerate(answers)] == [True] * 20
    assert {f"crowd-{number}" for number in range(20)} <= {entry["session_id"] for entry in listed["sessions"]}


# --- who may call ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("why", "claims"),
    [
        ("expired", {"exp": int(time.time()) - 60}),
        ("for another audience", {"aud": "somebody-else"}),
        ("of another issuer", {"iss": "https://elsewhere.example/"}),
    ],
)
async def test_a_token_that_is_not_good_is_refused_by_the_gateway(world: World, why: str, claims: dict) -> None:
    async with world.user(**claims).session("t1") as session:
        with pytest.raises(UnauthorizedError):
            await session.snapshot()


async def test_nobody_and_a_forger_are_refused_by_the_gateway(world: World) -> None:
    for token in ("", world.outside.issuer.forged()):
        async with User(world.stack, world.outside, token).http() as http:
            assert (await http.get("/v1/sessions")).status_code == 401


async def test_a_token_without_a_tenant_is_forbidden(world: World) -> None:
    async with world.user(tenant=None).session("t1") as session:
        with pytest.raises(ForbiddenError):
            await session.snapshot()


async def test_another_tenant_sees_an_empty_session_under_the_same_id(world: World) -> None:
    async with world.user(tenant="rival").session("t1") as session:
        snapshot = await session.snapshot()

    assert snapshot["state"] is None
    assert snapshot["messages"] == []


async def test_health_and_description_need_no_token(world: World) -> None:
    async with User(world.stack, world.outside, "").http() as http:
        health = await http.get("/healthz")
        description = await http.get("/openapi.json")

    assert health.status_code == 200
    assert "/v1/sessions/{session_id}/inputs" in description.json()["paths"]
