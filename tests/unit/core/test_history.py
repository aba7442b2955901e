"""What the model is shown of the past."""

from perdure.core import texts
from perdure.core.history import CallItem, ModelItem, ToolResultItem, Transcript, UserItem, history, wire_ids
from tests.unit.core.builders import (
    Play,
    a_read,
    a_safe_write,
    a_session,
    a_single_write,
    asked_for,
    text_part,
)

STUB = {"provider": "stub", "api": "chat"}


def outputs(play: Play) -> list[str]:
    return [item.output for item in play.history() if isinstance(item, ToolResultItem)]


def notes(play: Play) -> list[str]:
    return [item.text for item in play.history() if isinstance(item, UserItem) and item.text.startswith(texts.NOTE)]


def test_a_conversation_reads_as_it_was_held() -> None:
    # MODEL-01, MODEL-10
    play = a_session("What is the total?")
    (call,) = play.model_asks(a_read("total", arguments={}), parts=(text_part("Let me see."),), provider=STUB)
    play.runs(call, "7")
    play.model_answers("It is 7.")

    assert play.history() == (
        UserItem(text="What is the total?"),
        ModelItem(
            text="Let me see.",
            calls=(CallItem(call_id=call, tool_name="total", arguments={}),),
            provider=STUB,
        ),
        ToolResultItem(call_id=call, tool_name="total", status="succeeded", output="7"),
        ModelItem(text="It is 7."),
    )


def test_results_stand_in_the_models_order_whatever_order_they_came_in() -> None:
    # MODEL-09
    play, (first, second, third) = asked_for(a_read("a"), a_read("b"), a_read("c"))
    for call in (third, first, second):
        play.runs(call, f"of {call}")

    assert [r["tool_call_id"] for r in play.results] == [third, first, second]
    assert outputs(play) == [f"of {first}", f"of {second}", f"of {third}"]


def test_a_call_whose_result_is_not_there_yet_is_shown_with_an_unknown_outcome() -> None:
    # MODEL-08: an orphan never reaches a provider.
    play, (first, _) = asked_for(a_read("a"), a_read("b"))
    play.runs(first, "A")

    assert outputs(play) == ["A", texts.OUTCOME_UNKNOWN]


def test_a_call_that_was_cut_off_by_a_stop_has_its_one_result_in_the_stored_history() -> None:
    # F026: the repair is stored, not made up on the wire.
    play, (read,) = asked_for(a_read("slow_tool"))
    play.stop()
    play.send("hello")

    assert play.status(read) == "rejected"
    assert outputs(play) == [texts.STOPPED_BEFORE_START]
    assert isinstance(play.history()[-1], UserItem)
    assert len(play.public_calls()) == 1


def test_a_call_that_died_with_its_worker_has_its_one_result_too() -> None:
    # F026, the variant with a kill.
    play, (pay,) = asked_for(a_single_write())
    play.starts(pay)

    play.loses(pay)

    assert outputs(play) == [texts.OUTCOME_UNKNOWN]


def test_the_model_is_told_apart_what_was_interrupted_declined_and_refused_by_policy() -> None:
    # F028
    play, (running, declined, never_begun) = asked_for(
        a_single_write("transfer"), a_single_write("refund", gated=True), a_read("look")
    )
    play.starts(running)
    play.reject(declined, "use the test account")
    play.stop()
    play.loses(running)

    assert play.status(running) == "outcome_unknown"
    assert "may have taken effect" in play.result(running)["output"]
    assert (play.status(declined), play.status(never_begun)) == ("rejected", "rejected")
    assert "use the test account" in play.result(declined)["output"]
    assert "the user stopped this turn before it started" in play.result(never_begun)["output"]
    reasons = {
        e.payload["tool_call_id"]: e.payload.get("cancellation_reason") for e in play.events("tool_call_finished")
    }
    assert reasons == {running: None, declined: "denied", never_begun: "turn_cancelled"}


def test_a_denied_call_has_one_result_with_the_message_or_a_default_sentence() -> None:
    # F050
    play, (first, second) = asked_for(a_single_write("a", gated=True), a_single_write("b", gated=True))
    play.reject(first, "use the test account")
    play.reject(second)

    assert outputs(play) == [
        "Tool call denied by user. They wrote: use the test account",
        "Tool call denied by user. A person declined it, so do not repeat this call unchanged.",
    ]


def test_what_an_approver_wrote_reaches_the_model_behind_the_result() -> None:
    # surface §4.2: `message` reaches the model with an approval as well.
    play, (pay,) = asked_for(a_single_write(gated=True))
    play.approve(pay, message="only this once")
    play.runs(pay, "paid")

    assert outputs(play) == ["paid\n\n[Perdure] The person who approved this call wrote: only this once"]


def test_a_stopped_turn_ends_with_a_note_that_lists_what_ran() -> None:
    # STOP-04, STOP-14
    play, (pay, look) = asked_for(a_single_write(), a_read())
    play.starts(pay)
    play.stop()
    play.finishes(pay, "paid")

    (note,) = notes(play)
    assert note == (
        "[Perdure] The user stopped this turn. These tool calls have a final record: pay (succeeded). "
        "Do not repeat these tool calls unless the user asks again."
    )
    assert look not in note


def test_a_failed_turn_ends_with_another_note_that_lists_what_ran() -> None:
    # SESS-09
    play, (put,) = asked_for(a_safe_write())
    play.runs(put)
    play.model_ends("failed", error_code="provider", error_message="503")

    (note,) = notes(play)
    assert note == (
        "[Perdure] This turn failed before it was answered. These tool calls have a final record: put (succeeded). "
        "Do not repeat these tool calls unless the user asks again."
    )


def test_a_turn_that_failed_before_any_tool_ran_has_no_note() -> None:
    # SESS-09
    play = a_session()
    play.model_ends("failed", error_code="provider", error_message="503")

    assert play.history() == (UserItem(text="hello"),)


def test_a_partial_answer_is_shown_with_the_word_that_it_was_stopped() -> None:
    # F033
    play = a_session()
    play.stop()
    play.model_ends("aborted", parts=(text_part("The first three"),))

    assert play.history()[1] == ModelItem(text="The first three\n\n[Perdure] The user stopped this answer here.")
    assert play.public_messages()[-1]["status"] == "interrupted"


def test_reasoning_and_opaque_items_are_kept_as_they_came() -> None:
    # F012, MODEL-11
    item = {"content": [{"thinking": "A", "signature": "SA"}, {"redacted_thinking": "R"}]}
    play = a_session()

    play.model_ends(
        "answer",
        parts=({"type": "reasoning", "text": "A"}, text_part("done")),
        provider={**STUB, "item": item},
    )

    assert play.history()[1] == ModelItem(text="done", reasoning="A", provider={**STUB, "item": item})


def test_arguments_that_were_no_json_are_shown_as_they_were_sent() -> None:
    play, _ = asked_for(a_read(arguments=None, arguments_text='{"q": ', settled=("failed", "invalid lookup arguments")))

    (output,) = [item for item in play.history() if isinstance(item, ModelItem)]
    assert (output.calls[0].arguments, output.calls[0].arguments_text) == (None, '{"q": ')


def test_no_arguments_are_the_empty_object() -> None:
    # F006: never "" or null.
    play, _ = asked_for(a_read("take_snapshot", arguments={}))

    (output,) = [item for item in play.history() if isinstance(item, ModelItem)]
    assert output.calls[0].arguments == {}


def test_a_transcript_that_grew_with_the_log_equals_one_read_from_its_start() -> None:
    play, (first, second) = asked_for(a_single_write(gated=True), a_read())
    play.send("queued")
    play.approve(first, message="ok")
    play.runs(second)
    play.runs(first)
    play.model_answers()
    play.model_answers()
    grown = Transcript()

    for entry in play.log:
        grown.extend([entry])
        assert grown.items() == history(play.log[: entry.version])

    assert grown.version == play.head.version


def test_entries_that_were_seen_before_are_taken_once() -> None:
    play = a_session()
    play.model_answers()
    transcript = Transcript()
    transcript.extend(play.log)

    transcript.extend(play.log)

    assert transcript.items() == play.history()


def test_a_closed_turn_looks_the_same_for_ever() -> None:
    # STOP-06
    play, (pay,) = asked_for(a_single_write(gated=True))
    play.approve(pay, message="fine")
    play.runs(pay)
    play.model_answers()
    before, shown = play.history(), play.public_messages()

    play.send("more")
    play.model_asks(a_read())
    play.stop()

    assert play.history()[: len(before)] == before
    assert play.public_messages()[: len(shown)] == shown


def test_a_provider_gets_its_own_ids_back() -> None:
    # F010
    play = a_session()
    first, second = play.model_asks(a_read(provider_call_id="g1"), a_read(provider_call_id="g2"), provider=STUB)

    assert wire_ids(play.history(), "stub") == {first: "g1", second: "g2"}


def test_a_call_without_an_id_gets_ours() -> None:
    # F010
    play = a_session()
    (call,) = play.model_asks(a_read(), provider=STUB)

    assert wire_ids(play.history(), "stub") == {call: call}


def test_another_provider_gets_our_ids_and_the_first_one_its_own_again() -> None:
    # F014, MODEL-11
    play = a_session()
    (call,) = play.model_asks(a_read(provider_call_id="call_abc|fc_123"), provider=STUB)

    assert wire_ids(play.history(), "other") == {call: call}
    assert wire_ids(play.history(), "stub") == {call: "call_abc|fc_123"}


def test_a_repeated_provider_id_is_echoed_once() -> None:
    # F008
    play = a_session()
    first, second = play.model_asks(a_read(provider_call_id="call_0"), a_read(provider_call_id="call_0"), provider=STUB)

    assert wire_ids(play.history(), "stub") == {first: "call_0", second: second}


def test_a_provider_id_that_looks_like_one_of_ours_is_not_echoed() -> None:
    # F008: a model that imitates the ids it was shown would otherwise take a later call's id.
    play = a_session()
    first, second = play.model_asks(a_read(provider_call_id="call-2-1"), a_read(), provider=STUB)

    assert wire_ids(play.history(), "stub") == {first: first, second: second}
