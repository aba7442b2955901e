"""A prompt's sections and its budget (spec MODEL-20), and how full the context is (spec MODEL-21)."""

from __future__ import annotations

import pytest

from perdure import InstructionContext
from perdure.agents.budget import (
    NOTHING,
    UNAVAILABLE,
    ContextFill,
    Figure,
    PromptBudget,
    declared,
    estimated_conversation,
    estimated_tokens,
    reported,
)
from perdure.agents.prompt import PromptSection, composed
from perdure.core.history import CallItem, HistoryItem, ModelItem, ToolResultItem, UserItem
from tests.unit.agents.builders import an_agent


def a_budget(window: int | None = 1000, reserved: int | None = 300, **changes: Figure) -> PromptBudget:
    figures = {"instructions": declared(100), "schemas": declared(50), "attachments": NOTHING, "overhead": declared(10)}
    return PromptBudget(window=declared(window), reserved_output=declared(reserved), **(figures | changes))


def test_what_remains_is_the_window_without_all_that_is_reserved() -> None:
    assert a_budget().remaining == Figure(540, "computed")
    assert a_budget(attachments=Figure(200, "estimated")).remaining == Figure(340, "estimated")
    assert a_budget(window=400).remaining == Figure(-60, "computed")


@pytest.mark.parametrize(
    ("budget", "conversation", "decision"),
    [
        (a_budget(), declared(540), "fits"),
        (a_budget(), declared(541), "compact"),
        (a_budget(window=400), declared(1), "oversized"),
        (a_budget(window=400), UNAVAILABLE, "oversized"),
        (a_budget(window=460), declared(0), "fits"),
        (a_budget(window=None), declared(1), "unavailable"),
        (a_budget(reserved=None), declared(1), "unavailable"),
        (a_budget(), UNAVAILABLE, "unavailable"),
    ],
)
def test_reservations_that_exceed_the_window_are_oversized_and_a_missing_figure_decides_nothing(
    budget: PromptBudget, conversation: Figure, decision: str
) -> None:
    assert budget.decide(conversation) == decision


def test_a_figure_is_unavailable_or_has_a_value() -> None:
    with pytest.raises(ValueError, match="either a value"):
        Figure(None, "reported")
    with pytest.raises(ValueError, match="either a value"):
        Figure(1, "unavailable")
    assert (reported(None), reported(0)) == (UNAVAILABLE, Figure(0, "reported"))
    assert ContextFill() == ContextFill(prompt=UNAVAILABLE, window=UNAVAILABLE)


def test_an_estimate_counts_bytes_and_says_that_it_is_one() -> None:
    assert estimated_tokens("twelve chars", "é") == Figure(4, "estimated")
    assert estimated_tokens("") == Figure(0, "estimated")


def test_a_conversation_is_estimated_with_its_calls_and_results() -> None:
    items: list[HistoryItem] = [
        UserItem(text="x" * 8),
        ModelItem(text="y" * 4, calls=(CallItem(call_id="c", tool_name="look", arguments={"a": 1}),)),
        ToolResultItem(call_id="c", tool_name="look", status="succeeded", output="z" * 4),
    ]

    # 8 + 4 + "look" + '{"a": 1}' + 4 bytes are 7 tokens; three messages cost 4 each
    assert estimated_conversation(items) == Figure(7 + 12, "estimated")


def test_sections_stand_in_their_order_and_say_where_they_come_from() -> None:
    agent = an_agent(
        instructions=[
            PromptSection(name="role", text="Be kind."),
            PromptSection(name="empty", text=" \n"),
            PromptSection(name="policy", text="No refunds.", source="policy-book"),
        ]
    )
    context = InstructionContext(session_id="s", turn_id="turn-1", attempt=1, interaction_mode="chat", settings={})

    sections = agent.sections_for(context)

    assert agent.instructions_for(context) == "Be kind.\n\nNo refunds."
    assert [(section.name, section.source) for section in sections] == [
        ("role", "agent"),
        ("empty", "agent"),
        ("policy", "policy-book"),
    ]
    assert composed(()) == ""


def test_a_text_is_one_section_and_a_function_is_named_as_its_source() -> None:
    context = InstructionContext(session_id="s", turn_id="turn-1", attempt=1, interaction_mode="chat", settings={})

    fixed = an_agent(instructions="Be kind.").sections_for(context)
    made = an_agent(instructions=lambda seen: f"You are in {seen.session_id}.").sections_for(context)

    assert fixed == (PromptSection(name="instructions", text="Be kind.", source="agent"),)
    assert made == (PromptSection(name="instructions", text="You are in s.", source="function"),)
