"""The agents that the end-to-end tests deploy: the example's, with deadlines, and one that returns much.

It is copied beside `agents.py` of the agents layer, as a user's module would be, so it imports nothing of the tests.
"""

import base64
import random
import tempfile
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import agents as _users_own  # type: ignore[import-not-found]  # sets the shop's file
from perdure import AgentDefinition, EventSink, Notice, ToolPolicy, function_tool
from perdure.agents.example import support
from perdure.agents.tools import ToolContext
from perdure.agents.waiting import TaskPending, ToolTask
from perdure.checks import Caller
from perdure.core.entries import Actor
from perdure.webhooks import HookMessage, Webhook

VERSION = "1"

SHORT_DEADLINE = timedelta(seconds=4)
LONG_DEADLINE = timedelta(seconds=150)


@function_tool(effect="read")
def read_archive(kilobytes: int) -> str:
    """Read so much of the archive; nothing makes it smaller."""
    return base64.b64encode(random.Random(7).randbytes(kilobytes * 768)).decode()


@function_tool(effect="read")
def deployed_version() -> str:
    """Tell which deployment this is."""
    return f"version {VERSION}"


def _look(task_id: str, _context: ToolContext) -> str | TaskPending:
    return "it is built" if float(task_id) <= time.time() else TaskPending()


def _stop(task_id: str, context: ToolContext) -> None:
    with (Path(tempfile.gettempdir()) / "stopped-builds").open("a", encoding="utf-8") as list_of_them:
        list_of_them.write(f"{context.session_id} {task_id}\n")


@function_tool(effect="idempotent_write", poll=_look, cancel=_stop)
def build(seconds: int) -> ToolTask:
    """Build something elsewhere, which takes a while."""
    return ToolTask(str(time.time() + seconds), poll_interval=timedelta(seconds=2))


def _with_deadline(name: str, deadline: timedelta) -> AgentDefinition:
    return replace(support, name=name, tool_policies={"refund_order": ToolPolicy(approval_deadline=deadline)})


agents = [
    replace(support, tools=[*support.tools, read_archive, deployed_version, build], tool_output_limit=None),
    _with_deadline("hasty", SHORT_DEADLINE),
    _with_deadline("patient", LONG_DEADLINE),
]
webhooks = [
    Webhook(
        name="parcels",
        secret_env="PARCELS_HOOK_SECRET",
        handler=lambda event: HookMessage(f"parcel-{event['parcel']}", event["text"]),
        caller=Caller(tenant="shop", actor=Actor(issuer="https://issuer.perdure.test/", subject="anna")),
    )
]


def _audit(notice: Notice) -> None:
    folder = Path(tempfile.gettempdir())
    if notice.session_id == "refused-once" and not (folder / "refused").exists():
        (folder / "refused").touch()
        raise ConnectionError("the audit log is down")
    with (folder / "audit").open("a", encoding="utf-8") as lines:
        lines.writelines(f"{notice.session_id} {event['sequence']}\n" for event in notice.events)


sinks = [EventSink("audit", _audit)]
assert _users_own.agents
