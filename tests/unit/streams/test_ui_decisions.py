"""Which decisions of a posted message are taken."""

from typing import Any

import pytest

from perdure.errors import InvalidRequestError
from perdure.streams.ui_decisions import MOST_DECISIONS, Decision, decisions_of

JsonObject = dict[str, Any]


def responded(approval_id: str, *, approved: bool = True) -> JsonObject:
    return {
        "type": "dynamic-tool",
        "state": "approval-responded",
        "approval": {"id": approval_id, "approved": approved},
    }


def question(interrupt_id: str, state: str = "pending", **data: Any) -> JsonObject:
    return {"type": "data-question", "id": interrupt_id, "data": {"state": state, **data}}


def test_the_first_decision_on_each_approval_counts_and_a_hundred_at_most() -> None:
    parts = [responded("call-0", approved=False), *[responded(f"call-{n}") for n in range(MOST_DECISIONS + 5)]]

    decisions = decisions_of(parts)

    assert decisions[0] == Decision("call-0", {"approved": False})
    assert [decision.interrupt_id for decision in decisions] == [f"call-{n}" for n in range(MOST_DECISIONS)]


def test_only_what_the_page_answered_now_is_an_answer() -> None:
    parts = [
        question("q-1", answer="red", message="I think"),
        question("q-2"),
        question("q-3", "answered", answer="blue"),
        question("q-4", declined=True),
        question("input:size", value={"cm": 3}),
        {"type": "data-question", "data": {"state": "pending", "answer": "no id"}},
        {"type": "text", "text": "hello"},
        {"type": "tool-wipe", "state": "output-available", "approval": {"id": "call-9", "approved": True}},
    ]

    assert decisions_of(parts) == [
        Decision("q-1", {"answer": "red", "message": "I think"}),
        Decision("q-4", {"approved": False}),
        Decision("input:size", {"value": {"cm": 3}}),
    ]


@pytest.mark.parametrize("data", [{"answer": 3}, {"answer": "a", "message": 3}])
def test_an_answer_that_is_no_text_is_refused(data: JsonObject) -> None:
    with pytest.raises(InvalidRequestError, match="is a text"):
        decisions_of([question("q-1", **data)])
