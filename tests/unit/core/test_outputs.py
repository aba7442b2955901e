"""What a prompt has of a long output: its head, its tail and a note; the log keeps the whole (TOOL-24, F077)."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from perdure.core.history import HistoryOptions, ToolResultItem, Transcript, history
from perdure.core.outputs import SEALED_CHARACTERS, stored_output
from tests.unit.core.builders import Play, a_read, a_session, a_single_write, asked_for

READS = HistoryOptions(tool_output_limit=1000, reads_outputs=True)
LONG = "".join(f"item {n:05d}\n" for n in range(10_000))


def outputs(play: Play, options: HistoryOptions = READS) -> list[str]:
    return [item.output for item in history(play.log, options) if isinstance(item, ToolResultItem)]


def looked_again(play: Play, output: str, **arguments: Any) -> str:
    """Have the model make another call of `items`, and give it this output; returns the call's id."""
    (call,) = play.model_asks(a_read("items", arguments=arguments or {"of": "items"}))
    play.runs(call, output)
    return call


def test_a_long_output_is_shown_with_its_head_its_tail_its_true_size_its_hash_and_the_way_to_the_rest() -> None:
    text = "é" * 120_000
    play, (call,) = asked_for(a_read("items"))
    play.runs(call, text)

    (shown,) = outputs(play)

    assert shown == (
        "é" * 750 + "\n\n[Perdure] This output is too long to be shown whole: 119000 characters are left out here. "
        "All of it has 120000 characters (240000 bytes in UTF-8, SHA-256 "
        f"{hashlib.sha256(text.encode()).hexdigest()}). "
        f'Read the rest with read_tool_output: tool_call_id "{call}", offset 750.\n\n' + "é" * 250
    )
    assert play.result(call)["output"] == text


def test_without_a_tool_to_read_the_rest_the_model_is_told_to_ask_for_less() -> None:
    play, (call,) = asked_for(a_read("items"))
    play.runs(call, LONG)

    (shown,) = outputs(play, HistoryOptions(tool_output_limit=1000))

    assert "). The rest can't be read from here: ask for less at a time.\n\n" in shown
    assert "read_tool_output" not in shown


@pytest.mark.parametrize(("limit", "cut"), [(len(LONG) - 1, True), (len(LONG), False), (None, False)])
def test_what_is_no_longer_than_the_limit_is_shown_whole(limit: int | None, cut: bool) -> None:
    play, (call,) = asked_for(a_read("items"))
    play.runs(call, LONG)

    (shown,) = outputs(play, HistoryOptions(tool_output_limit=limit))

    assert ("[Perdure]" in shown) is cut
    assert shown.startswith("item 00000\n")
    assert shown.endswith("item 09999\n")


def test_a_failure_with_a_long_message_is_cut_too_and_an_approvers_word_stays_behind_it() -> None:
    play, (pay,) = asked_for(a_single_write(gated=True))
    play.approve(pay, message="only this once")
    play.runs(pay, LONG, "failed")

    (shown,) = outputs(play)

    assert shown.startswith("item 00000\n")
    assert shown.endswith("item 09999\n\n\n[Perdure] The person who approved this call wrote: only this once")


@pytest.mark.parametrize("nothing", ["", " \n"])
def test_no_output_is_ever_shown_as_nothing(nothing: str) -> None:
    play, (call,) = asked_for(a_read("items"))
    play.runs(call, nothing)

    assert outputs(play) == ["[Perdure] There is no text in this output."]


def test_f077_a_call_that_is_made_again_is_told_that_it_shows_no_more() -> None:
    play = a_session()
    first = looked_again(play, LONG)
    second = looked_again(play, LONG)
    looked_again(play, LONG[:-1])

    one, two, three = outputs(play)

    assert "before in this turn" not in one
    assert (
        f" You have made this call before in this turn, with the same arguments ({first}); that output was cut in the "
        "same way and is the same. Repeating the call shows no more of it.\n\n"
    ) in two
    assert f"with the same arguments ({second}); that output was cut in the same way and has changed since." in three


def test_f077_other_arguments_short_outputs_and_other_turns_are_no_repeats() -> None:
    play = a_session()
    looked_again(play, LONG)
    looked_again(play, LONG, page=2)
    looked_again(play, "short", page=3)
    looked_again(play, LONG, page=3)
    play.model_answers()
    play.send("again")
    looked_again(play, LONG)

    shown = outputs(play)

    assert sum("too long to be shown whole" in output for output in shown) == 4
    assert not any("before in this turn" in output for output in shown)


def test_the_prompt_is_the_same_bytes_whether_it_was_kept_up_or_made_anew_from_the_log() -> None:
    play = a_session()
    kept = Transcript(READS)
    seen: list[Any] = []
    for _ in range(3):
        looked_again(play, LONG)
        kept.extend(play.log)
        seen.append(kept.items())
    play.model_answers()
    play.send("again")
    kept.extend(play.log)

    assert kept.items() == history(play.log, READS)
    assert [items == seen[-1][: len(items)] for items in seen] == [True, True, True]


def test_a_long_output_is_sealed_and_one_that_changed_since_is_noticed() -> None:
    play, (long, short) = asked_for(a_read("long"), a_read("short"))
    play.runs(long, "x" * (SEALED_CHARACTERS + 1))
    play.runs(short, "x" * SEALED_CHARACTERS)

    found = stored_output(play.result(long))

    assert found is not None
    assert found.sha256 == play.result(long)["sha256"] == hashlib.sha256(found.text.encode()).hexdigest()
    assert stored_output(play.result(long) | {"output": "y" * len(found.text)}) is None
    assert "sha256" not in play.result(short)
    assert stored_output(play.result(short)) is not None
    assert not any("sha256" in part for message in play.public_messages() for part in message["parts"])
