"""AG-UI runs over turns that wait, resume, fail and are cut: what a client shows is what the session has."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from perdure.feed import Commit
from perdure.streams.ag_ui import AgUiRun
from tests.unit.streams.ag_ui_builders import HI, Item, one_answer, shown, stepped
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
