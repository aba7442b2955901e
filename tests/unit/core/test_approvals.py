"""A person decides on a call, or does not decide in time."""

from datetime import timedelta

import pytest

from perdure.core import texts
from perdure.core.ids import content_hash
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError
from tests.unit.core.builders import BOB, Play, a_claim, a_read, a_session, a_single_write, asked_for

HOUR = timedelta(hours=1)


def gated(tool_name: str = "pay", **changes: object) -> Play:
    """Return a session that waits for a person; the call's id is `call-2-0`."""
    play, _ = asked_for(a_single_write(tool_name, gated=True, **changes))
    return play


CALL = "call-2-0"


def test_a_call_that_needs_an_approval_is_recorded_instead_of_run() -> None:
    # APPR-01, APPR-17
    play = gated(approval_deadline=HOUR)

    assert play.dispatches == ()
    assert play.pending == [CALL]
    assert play.last.events[-1].type == "interrupt_raised"
    assert play.last.events[-1].payload == {
        "interrupt_id": CALL,
        "kind": "approval",
        "tool_call_id": CALL,
        "tool_name": "pay",
        "arguments_hash": content_hash({"of": "pay"}),
        "deadline": "2026-01-15T13:00:00.020Z",
    }


def test_the_wait_may_last_any_time() -> None:
    # APPR-01
    play = gated()
    play.wait(timedelta(days=400))

    play.approve(CALL)

    assert play.dispatched == [CALL]
    assert play.call(CALL).first_attempt_at == play.now
    play.starts(CALL)
    play.finishes(CALL, "paid")
    assert play.status(CALL) == "succeeded"


def test_a_decision_is_an_event_with_its_actor() -> None:
    # APPR-09, APPR-17
    play = gated()

    decision = play.approve(CALL, message="go on", receipts=(a_claim("k"),))

    assert decision.reply == {"result": "resolved"}
    assert [r.reply for r in play.last.receipts] == [{"result": "resolved"}]
    assert [(e.type, e.payload) for e in play.last.events] == [
        (
            "interrupt_resolved",
            {
                "interrupt_id": CALL,
                "kind": "approval",
                "approved": True,
                "message": "go on",
                "actor": {"issuer": BOB.issuer, "subject": BOB.subject},
            },
        )
    ]


def test_a_rejected_call_is_answered_for_the_model() -> None:
    # APPR-04, F050
    play = gated()

    play.reject(CALL, "too big")

    assert play.result(CALL) == {
        "type": "tool_result",
        "tool_call_id": CALL,
        "tool_name": "pay",
        "status": "rejected",
        "output": "Tool call denied by user. They wrote: too big",
    }
    assert play.events("tool_call_finished")[0].payload["cancellation_reason"] == "denied"
    assert play.turn.step is not None
    assert not play.events("tool_call_started")


def test_what_a_person_says_is_a_message_with_an_approval_and_a_rejection_message_with_a_rejection() -> None:
    # EVT-01, APPR-17
    play, (first, second, third) = asked_for(*(a_single_write(gated=True, arguments={"n": n}) for n in range(3)))

    play.approve(first, message="go on")
    play.reject(second, "too big")
    play.reject(third)

    said = [
        {name: event.payload.get(name) for name in ("approved", "message", "rejection_message")}
        for event in play.events("interrupt_resolved")
    ]
    assert said == [
        {"approved": True, "message": "go on", "rejection_message": None},
        {"approved": False, "message": None, "rejection_message": "too big"},
        {"approved": False, "message": None, "rejection_message": None},
    ]


def test_parallel_requests_are_answered_one_by_one_in_any_order() -> None:
    # F037
    play, (r1, r2, r3) = asked_for(*(a_single_write("book", gated=True, arguments={"r": n}) for n in range(3)))

    play.approve(r3)
    play.reject(r1, "too big")
    play.approve(r2)

    assert play.dispatched == [r2, r3]
    play.runs(r3)
    assert play.turn.step is None
    play.runs(r2)
    assert [play.status(c) for c in (r1, r2, r3)] == ["rejected", "succeeded", "succeeded"]
    assert play.turn.step is not None


def test_a_sibling_that_needs_no_approval_runs_once_and_is_not_run_again_afterwards() -> None:
    # F039
    play, (visit, delete) = asked_for(a_single_write("log_visit"), a_single_write("delete", gated=True))
    play.runs(visit)

    play.approve(delete)

    assert play.dispatched == [delete]
    assert not play.starts(visit, attempt=1)
    play.runs(delete)
    assert [e.payload["tool_name"] for e in play.events("tool_call_started")] == ["log_visit", "delete"]


def test_a_group_with_one_open_approval_is_not_complete() -> None:
    # F041
    play, (p1, p2) = asked_for(a_single_write("p1", gated=True), a_single_write("p2", gated=True))

    play.approve(p1)
    play.runs(p1)

    assert play.turn.step is None
    assert play.pending == [p2]
    play.approve(p2)
    assert play.pending == []
    assert play.dispatched == [p2]
    play.runs(p2)
    assert play.turn.step is not None
    assert len(play.results) == 2


def test_an_approval_of_a_stopped_turn_is_gone_and_stays_gone() -> None:
    # F045, APPR-16
    play = gated()
    play.stop()

    with pytest.raises(NotFoundError) as caught:
        play.approve(CALL)

    assert caught.value.code == "interrupt_not_found"
    assert play.pending == []
    (settled,) = play.events("interrupt_resolved")
    assert settled.payload == {"interrupt_id": CALL, "kind": "approval", "cancellation_reason": "turn_cancelled"}
    assert play.status(CALL) == "rejected"


def test_the_first_of_two_clicks_decides() -> None:
    # F046, APPR-02
    play = gated()
    play.approve(CALL)

    with pytest.raises(NotFoundError):
        play.approve(CALL)
    with pytest.raises(NotFoundError):
        play.reject(CALL)

    assert len(play.events("interrupt_resolved")) == 1
    assert play.dispatched == [CALL]


@pytest.mark.parametrize("first", ["deny", "approve"])
@pytest.mark.parametrize("other", ["deny", "approve"])
@pytest.mark.parametrize("reverse", [False, True])
def test_any_mix_of_decisions_goes_on_exactly_once(first: str, other: str, reverse: bool) -> None:
    # F048
    play, ids = asked_for(a_single_write("a", gated=True), a_single_write("b", gated=True))

    for call, word in zip(reversed(ids) if reverse else ids, (first, other), strict=True):
        play.approve(call) if word == "approve" else play.reject(call)
    for call in tuple(play.dispatched):
        if play.turn.call(call):
            play.runs(call)

    assert play.turn.step is not None
    assert play.turn.model_calls == 1
    assert len(play.results) == 2


def test_the_same_call_is_not_asked_again_after_a_plain_rejection() -> None:
    # F053
    play = gated("pay", arguments={"amount": 5, "to": "x"})
    play.reject(CALL)

    again, other = play.model_asks(
        a_single_write("pay", gated=True, arguments={"to": "x", "amount": 5}),
        a_single_write("pay", gated=True, arguments={"amount": 6, "to": "x"}),
    )

    assert "do not repeat this call unchanged" in play.result(CALL)["output"]
    assert play.result(again)["output"] == texts.DENIED_BEFORE
    assert play.status(again) == "rejected"
    assert play.events("tool_call_finished")[-1].payload["cancellation_reason"] == "denied"
    assert play.pending == [other]


def test_the_next_turn_may_ask_for_a_declined_call_again() -> None:
    # F053: in the same turn only.
    play = gated()
    play.reject(CALL)
    play.model_answers()
    play.send("do it after all")

    (again,) = play.model_asks(a_single_write("pay", gated=True))

    assert play.pending == [again]


def test_a_gated_call_never_runs_without_a_decision() -> None:
    # F060
    play, (safe, wipe) = asked_for(a_read(), a_single_write("wipe", gated=True))
    play.runs(safe)
    play.send("go on")

    assert play.dispatches == ()
    assert not play.starts(wipe)
    assert len(play.events("interrupt_raised")) == 1


def test_a_decision_after_the_deadline_is_refused_before_the_timer_came() -> None:
    # F061, APPR-02
    play = gated(approval_deadline=HOUR)
    play.wait(HOUR - play.tick)  # the click comes exactly at the deadline

    with pytest.raises(RequestConflictError) as caught:
        play.approve(CALL)

    assert caught.value.code == "deadline_passed"
    play.fires(CALL)
    assert play.result(CALL)["output"] == "approval deadline passed"
    assert len(play.events("interrupt_resolved")) == 1


def test_a_decision_after_the_timer_finds_nothing_pending() -> None:
    # F061, the other order; APPR-03
    play = gated(approval_deadline=HOUR)
    play.wait(HOUR)
    play.fires(CALL)

    with pytest.raises(NotFoundError):
        play.approve(CALL)

    (settled,) = play.events("interrupt_resolved")
    assert settled.payload["approved"] is False
    assert settled.payload["rejection_message"] == "approval deadline passed"
    assert settled.payload["actor"] == {"issuer": "perdure", "subject": "deadline"}
    assert play.events("tool_call_finished")[0].payload["cancellation_reason"] == "deadline_passed"
    assert play.turn.step is not None


def test_a_decision_just_before_the_deadline_holds_and_its_timer_does_nothing() -> None:
    # WAIT-08
    play = gated(approval_deadline=HOUR)
    fence = play.turn.interrupts[0].fence
    play.wait(HOUR - 2 * play.tick)
    play.approve(CALL)
    play.wait(HOUR)

    assert play.fires(CALL, fence).entry is None
    assert play.dispatched == [CALL]


def test_a_timer_with_an_older_fence_does_nothing() -> None:
    # WAIT-08, races.md X12
    play = gated(approval_deadline=HOUR)
    play.wait(2 * HOUR)

    assert play.fires(CALL, fence=1).entry is None
    assert play.pending == [CALL]


def test_a_timer_that_fires_early_does_nothing() -> None:
    play = gated(approval_deadline=HOUR)

    assert play.fires(CALL).entry is None
    assert play.pending == [CALL]


def test_a_decision_about_other_arguments_is_refused() -> None:
    # APPR-06, F055
    play = gated()

    with pytest.raises(RequestConflictError) as caught:
        play.approve(CALL, arguments_hash=content_hash({"of": "something else"}))

    assert caught.value.code == "arguments_changed"
    assert play.dispatches == ()
    play.approve(CALL, arguments_hash=content_hash({"of": "pay"}))
    assert play.dispatched == [CALL]


def test_a_late_click_can_not_authorise_a_later_call() -> None:
    # APPR-06
    play = gated()
    play.reject(CALL)
    (later,) = play.model_asks(a_single_write("pay", gated=True, arguments={"amount": 9}))

    with pytest.raises(NotFoundError):
        play.approve(CALL)

    assert play.pending == [later]


def test_an_answer_is_no_approval() -> None:
    # APPR-02
    with pytest.raises(InvalidRequestError):
        gated().approve(CALL, approved=None, answer="yes")


def test_an_interrupt_that_never_was_is_not_found() -> None:
    # F055
    with pytest.raises(NotFoundError):
        a_session().approve("call-99-0")


def test_a_call_whose_arguments_are_no_json_is_hashed_as_it_was_sent() -> None:
    play = gated(arguments=None, arguments_text="{oops")

    assert play.turn.interrupts[0].arguments_hash == content_hash("{oops")
    assert play.public_calls()[0]["arguments_hash"] == content_hash("{oops")


def test_a_call_that_is_approved_with_other_arguments_keeps_both() -> None:
    play = gated()

    play.approve(CALL, arguments={"of": "half"}, message="half is enough")

    assert play.facts(CALL) == [("arguments", "", {"of": "half"})]
    (resolved,) = play.events("interrupt_resolved")
    assert resolved.payload["arguments"] == {"of": "half"}
    (shown,) = play.public_calls()
    assert (shown["arguments"], shown["requested_arguments"]) == ({"of": "half"}, {"of": "pay"})
    play.runs(CALL, "paid")
    assert "it ran with" in str(play.history()[-1])
    assert play.call(CALL).records == ()


def test_changed_arguments_outlive_a_question_and_a_sleep_of_their_tool() -> None:
    play = gated()
    play.approve(CALL, arguments={"of": "half"})
    play.begins(CALL)
    play.asks(CALL)
    play.answer(f"{CALL}-input-1", "yes")
    play.begins(CALL)
    play.parks(CALL, "nap", HOUR)
    play.skip(CALL)

    assert [kind for kind, _, _ in play.facts(CALL)] == ["arguments", "question", "answer", "sleep"]


def test_only_an_approved_call_may_have_other_arguments() -> None:
    play = gated()

    with pytest.raises(InvalidRequestError):
        play.reject(CALL, arguments={"of": "half"})

    assert play.pending == [CALL]
