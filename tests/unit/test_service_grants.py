"""Approving ahead, and giving values, as an application does (Beyond 4, APPR-15)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.agents.step import InstructionContext
from perdure.agents.tools import function_tool
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results, user_texts
from perdure.service import LOCAL_CALLER
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.steps.builders import OTHER, an_agent

IN_ALL = {"lasts_seconds": 3600, "fields": ["order"]}


@function_tool(effect="non_idempotent_write")
def pay(order: str, amount: int) -> str:
    return f"paid {order} {amount}"


def paying() -> ScriptedModel:
    """A model that pays for the order that the user names, with the amount that they name."""

    def reply(request: Any) -> str | Reply:
        if tool_results(request):
            return "done"
        order, amount = user_texts(request)[-1].split()
        return Reply(calls=(call("pay", order=order, amount=int(amount)),))

    return ScriptedModel(reply)


async def asked(stage: Stage, text: str) -> list[str]:
    """Send a message and run; returns the ids of what a person has to decide then."""
    await stage.send(text)
    await stage.run_all()
    return [each["interrupt_id"] for each in (await stage.snapshot())["pending_interrupts"]]


async def test_calls_like_the_approved_one_are_not_asked_about_until_it_is_revoked() -> None:
    async with open_stage(an_agent(pay, model=paying())) as stage:
        (first,) = await asked(stage, "7 5")
        await stage.session().resolve(first, approved=True, grant=IN_ALL)
        await stage.run_all()

        assert await asked(stage, "7 900") == []
        assert (await stage.results())["pay"] == ("succeeded", "paid 7 900")
        (grant,) = (await stage.snapshot())["state"]["grants"]
        assert (grant["tool_name"], grant["fields"]) == ("pay", ["order"])
        await stage.session().revoke_grant(grant["grant_id"])
        assert len(await asked(stage, "7 1")) == 1


async def test_with_changed_arguments_it_is_those_that_are_approved_ahead() -> None:
    async with open_stage(an_agent(pay, model=paying())) as stage:
        (first,) = await asked(stage, "7 5")
        shown = (await stage.snapshot())["pending_interrupts"][0]["arguments_hash"]
        changed = {"order": "8", "amount": 5}
        await stage.session().resolve(first, approved=True, arguments_hash=shown, arguments=changed, grant=IN_ALL)
        await stage.run_all()

        assert await asked(stage, "8 1") == []
        assert len(await asked(stage, "7 1")) == 1


@pytest.mark.parametrize(
    ("grant", "complaint"),
    [
        ({}, "lasts_seconds"),
        ({"lasts_seconds": 31 * 86400}, "30 days"),
        ({"lasts_seconds": 10**30}, "30 days"),
        ({"lasts_seconds": True}, "whole numbers"),
        ({"lasts_seconds": 60, "max_uses": 10**40}, "at most 1000000 times"),
        ({"lasts_seconds": 60, "fields": [["order"]]}, "names of arguments"),
        ({"lasts_seconds": 60, "fields": ["colour"]}, "'colour'"),
        ({"lasts_seconds": 60, "fields": "order"}, "list of names"),
        ({"lasts_seconds": 60, "max_uses": 0}, "once at least"),
        ({"lasts_seconds": 60, "who": "me"}, "lasts_seconds"),
    ],
)
async def test_a_grant_that_is_none_is_refused_and_nothing_is_decided(grant: dict[str, Any], complaint: str) -> None:
    async with open_stage(an_agent(pay, model=paying())) as stage:
        (first,) = await asked(stage, "7 5")

        with pytest.raises(InvalidRequestError, match=complaint):
            await stage.session().resolve(first, approved=True, grant=grant)

        assert len((await stage.snapshot())["pending_interrupts"]) == 1


async def test_a_field_that_is_named_again_is_kept_once() -> None:
    async with open_stage(an_agent(pay, model=paying())) as stage:
        (first,) = await asked(stage, "7 5")
        await stage.session().resolve(first, approved=True, grant=IN_ALL | {"fields": ["order"] * 5000})

        assert (await stage.snapshot())["state"]["grants"][0]["fields"] == ["order"]


async def test_a_rejection_grants_nothing_and_nobody_else_grants_or_revokes() -> None:
    async with open_stage(an_agent(pay, model=paying())) as stage:
        (first,) = await asked(stage, "7 5")

        with pytest.raises(InvalidRequestError, match="goes with"):
            await stage.session().resolve(first, approved=False, grant=IN_ALL)
        with pytest.raises(NotFoundError):
            await stage.service.resolve_interrupt(OTHER, "s-1", first, approved=True, grant=IN_ALL)
        with pytest.raises(NotFoundError):
            await stage.service.revoke_grant(OTHER, "s-1", "grant-3-0")


# --- values --------------------------------------------------------------------------------------------------------


async def test_a_value_that_people_give_is_there_for_the_instructions_alone() -> None:
    seen: list[Any] = []

    def instructions(context: InstructionContext) -> str:
        seen.append(dict(context.values))
        return "Help."

    model = ScriptedModel(lambda request: f"{len(request.messages)} messages")
    async with open_stage(an_agent(model=model, instructions=instructions)) as stage:
        session = stage.session()
        await stage.send("hello")
        await stage.run_all()
        made = await session.request_value("address", "Where to?", schema={"type": "object"})
        (pending,) = (await stage.snapshot())["pending_interrupts"]
        assert pending == {
            "interrupt_id": made["interrupt_id"],
            "kind": "input",
            "question": "Where to?",
            "schema": {"type": "object"},
        }

        await session.give(made["interrupt_id"], {"street": "1 Road"})
        await stage.send("and now?")
        await stage.run_all()

        assert seen == [{}, {"address": {"street": "1 Road"}}]
        assert "Road" not in str(await stage.transcript())
        with pytest.raises(RequestConflictError) as second:
            await session.give(made["interrupt_id"], "again")
        assert second.value.code == "not_pending"
        with pytest.raises(NotFoundError):
            await session.give("input:never", "x")


async def test_a_request_ends_by_its_deadline_or_by_whoever_asked() -> None:
    async with open_stage(an_agent()) as stage:
        session = stage.session()
        await stage.send("hello")
        await stage.run_all()
        await session.request_value("a", "A?", deadline=timedelta(hours=1))
        await session.request_value("b", "B?")

        await session.withdraw_request("b")
        assert await stage.skip_timers() == 1
        for name, code in (("a", "deadline_passed"), ("b", "not_pending")):
            with pytest.raises(RequestConflictError) as refused:
                await session.give(f"input:{name}", 1)
            assert refused.value.code == code

        assert (await stage.snapshot())["pending_interrupts"] == []
        endings = [e["payload"] for e in await stage.events() if e["type"] == "interrupt_resolved"]
        assert [e.get("cancellation_reason") or e.get("rejection_message") for e in endings] == [
            "withdrawn",
            "question deadline passed",
        ]


@pytest.mark.parametrize(
    ("name", "more", "complaint"),
    [
        ("", {}, "1 to 64"),
        ("a:b", {}, "colon"),
        ("a", {"prompt": " "}, "blank"),
        ("a", {"prompt": "x" * 4001}, "prompt is longer than 4000"),
        ("a", {"deadline": timedelta(days=366)}, "365 days"),
        ("a", {"schema": {"x": "y" * 20_000}}, "schema"),
    ],
)
async def test_a_request_that_is_none_is_refused(name: str, more: dict[str, Any], complaint: str) -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hello")
        with pytest.raises(InvalidRequestError, match=complaint):
            await stage.service.request_value(LOCAL_CALLER, "s-1", name, **{"prompt": "?"} | more)


async def test_a_value_that_is_too_large_or_comes_with_a_decision_is_refused() -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hello")
        made = await stage.session().request_value("a", "A?")
        decide = stage.service.resolve_interrupt

        with pytest.raises(InvalidRequestError, match="262144 bytes"):
            await decide(LOCAL_CALLER, "s-1", made["interrupt_id"], value="x" * 262_144)
        with pytest.raises(InvalidRequestError, match="exactly one"):
            await decide(LOCAL_CALLER, "s-1", made["interrupt_id"], value=1, approved=True)
        with pytest.raises(InvalidRequestError, match="send `value`"):
            await decide(LOCAL_CALLER, "s-1", made["interrupt_id"], answer="1 Road")
