"""AG-UI runs: whatever a turn does, a client is told it in the protocol's own order, and shows what was committed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from perdure.feed import Commit, Live
from perdure.streams.ag_ui import AgUiRun
from tests.unit.streams.ag_ui_client import Screen, told, verified, words
from tests.unit.streams.ui_builders import (
    COMPLETED,
    Log,
    asked,
    begun,
    called,
    decided,
    deferred,
    event,
    failed,
    reasoning,
    result,
    said,
    text,
    user,
)

JsonObject = dict[str, Any]
Item = Commit | Live

HI = {"id": "m-1", "role": "user", "content": "hi"}
FIGURES = {
    "input_tokens": {"value": 9, "provenance": "reported"},
    "output_tokens": {"value": 4, "provenance": "reported"},
    "cached_input_tokens": {"value": 2, "provenance": "reported"},
    "reasoning_tokens": {"provenance": "unavailable"},
}


def stepped(step: str, attempt: int = 1, **figures: Any) -> tuple[JsonObject, ...]:
    """What a commit tells of a model step that came to its end."""
    return (
        event("model_started", step, attempt),
        event("usage_recorded", step, attempt, recorded=FIGURES | figures, session={}),
        event("model_finished", step, attempt, status="completed"),
    )


def one_answer(*lives: tuple[str, str], answer: JsonObject) -> Log:
    """A turn with one model step, which is watched while it comes."""
    log = Log()
    log.commit(*begun())
    log.live("model_started", "model-1")
    for kind, piece in lives:
        log.live(f"{kind}_delta", "model-1", text=piece)
    log.commit(answer, *stepped("model-1"), COMPLETED)
    return log


def shown(items: Sequence[Item], **of_the_run: Any) -> list[tuple[Any, ...]]:
    return Screen(HI).take(verified(told(items, messages=[HI], **of_the_run))).shown


def test_an_answer_streams_inside_its_step_and_ends_the_run() -> None:
    log = one_answer(("text", "Hel"), ("text", "lo"), answer=said("m-2", text("Hello")))

    events = verified(told(log.items, messages=[HI]))

    assert words(events) == [
        "RUN_STARTED",
        "STEP_STARTED model-1",
        "START model-1",
        "CONTENT model-1 Hel",
        "CONTENT model-1 lo",
        "END model-1",
        "STEP_FINISHED model-1",
        "RUN_FINISHED",
    ]
    assert events[0] == {"type": "RUN_STARTED", "threadId": "s-1", "runId": "run-1", "protocolVersion": "1.0"}
    assert events[-1]["outcome"] == {"type": "success"}
    assert events[-1]["result"] == {"turn_id": "turn-1"}


@pytest.mark.parametrize("seen", [(), ("Hel",), ("Hel", "lo")])
def test_what_was_not_seen_live_comes_from_the_committed_message(seen: tuple[str, ...]) -> None:
    log = one_answer(*(("text", piece) for piece in seen), answer=said("m-2", text("Hello")))

    events = verified(told(log.items, messages=[HI]))

    assert not [event for event in events if event["type"] == "MESSAGES_SNAPSHOT"]
    assert Screen(HI).take(events).shown == [("user", "hi"), ("assistant", "Hello")]


def test_an_answer_that_was_committed_otherwise_than_shown_is_put_right() -> None:
    log = one_answer(("text", "Hello wor"), answer=said("m-2", text("Hello"), status="interrupted"))

    assert shown(log.items) == [("user", "hi"), ("assistant", "Hello")]


def test_reasoning_is_a_message_of_its_own_in_front_of_the_answer() -> None:
    answer = said("m-2", reasoning("Hmm"), text("Hello"))
    log = one_answer(("reasoning", "H"), ("reasoning", "mm"), ("text", "Hel"), answer=answer)

    events = verified(told(log.items, messages=[HI]))

    kinds = [event["type"] for event in events if event["type"].startswith("REASONING")]
    assert kinds == [
        "REASONING_START",
        "REASONING_MESSAGE_START",
        *(["REASONING_MESSAGE_CONTENT"] * 2),
        "REASONING_MESSAGE_END",
        "REASONING_END",
    ]
    assert Screen(HI).take(events).shown == [("user", "hi"), ("reasoning", "Hmm"), ("assistant", "Hello")]


def test_thoughts_between_words_end_up_in_front_of_them_as_they_are_committed() -> None:
    pieces = (("text", "Hel"), ("reasoning", "H"), ("text", "lo"), ("reasoning", "m"))
    log = one_answer(*pieces, answer=said("m-2", reasoning("Hm"), text("Hello")))

    assert shown(log.items) == [("user", "hi"), ("reasoning", "Hm"), ("assistant", "Hello")]
    assert shown(log.commits) == shown(log.items)


def test_an_answer_that_begins_anew_gets_a_new_id_and_stands_alone() -> None:
    log = Log()
    log.commit(*begun())
    log.live("text_delta", "model-1", text="Hel")
    log.live("attempt_reset", "model-1", reason="malformed")
    log.live("text_delta", "model-1", text="Good ")
    log.live("text_delta", "model-1", 2, text="Good day")
    log.commit(said("m-2", text("Good day")), event("attempt_reset", "model-1"), *stepped("model-1", 2), COMPLETED)

    events = verified(told(log.items, messages=[HI]))

    began = [event["messageId"] for event in events if event["type"] == "TEXT_MESSAGE_START"]
    assert began == ["model-1", "model-1~2", "model-1~3"]
    assert Screen(HI).take(events).messages == [HI, {"id": "model-1", "role": "assistant", "content": "Good day"}]


def test_nothing_of_an_attempt_that_waits_for_its_reconnect_is_left() -> None:
    log = Log()
    log.commit(*begun())
    log.live("text_delta", "model-1", text="Hel")
    log.commit(event("attempt_reset", "model-1", reason="timeout"), event("model_retry_scheduled", "model-1"))

    screen = Screen(HI).take(verified(told(log.items, messages=[HI]), whole=False))

    assert screen.messages == [HI]


def two_calls() -> Log:
    """A turn with two calls in one answer, whose results come the other way round."""
    log = Log()
    log.commit(*begun())
    log.live("text_delta", "model-1", text="Let me")
    log.commit(
        said("m-2", text("Let me see."), called("call-1", "look", city="Oslo"), called("call-2", "look")),
        *stepped("model-1"),
        deferred("call-1"),
        deferred("call-2"),
    )
    for call_id in ("call-1", "call-2"):
        log.live("tool_call_started", call_id, tool_call_id=call_id, tool_name="look")
    log.live("tool_progress", "call-1", tool_call_id="call-1", text="half")
    log.commit(event("tool_call_started", "call-2"), *result("call-2", "rain"))
    log.commit(event("tool_call_started", "call-1"), *result("call-1", "it broke", status="failed"))
    log.live("text_delta", "model-2", text="It ")
    log.commit(said("m-3", text("It rains.")), *stepped("model-2"), COMPLETED)
    return log


def test_calls_follow_the_text_they_belong_to_and_results_their_calls() -> None:
    events = verified(told(two_calls().items, messages=[HI]))

    assert words(events)[2:] == [
        "START model-1",
        "CONTENT model-1 Let me",
        "CONTENT model-1  see.",
        "END model-1",
        "START call-1",
        'ARGS call-1 {"city":"Oslo"}',
        "END call-1",
        "START call-2",
        "ARGS call-2 {}",
        "END call-2",
        "STEP_FINISHED model-1",
        "RESULT result-call-2 call-2 rain",
        "RESULT result-call-1 call-1 it broke",
        "STEP_STARTED model-2",
        "START model-2",
        "CONTENT model-2 It ",
        "CONTENT model-2 rains.",
        "END model-2",
        "STEP_FINISHED model-2",
        "RUN_FINISHED",
    ]
    assert {event["parentMessageId"] for event in events if event["type"] == "TOOL_CALL_START"} == {"model-1"}
    failure = next(event for event in events if event.get("messageId") == "result-call-1")
    assert failure["metadata"] == {"perdure": {"status": "failed"}}


def test_a_call_without_a_word_makes_its_message() -> None:
    log = Log()
    log.commit(*begun())
    log.commit(said("m-2", called("call-1")), *stepped("model-1"), deferred("call-1"))

    screen = Screen(HI).take(verified(told(log.items, messages=[HI]), whole=False))

    assert screen.shown == [("user", "hi"), ("assistant", "", "look({})")]


def test_what_the_protocol_has_no_word_for_goes_out_under_ours_and_once() -> None:
    events = verified(told(two_calls().items, messages=[HI]))

    ours = [(event["name"], event["value"].get("step_execution_id")) for event in events if event["type"] == "CUSTOM"]
    assert ours.count(("perdure.tool_call_started", "call-1")) == 1
    assert ("perdure.tool_progress", "call-1") in ours
    assert ("perdure.turn_started", None) in ours
    assert not {"perdure.text_delta", "perdure.model_finished", "perdure.turn_completed"} & {name for name, _ in ours}


def test_a_piece_that_is_told_twice_is_shown_once() -> None:
    log = one_answer(("text", "Hel"), ("text", "lo"), answer=said("m-2", text("Hello")))
    lives = [item for item in log.items if isinstance(item, Live)]

    events = told([log.items[0], *lives, *lives, log.items[-1]], messages=[HI])

    assert [event["delta"] for event in verified(events) if "delta" in event] == ["Hel", "lo"]


def test_usage_is_that_of_the_runs_own_calls_and_what_was_not_reported_is_left_out() -> None:
    events = told(two_calls().items, messages=[HI])

    assert events[-1]["usage"] == [
        {"inputTokens": 18, "outputTokens": 8, "totalTokens": 26, "cachedInputTokens": 4},
    ]


def test_a_count_that_one_call_did_not_report_is_no_count_of_the_run() -> None:
    log = Log()
    log.commit(*begun())
    log.commit(said("m-2", called("call-1")), *stepped("model-1"), deferred("call-1"))
    log.commit(*result("call-1", "ok"))
    log.commit(said("m-3", text("Hi")), *stepped("model-2", output_tokens={"provenance": "unavailable"}), COMPLETED)

    assert told(log.items)[-1]["usage"] == [{"inputTokens": 18, "cachedInputTokens": 4}]


@pytest.mark.parametrize("seen", [(), (("text", "Hel"),)])
def test_a_failed_turn_ends_in_one_error_and_leaves_no_half_answer(seen: tuple[tuple[str, str], ...]) -> None:
    log = Log()
    log.commit(*begun())
    for kind, piece in seen:
        log.live(f"{kind}_delta", "model-1", text=piece)
    log.commit(*stepped("model-1"), failed("provider", "the model says no"))

    events = verified(told(log.items, messages=[HI]))

    assert events[-1] | {"usage": None} == {
        "type": "RUN_ERROR",
        "message": "the model says no",
        "code": "provider",
        "usage": None,
    }
    assert Screen(HI).take(events).messages == [HI]


@pytest.mark.parametrize(
    "end", [event("turn_cancelled", message_count=1), event("turn_steered", steered_message_count=1)]
)
def test_a_turn_that_was_stopped_or_gave_way_is_cancelled(end: JsonObject) -> None:
    log = Log()
    log.commit(*begun())
    log.live("text_delta", "model-1", text="Hello wor")
    log.commit(said("m-2", text("Hello wor"), status="interrupted"), *stepped("model-1"), end)

    events = verified(told(log.items, messages=[HI]))

    assert events[-1]["outcome"] == {"type": "cancelled"}
    assert "result" not in events[-1]
    assert Screen(HI).take(events).shown == [("user", "hi"), ("assistant", "Hello wor")]


def test_a_superseded_turn_leaves_nothing_that_it_said() -> None:
    log = two_calls()
    log.items.pop()
    log.commit(
        said("m-3", text("It"), status="superseded"),
        *stepped("model-2"),
        event("turn_cancelled", disposition="discard"),
    )

    assert shown(log.items) == [("user", "hi")]


def test_a_turn_that_was_superseded_before_anyone_looked_shows_nothing() -> None:
    log = Log()
    log.commit(*begun())
    log.commit(said("m-2", text("It"), called("call-1"), status="superseded"), *stepped("model-1"), deferred("call-1"))
    log.commit(*result("call-1", "rain"), event("turn_cancelled", disposition="discard"))

    events = verified(told(log.items, messages=[HI]))

    assert not [event for event in events if event["type"] == "MESSAGES_SNAPSHOT"]
    assert Screen(HI).take(events).messages == [HI]


def test_nothing_is_left_of_an_answer_whose_worker_was_lost_for_good() -> None:
    log = Log()
    log.commit(*begun())
    log.live("text_delta", "model-1", text="Hel")
    log.commit(failed("timeout"))

    assert shown(log.items) == [("user", "hi")]


def test_the_result_of_a_call_that_the_client_never_saw_is_left_out() -> None:
    log = Log()
    log.commit(*result("call-0", "ok"), event("inbox.joined", message_id="m-1", sequence=4), user("m-1", "hi"))
    log.commit(said("m-2", text("Hello both")), *stepped("model-1"), COMPLETED)

    assert shown(log.items) == [("user", "hi"), ("assistant", "Hello both")]


def test_a_run_waits_for_the_turn_that_takes_its_message() -> None:
    log = Log()
    log.commit(event("message_queued", message_id="m-1", delivery="queue"))
    log.live("text_delta", "model-0", text="for others")
    log.commit(said("m-0", text("for others")), *stepped("model-0"), COMPLETED)
    behind = {"turn_id": "turn-2"}
    log.commit(user("m-1", "hi") | behind, event("turn_started", sequence=2, message_id="m-1") | behind)
    log.commit(said("m-2", text("for you")) | behind, *(e | behind for e in stepped("model-1")), COMPLETED | behind)

    assert shown(log.items) == [("user", "hi"), ("assistant", "for you")]


def test_a_message_that_joins_a_turn_is_answered_with_it() -> None:
    log = Log()
    log.commit(event("inbox.joined", message_id="m-1", sequence=4), user("m-1", "hi"))
    log.commit(said("m-2", text("Hello both")), *stepped("model-1"), COMPLETED)

    assert shown(log.items) == [("user", "hi"), ("assistant", "Hello both")]


def test_a_message_that_goes_back_to_the_inbox_is_answered_by_a_later_turn() -> None:
    log = Log()
    log.commit(event("inbox.joined", message_id="m-1", sequence=4), user("m-1", "hi"))
    log.commit(failed("provider", rehomed=["m-1"]))
    behind = {"turn_id": "turn-2"}
    log.commit(user("m-1", "hi") | behind, event("turn_started", sequence=2, message_id="m-1") | behind)
    log.commit(said("m-2", text("Here")) | behind, *(e | behind for e in stepped("model-1")), COMPLETED | behind)

    events = verified(told(log.items, messages=[HI]))

    assert events[-1]["outcome"] == {"type": "success"}


def test_a_message_that_is_taken_back_ends_its_run() -> None:
    log = Log()
    log.commit(event("message_removed", message_id="m-1"))

    assert verified(told(log.items, messages=[HI]))[-1]["outcome"] == {"type": "cancelled"}


def test_words_of_others_in_the_turn_are_shown_too() -> None:
    log = Log()
    log.commit(user("m-0", "first"), *begun(message_ids=["m-0", "m-1"]))
    log.commit(said("m-2", text("Both")), *stepped("model-1"), COMPLETED)

    assert shown(log.items) == [("user", "hi"), ("user", "first"), ("assistant", "Both")]


def asking() -> Log:
    """A turn that waits for the approval of one call, while another has its result."""
    log = Log()
    log.commit(*begun())
    log.commit(
        said("m-2", text("May I?"), called("call-1", "pay", amount=7), called("call-2")),
        *stepped("model-1"),
        deferred("call-1", "pay", asks=True),
        deferred("call-2"),
        asked("call-1", "pay"),
    )
    log.commit(*result("call-2", "ok"))
    return log


def test_a_run_that_waits_for_people_ends_with_what_they_are_asked() -> None:
    run = AgUiRun(thread_id="s-1", run_id="run-1", messages=[HI], message_id="m-1")
    events = [*run.begin(), *(e for item in asking().items for e in run.take(item))]

    assert run.asked.keys() == {"call-1"}
    ended = verified([*events, *run.interrupt()])[-1]

    (interrupt,) = ended["outcome"]["interrupts"]
    assert (interrupt["id"], interrupt["toolCallId"], interrupt["reason"]) == ("call-1", "call-1", "tool_call")
    assert interrupt["message"] == 'May this run? pay {"amount":7}'
    assert interrupt["responseSchema"]["required"] == ["approved"]


def test_a_question_says_what_may_be_answered_and_until_when() -> None:
    log = Log()
    until = "2026-11-30T12:00:00.000Z"
    question = {"kind": "question", "question": "Which?", "choices": ["a", "b"], "allows_free_text": False}
    raised = event("interrupt_raised", interrupt_id="call-1", tool_call_id="call-1", deadline=until, **question)
    log.commit(*begun(), said("m-2", called("call-1", "ask_user")), deferred("call-1"), raised)
    run = AgUiRun(thread_id="s-1", run_id="run-1", messages=[HI], message_id="m-1")

    events = [*run.begin(), *(e for item in log.items for e in run.take(item)), *run.interrupt()]

    (interrupt,) = verified(events)[-1]["outcome"]["interrupts"]
    assert (interrupt["message"], interrupt["expiresAt"]) == ("Which?", until)
    assert interrupt["reason"] == "input_required"
    assert interrupt["responseSchema"]["properties"]["answer"]["enum"] == ["a", "b"]


def test_what_an_application_asks_for_holds_up_no_run() -> None:
    log = Log()
    log.commit(*begun())
    log.commit(event("interrupt_raised", interrupt_id="input:name", kind="input", question="Name?"))
    run = AgUiRun(thread_id="s-1", run_id="run-1", message_id="m-1")
    for item in log.items:
        run.take(item)

    assert run.asked == {}


def resumed() -> tuple[Log, list[JsonObject]]:
    """A turn that went on once a person agreed, and what its first run left on the screen."""
    log = asking()
    screen = Screen(HI).take(told(log.items, messages=[HI]))
    log.commit(decided("call-1", approved=True))
    log.commit(*result("call-1", "paid"))
    log.live("text_delta", "model-2", text="Al")
    log.commit(said("m-3", text("All paid.")), *stepped("model-2"), COMPLETED)
    return log, screen.messages


OF_THE_RESUMED = {"run_id": "run-2", "turn_id": "turn-1", "message_id": None, "resolved": ["call-1"]}


def test_a_resumed_run_tells_only_what_follows_the_decision() -> None:
    log, messages = resumed()

    events = verified(told(log.items, messages=messages, **OF_THE_RESUMED))

    assert words(events) == [
        "RUN_STARTED",
        "RESULT result-call-1 call-1 paid",
        "STEP_STARTED model-2",
        "START model-2",
        "CONTENT model-2 Al",
        "CONTENT model-2 l paid.",
        "END model-2",
        "STEP_FINISHED model-2",
        "RUN_FINISHED",
    ]
    assert events[-1]["usage"][0]["inputTokens"] == 9, "the interrupted run has told of the first call"
    assert Screen(*messages).take(events).shown == [
        ("user", "hi"),
        ("assistant", "May I?", 'pay({"amount":7})', "look({})"),
        ("tool", "ok"),
        ("tool", "paid"),
        ("assistant", "All paid."),
    ]


def test_a_result_in_the_commit_of_its_decision_is_news() -> None:
    log = asking()
    messages = Screen(HI).take(told(log.items, messages=[HI])).messages
    log.commit(decided("call-1", approved=False), *result("call-1", "no", status="rejected"))

    events = verified(told(log.items, messages=messages, **OF_THE_RESUMED), whole=False)

    assert "RESULT result-call-1 call-1 no" in words(events)


@pytest.mark.parametrize("messages", [[], [HI]], ids=["nothing", "only the question"])
def test_a_client_that_resumes_without_the_conversation_is_shown_it(messages: list[JsonObject]) -> None:
    log, _ = resumed()

    screen = Screen(*messages).take(verified(told(log.items, messages=messages, **OF_THE_RESUMED)))

    assert screen.shown == [
        ("user", "hi"),
        ("assistant", "May I?", 'pay({"amount":7})', "look({})"),
        ("tool", "ok"),
        ("tool", "paid"),
        ("assistant", "All paid."),
    ]


def test_a_message_that_comes_with_a_decision_is_answered_behind_the_turn_that_goes_on() -> None:
    log, messages = resumed()
    behind = {"turn_id": "turn-2"}
    more = {"id": "m-9", "role": "user", "content": "and?"}
    log.commit(user("m-9", "and?") | behind, event("turn_started", sequence=2, message_id="m-9") | behind)
    log.commit(said("m-10", text("Yes.")) | behind, *(e | behind for e in stepped("model-9")), COMPLETED | behind)

    events = verified(told(log.items, messages=[*messages, more], **OF_THE_RESUMED | {"message_id": "m-9"}))

    assert Screen(*messages, more).take(events).shown[-3:] == [
        ("user", "and?"),
        ("assistant", "All paid."),
        ("assistant", "Yes."),
    ]


def eventful() -> Log:
    """A turn with all that may happen to an answer: thoughts, two calls, an answer that begins anew twice."""
    log = Log()
    log.commit(*begun())
    log.live("model_started", "model-1")
    log.live("reasoning_delta", "model-1", text="H")
    log.live("reasoning_delta", "model-1", text="m")
    log.live("text_delta", "model-1", text="Let ")
    log.commit(
        said("m-2", reasoning("Hm."), text("Let me see."), called("call-1", city="Oslo"), called("call-2")),
        *stepped("model-1"),
        deferred("call-1"),
        deferred("call-2"),
    )
    log.live("tool_progress", "call-1", tool_call_id="call-1", text="half")
    log.commit(*result("call-2", "rain"))
    log.commit(*result("call-1", "sun"))
    log.live("reasoning_delta", "model-2", text="So")
    log.live("text_delta", "model-2", text="It ra")
    log.live("attempt_reset", "model-2", reason="malformed")
    log.live("text_delta", "model-2", text="It may ")
    log.live("text_delta", "model-2", 2, text="It is ")
    log.live("text_delta", "model-2", 2, text="bo")
    log.commit(
        said("m-3", reasoning("So"), text("It is both.")),
        event("attempt_reset", "model-2"),
        *stepped("model-2", 2),
        COMPLETED,
    )
    return log


def as_read_behind(items: Sequence[Item], place: int) -> list[Item]:
    """Return what somebody reads who begins when so many items are there: progress of what has ended is gone."""
    ended = [index for index, item in enumerate(items[:place]) if isinstance(item, Commit)]
    gone = ended[-1] if ended else 0
    return [item for index, item in enumerate(items) if isinstance(item, Commit) or index > gone]


def test_a_cut_at_any_event_and_another_run_end_in_the_same_messages() -> None:
    items = eventful().items
    whole = Screen(HI).take(verified(told(items, messages=[HI])))
    places = [len(told(items[:place], messages=[HI])) for place in range(len(items) + 1)]

    for place, (first, last) in enumerate(itertools.pairwise(places)):
        for cut in range(first, last + 1):
            screen = Screen(HI).take(verified(told(items, messages=[HI])[:cut], whole=False))
            again = told(as_read_behind(items, place + 1), messages=screen.messages)
            assert screen.take(verified(again)).messages == whole.messages, f"cut behind event {cut}"


def test_a_resumed_run_that_was_cut_at_any_event_ends_in_the_same_messages() -> None:
    log, messages = resumed()
    whole = Screen(*messages).take(told(log.items, messages=messages, **OF_THE_RESUMED))

    for cut in range(len(told(log.items, messages=messages, **OF_THE_RESUMED))):
        events = told(log.items, messages=messages, **OF_THE_RESUMED)[:cut]
        screen = Screen(*messages).take(events)
        again = verified(told(log.commits, messages=screen.messages, **OF_THE_RESUMED))
        assert screen.take(again).messages == whole.messages, f"cut behind event {cut}"


def test_an_error_of_ours_ends_a_run_once() -> None:
    run = AgUiRun(thread_id="s-1", run_id="run-1", messages=[HI], message_id="m-1")
    log = one_answer(("text", "Hel"), answer=said("m-2", text("Hello")))
    events = [*run.begin(), *(e for item in log.items[:-1] for e in run.take(item))]

    events += run.fail("internal", "it broke")

    assert verified(events)[-1]["type"] == "RUN_ERROR"
    assert run.fail("internal", "again") == []
    assert run.take(log.items[-1]) == []
