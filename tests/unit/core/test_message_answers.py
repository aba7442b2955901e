"""A plain message while a question is open (field case F064)."""

from typing import Any

import pytest

from perdure.core import texts
from perdure.core.commands import InboxPolicy
from perdure.core.entries import FileRef
from tests.unit.core.builders import Play, a_call, asked_for


def a_question(**arguments: Any) -> Any:
    return a_call("ask_user", built_in=True, arguments={"question": "Which?"} | arguments)


def asking(*questions: Any) -> Play:
    play, _ = asked_for(*questions)
    return play


def test_it_answers_the_one_open_question() -> None:
    play = asking(a_question(choices=["red", "blue"]))

    reply = play.send("the second one, but cheaper", message_id="m-2").reply

    assert reply == {"message_id": "m-2", "delivered_as": "answer", "interrupt_id": "call-2-0", "version": 3}
    assert play.result("call-2-0")["output"] == '{"status": "answered", "answer": "the second one, but cheaper"}'
    assert play.head.inbox == ()
    assert play.head.turn is not None
    assert play.head.turn.step is not None


@pytest.mark.parametrize(
    "questions",
    [(a_question(choices=["red"], allows_free_text=False),), (a_question(), a_question())],
    ids=["choices-only", "two"],
)
def test_it_replaces_what_it_can_not_answer(questions: tuple[Any, ...]) -> None:
    play = asking(*questions)

    reply = play.send("something else").reply

    assert reply["delivered_as"] == "steer"
    assert {play.result(f"call-2-{n}")["output"] for n in range(len(questions))} == {texts.UNANSWERED["steered"]}
    assert texts.UNANSWERED["steered"] != texts.DECLINED
    assert play.pending == []
    assert play.turn.turn_id == "turn-2"
    assert play.head.inbox == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"delivery": "queue"},
        {"source": "webhook"},
        {"policies": {"support": InboxPolicy(answers=False)}},
    ],
    ids=["says-how", "no-person", "the-agent-does-not-want-it"],
)
def test_it_waits_if_that_is_what_was_asked_for(changes: dict[str, Any]) -> None:
    play = asking(a_question())

    reply = play.send("later", **changes).reply

    assert reply["delivered_as"] == "queue"
    assert play.pending == ["call-2-0"]


@pytest.mark.parametrize("more", [{"files": (FileRef(reference="f-1"),)}, {"metadata": {"from": "phone"}}])
def test_one_with_a_file_or_metadata_is_a_message_of_its_own(more: dict[str, Any]) -> None:
    play = asking(a_question())

    reply = play.send("look at this", **more).reply

    assert reply["delivered_as"] == "steer"
    assert play.turn.turn_id == "turn-2"


def test_an_open_approval_alone_changes_nothing() -> None:
    play = asking(a_call("pay", "non_idempotent_write", gated=True))

    reply = play.send("hello?").reply

    assert reply["delivered_as"] == "queue"
    assert play.pending == ["call-2-0"]
