"""Fragments and the message that they add up to, whatever was missed or began again."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.run_items import Fragment, Words


def message(text: str, reasoning: str = "") -> dict[str, Any]:
    parts = [{"type": "reasoning", "text": reasoning}] if reasoning else []
    return {"parts": [*parts, {"type": "text", "text": text}]}


def put_together(fragments: list[Fragment]) -> dict[str, str]:
    texts = {"text": "", "reasoning": ""}
    for fragment in fragments:
        texts[fragment.type] = fragment.text if fragment.restart else texts[fragment.type] + fragment.text
    return texts


@pytest.mark.parametrize(
    ("heard", "text"),
    [
        ([], "Hello."),
        ([("Hel", 1)], "Hello."),
        ([("Hel", 1), ("lo.", 1)], "Hello."),
        ([("Hi th", 1), ("Hel", 2)], "Hello."),
        ([("Hi th", 1)], "Hello."),
        ([("Hello. And more", 1)], "Hello."),
        ([("Hello", 1)], ""),
        ([("Hello", 1), None], "Hello."),
        ([("Hello", 1), None, ("Hel", 1)], "Hello."),
        ([("Hello", 1), None, None], ""),
    ],
)
def test_fragments_add_up_to_the_message(heard: list[tuple[str, int] | None], text: str) -> None:
    words = Words()
    fragments = []
    for piece in heard:
        if piece is None:
            words.begin_again()
        else:
            fragments.append(words.heard("text", piece[0], "model-2-0", piece[1]))

    fragments += words.completed_by(message(text, reasoning="Hm."))

    assert put_together(fragments) == {"text": text, "reasoning": "Hm."}


def test_what_came_whole_needs_no_fragment_more_and_the_next_message_begins_by_itself() -> None:
    words = Words()
    words.heard("text", "Hello.", "model-2-0", 1)

    assert words.completed_by(message("Hello.")) == []
    assert words.heard("text", "More.", "model-4-0", 1) == Fragment(
        type="text", text="More.", step_execution_id="model-4-0", attempt=1
    )
