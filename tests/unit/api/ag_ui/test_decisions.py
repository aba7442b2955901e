"""POST /v1/ag-ui: what people are asked ends a run, and their decisions begin the next."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure import ToolPolicy
from perdure.service import LOCAL_CALLER
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.api.ag_ui.runs import (
    AgUiClient,
    Desk,
    cancelled,
    desk_model,
    resolved,
    said_in,
    warnings,
)
from tests.unit.streams.ag_ui_client import Screen, words

JsonObject = dict[str, Any]


async def test_a_run_that_needs_a_person_ends_and_the_next_one_goes_on(client: AgUiClient, desk: Desk) -> None:
    asked = await client.says("both").run()
    (interrupt,) = asked[-1]["outcome"]["interrupts"]
    assert desk.refunds == []

    events = await client.resume(resolved(interrupt["id"], approved=True))

    assert desk.refunds == ["7"]
    assert client.screen.shown == [
        ("user", "both"),
        ("assistant", "One moment.", 'look_up({"order":"7"})', 'refund({"order":"7"})'),
        ("tool", "order 7 is on its way"),
        ("tool", "paid 7"),
        ("assistant", "So: paid 7"),
    ]
    assert not [event for event in events if event["type"] == "TOOL_CALL_START"]


async def test_a_run_waits_for_what_still_runs_before_it_asks(client: AgUiClient) -> None:
    events = await client.says("both").run()

    assert [w for w in words(events) if w.startswith(("RESULT", "RUN"))][1:] == [
        "RESULT message-3-0 call-2-0 order 7 is on its way",
        "RUN_FINISHED",
    ]


@pytest.mark.parametrize(
    "decision",
    [{"status": "cancelled"}, {"status": "resolved", "payload": {"approved": False, "message": "not now"}}],
)
async def test_a_rejected_or_cancelled_approval_runs_nothing(
    client: AgUiClient, desk: Desk, decision: JsonObject
) -> None:
    (interrupt,) = (await client.says("refund").run())[-1]["outcome"]["interrupts"]

    await client.resume({"interruptId": interrupt["id"], **decision})

    assert desk.refunds == []
    result = client.screen.messages[-2]
    assert result["metadata"] == {"perdure": {"status": "rejected"}}
    assert ("not now" in result["content"]) == ("payload" in decision)


async def test_a_call_runs_with_the_arguments_that_a_person_edited(client: AgUiClient, desk: Desk) -> None:
    (interrupt,) = (await client.says("refund").run())[-1]["outcome"]["interrupts"]

    await client.resume(resolved(interrupt["id"], approved=True, editedArgs={"order": "8"}))

    assert desk.refunds == ["8"]


async def test_a_question_is_answered_or_declined(client: AgUiClient) -> None:
    (interrupt,) = (await client.says("ask").run())[-1]["outcome"]["interrupts"]
    assert interrupt["message"] == "Which one?"
    await client.resume(resolved(interrupt["id"], answer="red"))
    assert "red" in client.screen.messages[-1]["content"]

    (interrupt,) = (await client.says("ask").run())[-1]["outcome"]["interrupts"]
    await client.resume(cancelled(interrupt["id"]))
    assert client.screen.messages[-1]["role"] == "assistant"


async def test_every_open_interrupt_has_to_be_covered(client: AgUiClient, desk: Desk) -> None:
    first, second = (await client.says("two").run())[-1]["outcome"]["interrupts"]

    status, code, message = await client.refused(resume=[resolved(first["id"], approved=True)])

    assert (status, code) == (400, "invalid_request")
    assert second["id"] in message
    assert first["id"] not in message
    await client.resume(resolved(first["id"], approved=True), cancelled(second["id"]))
    assert desk.refunds == ["7"]


async def test_an_entry_that_nobody_asked_for_is_told_of_and_the_run_goes_on(client: AgUiClient, desk: Desk) -> None:
    (interrupt,) = (await client.says("refund").run())[-1]["outcome"]["interrupts"]

    events = await client.resume(resolved(interrupt["id"], approved=True), resolved("call-99-0", approved=True))

    assert warnings(events) == ["interrupt_not_found"]
    assert desk.refunds == ["7"]
    assert events[-1]["outcome"] == {"type": "success"}


async def test_a_decision_that_somebody_else_made_first_is_told_of(
    client: AgUiClient, stage: Stage, desk: Desk
) -> None:
    (interrupt,) = (await client.says("refund").run())[-1]["outcome"]["interrupts"]
    await stage.approve(interrupt["id"], approved=False)

    events = await client.resume(resolved(interrupt["id"], approved=True))

    assert warnings(events) == ["not_pending"]
    assert desk.refunds == []
    assert events[-1]["outcome"] == {"type": "success"}


async def test_a_resumed_run_is_cut_anywhere_and_run_again(desk: Desk) -> None:
    async def until_asked() -> tuple[Any, AgUiClient, str]:
        context = open_stage(Desk(model=desk_model(chunk=4)).agent)
        stage = await context.__aenter__()
        client = AgUiClient(stage)
        (interrupt,) = (await client.says("both").run())[-1]["outcome"]["interrupts"]
        return context, client, interrupt["id"]

    context, whole, interrupt_id = await until_asked()
    count = len(await whole.resume(resolved(interrupt_id, approved=True)))
    await context.__aexit__(None, None, None)
    for cut in range(0, count, 2):
        context, client, interrupt_id = await until_asked()
        entries = [resolved(interrupt_id, approved=True)]
        seen = await client.run(resume=entries, runId="run-2")
        client.screen = Screen(*client.screen.messages[:3]).take(seen[:cut])

        events = await client.run(resume=entries, runId=f"run-{2 + cut % 4}")

        assert client.screen.messages == whole.screen.messages, f"cut behind event {cut}"
        assert warnings(events) == ([] if cut % 4 == 0 else ["not_pending"])
        await context.__aexit__(None, None, None)


async def test_without_decisions_a_session_that_waits_takes_no_message(client: AgUiClient, stage: Stage) -> None:
    await client.says("refund").run()

    events = await client.says("hurry").run()

    assert warnings(events) == ["message_not_sent"]
    assert [i["id"] for i in events[-1]["outcome"]["interrupts"]] == ["call-2-0"]
    assert await said_in(stage) == ["refund"]

    await client.resume(resolved("call-2-0", approved=True))
    assert await said_in(stage) == ["refund", "hurry"]
    assert client.screen.shown[-1] == ("assistant", "You said: hurry")


async def test_an_approval_says_until_when_it_is_open(desk: Desk) -> None:
    policies = {"refund": ToolPolicy(approval_deadline=timedelta(minutes=5))}
    async with open_stage(Desk(tool_policies=policies).agent) as stage:
        client = AgUiClient(stage)
        (interrupt,) = (await client.says("refund").run())[-1]["outcome"]["interrupts"]
        await stage.clock.advance(301)

        events = await client.resume(resolved(interrupt["id"], approved=True))

    assert interrupt["expiresAt"] == "2026-11-30T12:05:00.000Z"
    assert warnings(events) == ["deadline_passed"]


async def test_a_value_that_an_application_asks_for_is_given_and_holds_up_nothing(
    client: AgUiClient, stage: Stage
) -> None:
    await client.says("hi").run()
    await stage.service.request_value(LOCAL_CALLER, "s-1", "size", prompt="Which size?")

    assert (await client.says("and?").run())[-1]["outcome"] == {"type": "success"}
    events = await client.resume(resolved("input:size", value={"size": 4}))

    assert warnings(events) == []
    assert (await stage.snapshot())["pending_interrupts"] == []


@pytest.mark.parametrize(
    ("text", "payload", "wrong"),
    [
        ("refund", {"answer": "yes"}, "`approved`"),
        ("refund", None, "`approved`"),
        ("refund", {"approved": "yes"}, "true or false"),
        ("refund", {"approved": True, "editedArgs": []}, "an object"),
        ("refund", {"approved": True, "editedArgs": {"order": 8}}, "order"),
        ("ask", {"approved": True}, "`answer`"),
        ("ask", {"answer": "green"}, "choices"),
        ("ask", {"answer": 1}, "a string"),
    ],
)
async def test_a_decision_that_is_none_is_refused(
    client: AgUiClient, text: str, payload: JsonObject | None, wrong: str
) -> None:
    (interrupt,) = (await client.says(text).run())[-1]["outcome"]["interrupts"]
    entry = {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}

    status, code, message = await client.refused(resume=[entry])

    assert (status, code) == (400, "invalid_request")
    assert wrong in message
