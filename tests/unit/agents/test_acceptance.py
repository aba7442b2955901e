"""What may end a turn (spec SESS-17)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.agents.acceptance import Acceptance, Answer, complaint_about
from perdure.errors import ConfigurationError
from tests.unit.agents.builders import an_agent

TEXT = {"type": "text", "text": "4100"}
REASONING = {"type": "reasoning", "text": "hm"}


def an_answer(text: str = "", *parts: dict[str, Any], **changes: Any) -> Answer:
    return Answer(session_id="s-1", turn_id="turn-1", text=text, parts=parts, settings={}, **changes)


@pytest.mark.parametrize(
    ("answer", "accepted"),
    [
        (an_answer("4100", TEXT), True),
        (an_answer("", {"type": "file", "reference": "f-1"}), True),
        (an_answer("", {"type": "data", "value": {}}), True),
        (an_answer(stop_policy="after-pay", tool_only=True), True),
        (an_answer(stop_policy="enough"), False),
        (an_answer(" \n", {"type": "text", "text": " \n"}), False),
        (an_answer("", REASONING), False),
    ],
    ids=["text", "file", "structured", "tool-only-stop", "another-stop", "blank", "reasoning-alone"],
)
async def test_an_agent_that_requires_output_takes_text_files_parts_and_a_stop_for_the_tools_sake(
    answer: Answer, accepted: bool
) -> None:
    assert (await complaint_about("require_output", answer) is None) is accepted
    assert await complaint_about("allow_empty", answer) is None


async def later(answer: Answer) -> bool:
    return False


def failing(answer: Answer) -> bool:
    raise KeyError("secret")


@pytest.mark.parametrize(
    ("check", "complaint"),
    [
        (lambda answer: True, None),
        (lambda answer: None, None),
        (lambda answer: False, "the agent's check did not accept the answer"),
        (lambda answer: "", "the agent's check did not accept the answer"),
        (lambda answer: f"{answer.text} is no JSON", "4100 is no JSON"),
        (later, "the agent's check did not accept the answer"),
        (failing, "the check of the answer failed with KeyError"),
    ],
)
async def test_a_callback_accepts_or_says_why_not_and_one_that_fails_refuses(
    check: Acceptance, complaint: str | None
) -> None:
    assert await complaint_about(check, an_answer("4100", TEXT)) == complaint


def test_an_acceptance_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="acceptance of agent 'support' must be allow_empty"):
        an_agent(acceptance="anything")
