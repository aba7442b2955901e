"""Outputs of tools: how one that is too long for a prompt is shown there, and the hash that it is read back by.

The log keeps the whole output; what a prompt has of it is made anew from it, always with the same bytes (spec TOOL-24).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from perdure.core import texts
from perdure.core.ids import content_hash
from perdure.core.items import CallItem, HistoryOptions

JsonObject = dict[str, Any]

DEFAULT_OUTPUT_LIMIT = 16_000
"""Default of `AgentDefinition.tool_output_limit`, in characters (spec TOOL-24)."""

SEALED_CHARACTERS = 1_000
"""An output that is longer, in characters, is stored with its hash. Our own choice: no prompt cuts a shorter one."""

OUTPUT_CHARACTERS = 100_000
"""Characters of an output in one reply to a viewer, if they say nothing else. Our own choice."""

MOST_OUTPUT_CHARACTERS = 500_000
"""Characters of an output in one reply at most. Our own choice: 3.5 MB where each of them takes seven bytes, as a NUL
does in JSON that stands in JSON (`bounds.MAX_PAGE_BYTES`)."""

READER = "read_tool_output"
"""The built-in tool that reads what a prompt does not show."""

_CUT = (
    "{note} This output is too long to be shown whole: {left_out} characters are left out here. All of it has "
    "{characters} characters ({bytes} bytes in UTF-8, SHA-256 {sha256}). {how}"
)
_READ_ON = 'Read the rest with {reader}: tool_call_id "{call_id}", offset {offset}.'
_ASK_FOR_LESS = "The rest can't be read from here: ask for less at a time."
_SAME_CALL = (
    " You have made this call before in this turn, with the same arguments ({call_id}); that output was cut in the "
    "same way and {compared}. Repeating the call shows no more of it."
)
_EMPTY = f"{texts.NOTE} There is no text in this output."


class StoredOutput(NamedTuple):
    """The output of a finished call, as it is stored: `sha256` is that of the text."""

    call_id: str
    tool_name: str
    status: str
    text: str
    sha256: str


def output_hash(text: str) -> str:
    """Return the SHA-256 of an output's UTF-8 bytes, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def seal(output: str) -> JsonObject:
    """Return what the result part of a long output holds besides, by which damage to it is noticed later."""
    return {"sha256": output_hash(output)} if len(output) > SEALED_CHARACTERS else {}


def stored_output(part: Mapping[str, Any]) -> StoredOutput | None:
    """Return the output that a result part holds; None when it is not what was sealed."""
    text = part["output"]
    found = output_hash(text)
    if part.get("sha256", found) != found:
        return None
    return StoredOutput(part["tool_call_id"], part["tool_name"], part["status"], text, found)


def output_page(stored: StoredOutput, offset: int, limit: int) -> JsonObject:
    """Return a piece of an output for a viewer; `next_offset` is there as long as there is more."""
    end = offset + limit
    page: JsonObject = {
        "output": stored.text[offset:end],
        "total_characters": len(stored.text),
        "sha256": stored.sha256,
    }
    return page | {"next_offset": end} if end < len(stored.text) else page


class ShownOutputs:
    """What the prompt has of the outputs of one turn. Asked for each in the order of the calls."""

    def __init__(self, options: HistoryOptions) -> None:
        self._options = options
        self._cut: dict[tuple[str, str], tuple[str, str]] = {}

    def shown(self, call: CallItem, part: Mapping[str, Any]) -> str:
        """Return the text that the model sees of a call's result; never empty."""
        output: str = part["output"]
        limit = self._options.tool_output_limit
        if limit is None or len(output) <= limit:
            return output if output.strip() else _EMPTY
        tail = limit // 4
        head = limit - tail
        found = part.get("sha256") or output_hash(output)
        note = _CUT.format(
            note=texts.NOTE,
            left_out=len(output) - limit,
            characters=len(output),
            bytes=len(output.encode("utf-8", "surrogatepass")),
            sha256=found,
            how=_READ_ON.format(reader=READER, call_id=call.call_id, offset=head)
            if self._options.reads_outputs
            else _ASK_FOR_LESS,
        )
        return f"{output[:head]}\n\n{note}{self._repeated(call, found)}\n\n{output[-tail:]}"

    def _repeated(self, call: CallItem, found: str) -> str:
        """Return a word on a call that was made before, and whose output was cut then, too (field case F077)."""
        asked = call.arguments if call.arguments is not None else call.arguments_text
        key = (call.tool_name, content_hash(asked))
        before = self._cut.get(key)
        self._cut[key] = (call.call_id, found)
        if before is None:
            return ""
        call_id, hash_before = before
        compared = "is the same" if hash_before == found else "has changed since"
        return _SAME_CALL.format(call_id=call_id, compared=compared)
