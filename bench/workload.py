"""The workload of all measurements: T1 is one user message, one read tool, one answer; the model takes no time."""

from __future__ import annotations

import platform
import re
import sys
from dataclasses import replace
from importlib.metadata import version
from itertools import takewhile
from typing import Any

from perdure import AgentDefinition, function_tool
from perdure.core.history import ToolResultItem, UserItem
from perdure.core.usage import CallUsage
from perdure.models import ModelRequest, Reply, ScriptedModel, call

PARALLEL_TOOLS = 8
SLOW_TOOL_SECONDS = 0.05


_PARALLEL = re.compile(r"parallel(\d*) ")


def user_text(turn: int, kind: str = "read") -> str:
    """Return the user's message of a turn: about 120 characters.

    Args:
        kind: `read`: one tool that takes no time. `parallel`, `parallel64`: so many at once that take 50 ms; 8 unsaid.
    """
    return (
        f"{kind} turn {turn}: please look up note k{turn} and tell me in one or two sentences what it says; be brief."
    )


def note_text(key: str) -> str:
    """Return what the tool says: about 120 characters."""
    return (
        f"note {key}: the shipment left the harbour on tuesday and is expected on friday; the customer has been told."
    )


@function_tool(effect="read")
async def read_note(key: str) -> str:
    """Read a note by its key."""
    return note_text(key)


@function_tool(effect="read")
async def slow_read(key: str) -> str:
    """Read a note that takes 50 ms to find."""
    import asyncio

    await asyncio.sleep(SLOW_TOOL_SECONDS)
    return note_text(key)


def reply(request: ModelRequest) -> Reply:
    """Ask for the note, then answer from it. It answers from the history, so lost history fails the check."""
    users = [item for item in request.messages if type(item) is UserItem]
    results = list(takewhile(lambda item: type(item) is not UserItem, reversed(request.messages)))
    notes = [item.output for item in reversed(results) if type(item) is ToolResultItem]
    turn = len(users)
    usage = CallUsage(input_tokens=400 + 120 * turn, output_tokens=30, cached_input_tokens=0, reasoning_tokens=0)
    if notes:
        return Reply(text=f"answer {turn}: according to {len(notes)} note(s): {notes[0]}", usage=usage)
    if wanted := _PARALLEL.match(users[-1].text):
        number = int(wanted[1] or PARALLEL_TOOLS)
        calls = tuple(call("slow_read", key=f"k{turn}-{index}") for index in range(number))
        return Reply(calls=calls, usage=usage)
    return Reply(calls=(call("read_note", key=f"k{turn}"),), usage=usage)


def agent(*, hot: bool = False) -> AgentDefinition:
    """Return the agent of the workload; `hot`: its tools may run in the function of the model step."""
    tools = [replace(read_note, inline=hot), replace(slow_read, inline=hot)]
    return AgentDefinition(name="bench", model=ScriptedModel(reply, chunk=64), tools=tools)


def machine() -> dict[str, Any]:
    """Return what a figure has to be read with: the machine and the versions."""
    import os

    packages = ("pydantic", "boto3", "moto", "httpx")
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        "python": sys.version.split()[0],
        "versions": {name: version(name) for name in packages},
    }
