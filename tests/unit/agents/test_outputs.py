"""Reading and searching an output a piece at a time (spec TOOL-23)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from perdure import BUILT_IN_TOOLS
from perdure.agents.built_ins import MAX_READ_CHARACTERS
from perdure.agents.outputs import AROUND_CHARACTERS, MAX_PLACES, piece
from perdure.core.limits import MAX_TOOL_OUTPUT_BYTES
from perdure.core.outputs import StoredOutput, output_hash
from perdure.errors import ConfigurationError, ToolExecutionError
from tests.unit.agents.builders import an_agent

LINES = "".join(f"order {n:05d} is {'late' if n % 100 == 0 else 'on its way'}\n" for n in range(5_000))
READ = BUILT_IN_TOOLS["read_tool_output"]


def an_output(text: str, tool_name: str = "orders") -> StoredOutput:
    return StoredOutput("call-2-0", tool_name, "succeeded", text, output_hash(text))


def asked(text: str, most: int | None = 16_000, **arguments: Any) -> str:
    checked = READ.validate({"tool_call_id": "call-2-0", **arguments})
    return piece(an_output(text), checked, most)


def next_offset(answer: str) -> int | None:
    found = re.search(r"Go on with offset (\d+)\.", answer.split("\n", maxsplit=1)[0])
    return int(found[1]) if found else None


def test_a_piece_says_where_it_stands_and_where_to_go_on() -> None:
    answer = asked(LINES, offset=26, limit=52)

    assert answer == (
        f"[Perdure] Output of call-2-0 (orders, succeeded), SHA-256 {output_hash(LINES)}: characters 26 to 78 of "
        f"{len(LINES)}, from line 2 on. Go on with offset 78.\n\n{LINES[26:78]}"
    )


@pytest.mark.parametrize("most", [1000, 5000, 16_000, None])
def test_piece_by_piece_all_of_it_is_read_and_no_answer_is_so_long_that_a_prompt_would_cut_it(most: int | None) -> None:
    text = LINES.replace("a", "\U0001f600")
    pieces: list[str] = []
    offset: int | None = 0
    while offset is not None:
        answer = piece(an_output(text, "n" * 64), READ.validate({"tool_call_id": "call-2-0", "offset": offset}), most)
        assert len(answer) <= min(most or MAX_READ_CHARACTERS, MAX_READ_CHARACTERS)
        pieces.append(answer.split("\n\n", 1)[1])
        offset = next_offset(answer)

    assert "".join(pieces) == text
    assert "That is its end." in answer


def test_an_offset_behind_the_end_is_a_failure_that_names_the_size() -> None:
    assert asked("abc", offset=2).endswith("\n\nc")
    assert asked("").endswith("That is its end.\n\n")
    for offset in (3, 4):
        with pytest.raises(ToolExecutionError, match=f"offset {offset} is behind the end: .* has 3 characters"):
            asked("abc", offset=offset)


def test_a_search_tells_every_place_with_offset_and_line_through_any_number_of_answers() -> None:
    offsets: list[int] = []
    offset: int | None = 0
    while offset is not None:
        answer = asked(LINES, search="IS Late", offset=offset, most=2_000)
        assert len(answer) <= 2_000
        for place in answer.split("\n")[2:]:
            found = re.fullmatch(r"offset (\d+), line (\d+): (order \d+ is late)", place)
            assert found is not None
            assert LINES.split("\n")[int(found[2]) - 1] == found[3]
            offsets.append(int(found[1]))
        offset = next_offset(answer)

    assert offsets == [match.start() for match in re.finditer("is late", LINES)]
    assert len(offsets) == 50


def test_a_search_ends_with_the_most_places_there_may_be_and_one_that_finds_nothing_says_so() -> None:
    answer = asked("x\n" * 200, search="x")

    assert answer.split("\n")[0].endswith(": matches: 50, in characters 0 to 100 of 400. Go on with offset 100.")
    assert len(answer.split("\n")[2:]) == MAX_PLACES
    assert asked("abc", search="d").endswith(": matches: 0, in characters 0 to 3 of 3. That is its end.")


def test_a_place_in_a_long_line_is_shown_with_what_stands_around_it() -> None:
    text = "a" * 5_000 + "NEEDLE" + "b" * 5_000

    (place,) = asked(text, search="needle").split("\n")[2:]

    assert place == f"offset 5000, line 1: {'a' * AROUND_CHARACTERS}NEEDLE{'b' * AROUND_CHARACTERS}"


@pytest.mark.parametrize("text", ["\u0130STANBUL Straße", "\u039f\u0394\u039f\u03a3 \u03a3", "\U0001f600 ABC"])
def test_looking_for_a_text_whatever_its_case_never_moves_a_place(text: str) -> None:
    for index, letter in enumerate(text):
        if letter != " ":
            assert f"offset {index}, line 1: " in asked(text, search=text[index].lower()[0], offset=index)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "tool_call_id: is required"),
        ({"tool_call_id": ""}, "tool_call_id: must not be blank"),
        ({"tool_call_id": "c" * 65}, "tool_call_id: has 65 characters, and may have 64"),
        ({"tool_call_id": "c", "offset": -1}, f"offset: must be from 0 to {MAX_TOOL_OUTPUT_BYTES}"),
        ({"tool_call_id": "c", "offset": 1.0}, "offset: must be a whole number"),
        ({"tool_call_id": "c", "offset": True}, "offset: must be a whole number"),
        ({"tool_call_id": "c", "limit": 0}, "limit: must be from 1 to 16000"),
        ({"tool_call_id": "c", "limit": 16_001}, "limit: must be from 1 to 16000"),
        ({"tool_call_id": "c", "search": " "}, "search: must not be blank"),
        ({"tool_call_id": "c", "search": "s" * 201}, "search: has 201 characters, and may have 200"),
        ({"tool_call_id": "c", "session_id": "other"}, "session_id: is no parameter of this tool"),
    ],
)
def test_wrong_arguments_are_refused_with_the_reason(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        READ.validate(given)


def test_optional_nulls_are_left_out() -> None:
    given = {"tool_call_id": "c", "offset": None, "limit": None, "search": None}

    assert READ.validate(given) == {"tool_call_id": "c"}


def test_an_agents_limit_leaves_room_for_the_notes() -> None:
    assert an_agent(tool_output_limit=1000).history.tool_output_limit == 1000
    assert an_agent(tool_output_limit=None).history.tool_output_limit is None
    assert an_agent().history.tool_output_limit == 16_000
    assert an_agent().history.reads_outputs is False
    assert an_agent(built_in_tools=["read_tool_output"]).history.reads_outputs is True
    with pytest.raises(ConfigurationError, match="tool_output_limit of agent 'support' must be 1000 characters"):
        an_agent(tool_output_limit=999)
