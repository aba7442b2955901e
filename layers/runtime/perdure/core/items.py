"""The items of a prompt's history, and what may be chosen of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from perdure.core.entries import FileRef

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserItem:
    """A user's text, or a note of ours."""

    text: str
    files: tuple[FileRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallItem:
    """A tool call as the model made it. `arguments` is None when `arguments_text` was no JSON object."""

    call_id: str
    tool_name: str
    arguments: JsonObject | None
    arguments_text: str = ""
    provider_call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelItem:
    """One output of a model. `provider` is replayed only to the provider that it names (spec MODEL-11)."""

    text: str
    reasoning: str = ""
    calls: tuple[CallItem, ...] = ()
    provider: JsonObject | None = None
    files: tuple[FileRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultItem:
    """The one result of a call."""

    files: ClassVar[tuple[FileRef, ...]] = ()  # whoever looks for files need not ask first what an item is

    call_id: str
    tool_name: str
    status: str
    output: str


HistoryItem = UserItem | ModelItem | ToolResultItem

InterruptedAssistant = Literal["marked", "note", "turn_aborted", "omit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions:
    """How the past is shown to a model.

    Attributes:
        interrupted_assistant: An answer that was stopped: as the model's own words with a mark, in a note of ours, in a
            `[turn_aborted]` user text, or not at all (spec STOP-10).
        failed_evidence: Whether what a failed turn had of an answer is shown, marked as none (spec MODEL-25).
        tool_output_limit: As the agent has it: characters of a tool's output that are shown. None: all of them.
        reads_outputs: As the agent has it: its models have a tool to read what is not shown.
        unfinished: Makes texts of the last run state of a turn that failed, which stand before the note behind it: a
            runner's `unfinished_messages` (spec SESS-09). Pure; when it raises, the note stands alone.
    """

    interrupted_assistant: InterruptedAssistant = "marked"
    failed_evidence: bool = False
    tool_output_limit: int | None = None
    reads_outputs: bool = False
    unfinished: Callable[[JsonObject], Sequence[str]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDecision:
    """What the projection made of one message (spec MODEL-24): `shown`, `marked`, `cut` or `left_out`, and why."""

    message_id: str
    turn_id: str
    decision: Literal["shown", "marked", "cut", "left_out"]
    reason: str | None = None


def file_part(file: FileRef) -> JsonObject:
    """Return a file as a part of a message."""
    part: JsonObject = {"type": "file", "reference": file.reference, "media_type": file.media_type, "name": file.name}
    return {name: value for name, value in part.items() if value is not None}


def file_of(part: Mapping[str, Any]) -> FileRef:
    """Return the file of such a part."""
    return FileRef(reference=part["reference"], media_type=part.get("media_type"), name=part.get("name"))
