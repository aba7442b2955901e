"""What `read_tool_output` answers: a piece of a stored output, or the places where a text stands in it (TOOL-23)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.agents.built_ins import MAX_READ_CHARACTERS
from perdure.core import texts
from perdure.core.outputs import StoredOutput
from perdure.errors import ToolExecutionError

MAX_PLACES = 50
"""Places that one search tells of. Our own choice: more of them say that another text should be looked for."""

AROUND_CHARACTERS = 100
"""Characters of its line that are shown on each side of a place."""

_FIRST_LINE = 400
"""Room for the first line of an answer, in characters: names and ids of 64, a hash and some numbers."""


def piece(output: StoredOutput, arguments: Mapping[str, Any], most: int | None) -> str:
    """Return what a call of `read_tool_output` with these checked arguments answers.

    Args:
        most: The agent's `tool_output_limit`: a longer answer would be cut itself.

    Raises:
        ToolExecutionError: The offset lies behind the output's end.
    """
    offset = arguments.get("offset", 0)
    if offset > len(output.text) or (offset and offset == len(output.text)):
        raise ToolExecutionError(
            f"offset {offset} is behind the end: the output of {output.call_id} has {len(output.text)} characters"
        )
    room = min(MAX_READ_CHARACTERS, most or MAX_READ_CHARACTERS) - _FIRST_LINE
    room = min(room, arguments.get("limit", room))
    if "search" in arguments:
        return _found(output, arguments["search"], offset, room)
    return _read(output, offset, room)


def _read(output: StoredOutput, offset: int, room: int) -> str:
    end = min(offset + room, len(output.text))
    line = output.text.count("\n", 0, offset) + 1
    rest = "That is its end." if end == len(output.text) else f"Go on with offset {end}."
    told = f"characters {offset} to {end} of {len(output.text)}, from line {line} on. {rest}"
    return f"{_head(output)}: {told}\n\n{output.text[offset:end]}"


def _found(output: StoredOutput, wanted: str, offset: int, room: int) -> str:
    text = output.text
    folded, wanted = _folded(text), _folded(wanted)
    end, left = len(text), room
    places: list[str] = []
    line, counted = 1, 0
    start = folded.find(wanted, offset)
    while start >= 0:
        line, counted = line + text.count("\n", counted, start), start
        place = f"offset {start}, line {line}: {_line_around(text, start, start + len(wanted))}"
        if len(places) == MAX_PLACES or (places and len(place) + 1 > left):
            end = start
            break
        left -= len(place) + 1
        places.append(place)
        start = folded.find(wanted, start + len(wanted))
    rest = "That is its end." if end == len(text) else f"Go on with offset {end}."
    told = f"matches: {len(places)}, in characters {offset} to {end} of {len(text)}. {rest}"
    return "\n".join((f"{_head(output)}: {told}", "", *places)) if places else f"{_head(output)}: {told}"


def _folded(text: str) -> str:
    """Return a text without upper case, in which every character has the place that it had.

    Lower case alone would make two characters of one, and tell one letter by what stands behind it.
    """
    return text.replace("\u0130", "i").lower().replace("\u03c2", "\u03c3")


def _head(output: StoredOutput) -> str:
    return f"{texts.NOTE} Output of {output.call_id} ({output.tool_name}, {output.status}), SHA-256 {output.sha256}"


def _line_around(text: str, start: int, end: int) -> str:
    """Return what stands around a place, within its line."""
    first = max(text.rfind("\n", 0, start) + 1, start - AROUND_CHARACTERS)
    line_end = text.find("\n", end, end + AROUND_CHARACTERS)
    last = min(line_end if line_end >= 0 else len(text), end + AROUND_CHARACTERS)
    return text[first:last]
