"""Finds the stored output of a call in its session's log, for the model that asks for it and for viewers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from perdure.agents.outputs import piece
from perdure.core.entries import Entry
from perdure.core.ids import version_of
from perdure.core.outputs import StoredOutput, stored_output
from perdure.errors import NotFoundError, PermanentError, RequestConflictError, RequestError, ToolExecutionError
from perdure.ports import SessionKey, SessionStore

if TYPE_CHECKING:
    from perdure.agents.definition import AgentDefinition
    from perdure.steps.attempt import Attempt

JsonObject = dict[str, Any]

ENTRIES_PER_READ = 8
"""Entries that are read at a time: a result mostly stands right behind its call, and each may be large. Ours."""


class DamagedOutputError(PermanentError):
    """A stored output is not what was stored."""


async def find_output(
    store: SessionStore, key: SessionKey, call_id: str, at_hand: Sequence[Entry] = ()
) -> StoredOutput:
    """Return the output of a finished call of one session.

    Args:
        at_hand: Entries that the caller has anyway; what is not in them is read.

    Raises:
        NotFoundError: `tool_call_not_found`: the session has no such call, or does not keep it any more.
        RequestConflictError: `not_finished`: the call has no result yet.
        DamagedOutputError: Its hash is not that of what was stored.
    """
    version = version_of(call_id)
    if version is None:
        raise _not_found(call_id)
    if (found := _result(at_hand, call_id)) is not None:
        return _checked(found)
    first = version
    while True:
        log = await store.read(key, first=first, limit=ENTRIES_PER_READ)
        entries = log.entries
        if first == version and (not entries or entries[0].version != version or not _asks(entries[0], call_id)):
            raise _not_found(call_id)
        if (found := _result(entries, call_id)) is not None:
            return _checked(found)
        if not entries or entries[-1].version >= log.head.version:
            raise RequestConflictError(f"tool call {call_id} has no result yet", code="not_finished")
        first = entries[-1].version + 1


async def read_tool_output(agent: AgentDefinition, attempt: Attempt, arguments: JsonObject) -> str:
    """Read the output of an earlier call; the session is the attempt's own, so no id leads into another one."""
    call_id = arguments["tool_call_id"]
    at_hand = attempt.at_hand(version_of(call_id) or 0)
    try:
        output = await find_output(attempt.ports.store, attempt.key, call_id, at_hand)
    except (RequestError, DamagedOutputError) as error:
        raise ToolExecutionError(error.message) from error
    return piece(output, arguments, agent.tool_output_limit)


def _asks(entry: Entry, call_id: str) -> bool:
    return any(
        part["type"] == "tool_call" and part["tool_call_id"] == call_id
        for message in entry.messages
        for part in message.parts
    )


def _result(entries: Sequence[Entry], call_id: str) -> JsonObject | None:
    return next(
        (
            part
            for entry in entries
            for message in entry.messages
            for part in message.parts
            if part["type"] == "tool_result" and part["tool_call_id"] == call_id
        ),
        None,
    )


def _checked(part: JsonObject) -> StoredOutput:
    found = stored_output(part)
    if found is None:
        raise DamagedOutputError(
            f"the stored output of {part['tool_call_id']} is damaged: its SHA-256 is not the one it was stored with"
        )
    return found


def _not_found(call_id: str) -> NotFoundError:
    return NotFoundError(
        f"this session has no tool call {call_id[:64]!r}, or keeps it no more", code="tool_call_not_found"
    )
