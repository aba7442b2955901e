"""The operations: who may see what, what a key makes safe, and how stops are answered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.core.entries import Actor
from perdure.core.head import Head
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError, TooLargeError
from perdure.models.scripted import ScriptedModel, user_texts
from perdure.ports import SessionKey, SessionStore
from perdure.service import LOCAL_CALLER, Caller
from perdure.testing.fixtures import open_stage
from tests.unit.desk import Desk, booking, pending
from tests.unit.steps.builders import HangingModel, an_agent

SAME_TENANT = Caller(tenant="local", actor=Actor(issuer="local", subject="u2"))
SAME_SUBJECT_ELSEWHERE = Caller(tenant="local", actor=Actor(issuer="other", subject="local"))
OTHER_TENANT = Caller(tenant="t2", actor=LOCAL_CALLER.actor)
STRANGERS = [SAME_TENANT, SAME_SUBJECT_ELSEWHERE, OTHER_TENANT]


@pytest.mark.parametrize("stranger", STRANGERS, ids=["same-tenant", "same-subject-other-issuer", "other-tenant"])
async def test_f143_knowing_an_id_gives_nothing(stranger: Caller) -> None:
    desk = Desk()
    async with open_stage(desk.agent(booking("r1"))) as stage:
        mine = await stage.send("go", message_id="m-1", idempotency_key="k-1")
        await stage.run_all()
        before = await stage.snapshot()
        service = stage.service
        attempts: list[Any] = [
            service.resolve_interrupt(stranger, "s-1", "call-2-0", approved=True),
            service.resolve_interrupt(stranger, "s-1", "call-2-0", approved=False, idempotency_key="k-1"),
            service.stop(stranger, "s-1", turn_id="turn-1"),
        ]
        if stranger is not OTHER_TENANT:  # to the other tenant this is another session, never written
            attempts += [
                service.send_input(stranger, "s-1", text="hello"),
                service.send_input(stranger, "s-1", text="go", message_id="m-1", idempotency_key="k-1"),
                service.snapshot(stranger, "s-1"),
                service.messages(stranger, "s-1"),
                service.events(stranger, "s-1"),
                service.events(stranger, "s-1", after=mine["cursor"], wait_seconds=20),
                service.inbox(stranger, "s-1"),
                service.tool_output(stranger, "s-1", "call-2-0"),
            ]
        for attempt in attempts:
            with pytest.raises(NotFoundError) as caught:
                await attempt
            assert caught.value.code == "session_not_found"

        assert (await service.list_sessions(stranger))["sessions"] == []
        assert await stage.snapshot() == before
        assert desk.booked == []


async def test_f143_another_tenant_with_the_same_ids_has_a_session_of_its_own() -> None:
    model = ScriptedModel(lambda request: " | ".join(user_texts(request)))
    async with open_stage(an_agent(model=model)) as stage:
        await stage.send("mine", message_id="m-1", idempotency_key="k-1")
        theirs = await stage.send("theirs", caller=OTHER_TENANT, message_id="m-1", idempotency_key="k-1")
        await stage.run_all()

        assert not theirs["duplicate"]
        shown = await stage.service.snapshot(OTHER_TENANT, "s-1")
        assert [m["parts"][0]["text"] for m in shown["messages"]] == ["theirs", "theirs"]
        assert (await stage.transcript())[-1] == ("assistant", "mine")
        assert len((await stage.service.list_sessions(LOCAL_CALLER))["sessions"]) == 1


async def test_the_owner_is_checked_on_the_state_that_is_decided_on_and_not_on_an_older_one() -> None:
    class Lagging:
        """A store whose quick look has not heard of the session yet."""

        def __init__(self, store: SessionStore) -> None:
            self._store = store

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

        async def peek(self, key: SessionKey) -> Head:
            return Head()

    async with open_stage(an_agent(), wrap_store=Lagging) as stage:
        await stage.send("mine")

        with pytest.raises(NotFoundError):
            await stage.send("theirs", caller=SAME_TENANT)

        assert (await stage.head()).version == 1


async def test_reading_a_session_that_was_never_written_is_empty_and_commanding_it_is_not_found() -> None:
    async with open_stage(an_agent()) as stage:
        assert (await stage.snapshot("new"))["state"] is None
        assert await stage.service.messages(LOCAL_CALLER, "new") == {"messages": []}
        assert await stage.service.inbox(LOCAL_CALLER, "new") == {"entries": []}
        assert (await stage.events("new")) == []
        with pytest.raises(NotFoundError):
            await stage.service.stop(LOCAL_CALLER, "new")
        with pytest.raises(NotFoundError):
            await stage.service.resolve_interrupt(LOCAL_CALLER, "new", "call-2-0", approved=True)


@pytest.mark.parametrize("session_id", ["", "a/b", "a b", "ä", "x" * 129, "s\n"])
async def test_a_malformed_session_id_is_refused_everywhere(session_id: str) -> None:
    async with open_stage(an_agent()) as stage:
        service = stage.service
        for attempt in (
            service.send_input(LOCAL_CALLER, session_id, text="hi"),
            service.snapshot(LOCAL_CALLER, session_id),
            service.events(LOCAL_CALLER, session_id),
            service.stop(LOCAL_CALLER, session_id),
        ):
            with pytest.raises(InvalidRequestError):
                await attempt


async def test_f136_one_message_and_one_turn_however_often_and_from_wherever_it_is_sent() -> None:
    model = ScriptedModel(lambda _: "hello")
    async with open_stage(an_agent(model=model)) as stage:
        again: Any = {"message_id": "m-1", "idempotency_key": "k-1"}
        receipts = list(await asyncio.gather(*(stage.send("hi", **again) for _ in range(2))))
        await stage.run_all()
        receipts.append(await stage.send("hi", **again))
        other = await stage.send("hi", caller=OTHER_TENANT, **again)

        assert {r["turn_id"] for r in receipts} == {"turn-1"}
        assert sorted(r["duplicate"] for r in receipts) == [False, True, True]
        assert len({r["cursor"] for r in receipts}) == 1
        assert not other["duplicate"]
        assert [m["role"] for m in (await stage.snapshot())["messages"]] == ["user", "assistant"]
        assert len(model.requests) == 1


async def test_a_message_id_alone_makes_a_message_unique_too() -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hi", message_id="m-1", idempotency_key="k-1")

        again = await stage.send("hi", message_id="m-1", idempotency_key="k-2")

        assert again["duplicate"]
        with pytest.raises(RequestConflictError) as caught:
            await stage.send("other", message_id="m-1", idempotency_key="k-3")
        assert caught.value.code == "idempotency_mismatch"


@pytest.mark.parametrize(
    "change", [{"text": "bye"}, {"metadata": {"a": 1}}, {"agent": "support"}, {"message_id": "m-2"}], ids=str
)
async def test_the_same_key_with_other_content_is_refused_and_changes_nothing(change: dict[str, Any]) -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hi", idempotency_key="k-1")

        with pytest.raises(RequestConflictError) as caught:
            await stage.send(**({"text": "hi"} | change), idempotency_key="k-1")

        assert caught.value.code == "idempotency_mismatch"
        assert (await stage.head()).version == 1


async def test_a_key_of_one_operation_is_refused_for_another() -> None:
    async with open_stage(Desk().agent(booking("r1"))) as stage:
        await stage.send("go", idempotency_key="k-1")
        await stage.run_all()

        for attempt in (
            stage.stop(idempotency_key="k-1"),
            stage.approve("call-2-0", idempotency_key="k-1"),
        ):
            with pytest.raises(RequestConflictError) as caught:
                await attempt
            assert caught.value.code == "idempotency_mismatch"
        assert len(await pending(stage)) == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"text": " \n"}, "invalid_request"),
        ({"text": "a\ud800"}, "invalid_text"),
        ({"text": "hi", "agent": "nobody"}, "invalid_request"),
        ({"text": "hi", "delivery": "nudge"}, "invalid_request"),
        ({"text": "hi", "message_id": ""}, "invalid_request"),
        ({"text": "hi", "message_id": "x" * 129}, "invalid_request"),
        ({"text": "hi", "message_id": "message-1-0"}, "invalid_request"),
        ({"text": "hi", "idempotency_key": "k" * 257}, "invalid_request"),
        ({"text": "hi", "idempotency_key": ""}, "invalid_request"),
        ({"text": "hi", "metadata": {"x": float("nan")}}, "invalid_request"),
        ({"text": "hi", "metadata": {"x": "y" * 16_380}}, "invalid_request"),
        ({"text": "hi", "metadata": {"x": "\udfff"}}, "invalid_text"),
    ],
)
async def test_bad_input_is_named_and_changes_nothing(arguments: dict[str, Any], code: str) -> None:
    async with open_stage(an_agent()) as stage:
        with pytest.raises(InvalidRequestError) as caught:
            await stage.service.send_input(LOCAL_CALLER, "s-1", **arguments)

        assert caught.value.code == code
        assert (await stage.head()).version == 0
        assert stage.queue.all_sent == []


async def test_any_whole_text_comes_back_as_it_was_sent() -> None:
    text = "\x00 \t\u2028\ufeff \U0001f600 e\u0301 \u202e end \x7f"
    async with open_stage(an_agent(model=ScriptedModel(lambda r: user_texts(r)[-1]))) as stage:
        await stage.send(text, metadata={"note": text})
        await stage.run_all()

        user, answer = (await stage.snapshot())["messages"]
        assert user["parts"] == answer["parts"] == [{"type": "text", "text": text}]
        assert user["metadata"] == {"note": text}


async def test_a_known_session_keeps_its_agent() -> None:
    async with open_stage(an_agent(name="first"), an_agent(name="second")) as stage:
        await stage.send("hi", agent="second")

        with pytest.raises(RequestConflictError) as caught:
            await stage.send("hi", agent="first")
        await stage.send("hi")

        assert caught.value.code == "agent_mismatch"
        assert (await stage.snapshot())["agent"] == "second"


async def test_a_full_inbox_is_refused_with_what_to_do() -> None:
    async with open_stage(an_agent()) as stage:

        async def send_for_ever() -> None:
            for number in range(2000):
                await stage.send("hi", message_id=f"{number:0128}")

        with pytest.raises(TooLargeError, match="wait for its turn to end"):
            await send_for_ever()


async def test_f153_queued_messages_become_turns_in_their_order_each_once() -> None:
    model = ScriptedModel(lambda request: f"re {user_texts(request)[-1]}")
    async with open_stage(an_agent(model=model)) as stage:
        await stage.send("m1")
        queued = [await stage.send(text) for text in ("m2", "m3")]
        first = stage.taken()
        step = stage.run(first)
        await asyncio.gather(step, stage.send("m5"))
        await stage.run(first)  # the drain is delivered twice
        await stage.run_all()

        assert [r.get("turn_id") for r in queued] == [None, None]
        answers = [text for role, text in await stage.transcript() if role == "assistant"]
        assert answers == ["re m1", "re m2", "re m3", "re m5"]


async def test_a_stop_is_answered_by_what_there_is_to_stop() -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")
        await stage.run_all()

        assert await stage.stop() == {"result": "idle"}
        assert await stage.stop(turn_id="turn-1") == {"result": "too_late"}
        assert await stage.stop(turn_id="turn-7") == {"result": "other_turn"}

        await stage.send("again")
        assert await stage.stop(turn_id="turn-1") == {"result": "too_late"}
        assert await stage.stop(turn_id="turn-2") == {"result": "recorded"}
        assert await stage.stop(turn_id="turn-2") == {"result": "already_recorded"}
        await stage.run_all()
        assert await stage.stop(turn_id="turn-2") == {"result": "already_recorded"}


async def test_a_stop_may_name_any_of_the_messages_that_a_turn_began_with() -> None:
    # STOP-08
    async with open_stage(an_agent(model=HangingModel())) as stage:
        await stage.send("by the way", message_id="m-1", delivery="passive")
        await stage.send("go", message_id="m-2")
        await stage.send("more", message_id="m-3", delivery="inject")

        assert await stage.stop(message_id="m-1") == {"result": "recorded"}
        turn = (await stage.head()).turn
        assert turn is not None
        assert turn.stop is not None
        assert [m.message_id for m in (await stage.head()).inbox] == ["m-3"]


async def test_a_stop_with_a_key_that_came_too_late_stays_too_late() -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")
        await stage.run_all()
        assert await stage.stop(idempotency_key="k-1") == {"result": "idle"}
        await stage.send("again")

        assert await stage.stop(idempotency_key="k-1") == {"result": "idle"}

        turn = (await stage.head()).turn
        assert turn is not None
        assert turn.stop is None


async def test_a_repeated_stop_with_its_key_does_not_stop_the_next_turn() -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")
        assert await stage.stop(idempotency_key="k-1") == {"result": "recorded"}
        await stage.run_all()
        await stage.send("again")

        assert await stage.stop(idempotency_key="k-1") == {"result": "recorded"}
        await stage.run_all()

        assert (await stage.event_types())[-1] == "turn_completed"


@pytest.mark.parametrize("arguments", [{"disposition": "burn"}, {"frontier": "x"}, {"frontier": ""}])
async def test_a_wrong_or_unsupported_stop_is_refused_and_what_is_wrong_is_named(arguments: dict[str, Any]) -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")

        with pytest.raises(InvalidRequestError, match=next(iter(arguments))):
            await stage.stop(**arguments)

        assert (await stage.head()).version == 1


async def test_f033_leaving_is_not_stopping_and_a_stop_from_elsewhere_is_seen_by_all() -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")
        viewer = asyncio.create_task(stage.events(after=None, wait_seconds=20))
        await stage.clock.settle()
        viewer.cancel()
        await asyncio.wait({viewer})
        turn = (await stage.head()).turn
        assert turn is not None
        assert turn.stop is None

        await stage.stop()
        await stage.run_all()

        assert (await stage.event_types())[-1] == "turn_cancelled"
