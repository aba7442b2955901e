"""The agent of `courses`: tools of every kind, remote work, plans, and a webhook."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from perdure.agents.definition import AgentDefinition, AgentRegistry
from perdure.agents.policies import ToolPolicy
from perdure.agents.tools import ToolContext, function_tool
from perdure.agents.waiting import TaskPending, ToolTask
from perdure.core.history import ToolResultItem, UserItem
from perdure.models import ScriptedModel
from perdure.models.base import ModelRequest
from perdure.models.scripted import Reply, call
from perdure.webhooks import HookMessage, Webhook

HUGE = "x" * 320_000
"""A text that is too large for a table item, so that it goes to the bucket."""

SOON, LATER = timedelta(minutes=10), timedelta(hours=2)
DONE: set[str] = set()
"""Handles of remote work that is over."""

HOOK_SECRET = b"a secret that nobody else knows"
HOOK_SECRETS = json.dumps({"COURSE_HOOK_SECRET": HOOK_SECRET.decode()})
HOOK = Webhook(
    name="told", secret_env="COURSE_HOOK_SECRET", handler=lambda event: HookMessage(event["session"], "say something")
)

CROWD = ("work", "pay_soon", "pay_soon", "pay_later", "look", "look", "charge", "charge")
"""Calls of one answer that leave steps for each function, and timers by message and by schedule."""


@function_tool(effect="non_idempotent_write")
def pay_soon() -> str:
    """Pay, if somebody says so within minutes."""
    return "paid"


@function_tool(effect="non_idempotent_write")
def pay_later() -> str:
    """Pay, if somebody says so within hours."""
    return "paid"


@function_tool(effect="read")
def look(at: str = "") -> str:
    """Look."""
    return at or "seen"


@function_tool(effect="non_idempotent_write", requires_approval=False)
def charge(what: str = "") -> str:
    """Charge at once."""
    return what or "charged"


def look_at_work(task_id: str, _context: ToolContext) -> str | TaskPending:
    """Work goes on until somebody ends it in `DONE`; what comes of a long one is long."""
    if task_id not in DONE:
        return TaskPending()
    return HUGE if task_id == "long" else "worked"


async def stop_work(_task_id: str, _context: ToolContext) -> None:
    """Nothing has to be done."""


@function_tool(effect="idempotent_write", poll=look_at_work, cancel=stop_work)
def work(on: str = "") -> ToolTask:
    """Have remote work done; a long one needs long notes."""
    return ToolTask("long", continuation=on) if on else ToolTask("short")


@function_tool(effect="idempotent_write", poll=look_at_work, cancel=stop_work, inline=True)
def work_from_here() -> ToolTask:
    """Have remote work done, begun by the model's worker itself."""
    return ToolTask("short")


async def planned(context: ToolContext) -> str:
    """Have a message come much later, and take it back."""
    assert context.session is not None
    plan = await context.session.schedule("say it", when={"after": {"hours": 2}})
    await context.session.cancel_schedule(plan["schedule_id"])
    return "planned"


@function_tool(effect="idempotent_write")
async def plan(context: ToolContext) -> str:
    """Plan and think again."""
    return await planned(context)


@function_tool(effect="non_idempotent_write", requires_approval=False)
async def plan_once(context: ToolContext) -> str:
    """Plan and think again."""
    return await planned(context)


@function_tool(effect="idempotent_write", inline=True)
async def plan_from_here(context: ToolContext) -> str:
    """Plan and think again, in the model's worker."""
    return await planned(context)


@function_tool(effect="read")
def look_long() -> str:
    """Return what is as long as an outcome may be that is committed together with others."""
    return "y" * 60_000


def agents() -> AgentRegistry:
    """Return an agent that does what it is told: `say`, or the names of tools, `*` behind one for huge arguments."""

    def script(request: ModelRequest) -> Reply:
        told = next(item for item in reversed(request.messages) if isinstance(item, UserItem))
        if told.text.startswith("say") or isinstance(request.messages[-1], ToolResultItem):
            return Reply(text=HUGE if told.text == "say a lot" else "done")
        return Reply(calls=tuple(_told(name) for name in told.text.split()))

    def _told(name: str) -> Any:
        huge = {"look*": {"at": HUGE}, "charge*": {"what": HUGE}, "work*": {"on": HUGE}}
        return call(name.rstrip("*"), **huge.get(name, {}))

    policies = {"pay_soon": ToolPolicy(approval_deadline=SOON), "pay_later": ToolPolicy(approval_deadline=LATER)}
    tools = [pay_soon, pay_later, look, charge, look_long, work, work_from_here, plan, plan_once, plan_from_here]
    return AgentRegistry(
        [AgentDefinition(name="test", model=ScriptedModel(script), tools=tools, tool_policies=policies)]
    )
