"""What a model asked for becomes calls that can be stored: parsed, checked, and with the policy that holds for them.

Evaluated once, when the model step ends; the stored decision holds from then on (spec TOOL-03, APPR-05).
"""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Collection, Sequence
from typing import Any

from perdure.agents.built_ins import BuiltInTool
from perdure.agents.definition import AgentDefinition, is_tool_name
from perdure.agents.policies import EffectivePolicy
from perdure.agents.runner import DeferredCall
from perdure.agents.tools import FunctionTool
from perdure.agents.waiting import kept_value
from perdure.core.commands import RequestedCall
from perdure.errors import ConfigurationError
from perdure.models.surrogates import mended
from perdure.operator_events import tell

JsonObject = dict[str, Any]
MAX_ARGUMENT_DEPTH = 100
"""Nesting of arguments, in levels. Our own choice: half of what pydantic's JSON parser takes (200)."""

MAX_TOOL_NAME = 64
"""Length of a tool's name, in characters: what chat-completions and Bedrock accept."""

_ILLEGAL_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")


def requested_calls(
    agent: AgentDefinition, calls: Sequence[DeferredCall], offered: Collection[str] | None = None
) -> tuple[RequestedCall, ...]:
    """Return the calls of one model response, in the model's order, ready to be stored.

    A call of an unknown tool, or with arguments that its tool refuses, is settled as `failed` and needs no approval
    (spec TOOL-10). A runner may have tools of its own: what the agent does not know is then left to the runner, with
    the agent's policy for that name (spec CLIENT-06).

    Args:
        offered: The only tools that the step offered; a call of another is settled as `failed`. None: all of them.
    """
    return tuple(_requested(agent, call, offered) for call in calls)


def _requested(agent: AgentDefinition, call: DeferredCall, offered: Collection[str] | None) -> RequestedCall:
    arguments, complaint = _parsed(call.arguments_text)
    if call.provider_executed:
        return _run_by_provider(call, arguments)
    built_in = agent.built_in(call.tool_name)
    own = agent.tool(call.tool_name)
    tool = built_in or own
    if tool is None and (agent.runner is None or not is_tool_name(call.tool_name)):
        return _settled(call, arguments, "read", unknown_tool(agent, call.tool_name))
    policy = _policy(agent, call.tool_name)
    if offered is not None and call.tool_name not in offered:
        return _settled(call, arguments, policy.effect, _not_offered(call.tool_name, offered))
    if arguments is not None and tool is not None:
        arguments, complaint = _checked(tool, arguments)
    if arguments is None or complaint:
        return _settled(call, arguments, policy.effect, f"invalid {call.tool_name} arguments: {complaint}")
    return RequestedCall(
        tool_name=call.tool_name,
        effect=policy.effect,
        requires_approval=_needs_approval(call.tool_name, policy, arguments),
        provider_call_id=call.provider_call_id,
        arguments=arguments,
        approval_deadline=agent.question_deadline if call.tool_name == "ask_user" else policy.approval_deadline,
        inline=own is not None and own.inline,
        built_in=built_in is not None and built_in.in_core,
        lane=own.lane if own is not None else None,
        reconciles=own is not None and own.reconcile is not None,
        shown=_shown(call, own),
    )


def _run_by_provider(call: DeferredCall, arguments: JsonObject | None) -> RequestedCall:
    """Return a call that its provider runs: it has its result, or trusted code brings it (spec TOOL-19)."""
    return RequestedCall(
        tool_name=storable_name(call.tool_name),
        effect="read",
        requires_approval=False,
        provider_call_id=call.provider_call_id,
        arguments=arguments,
        arguments_text=None if arguments is not None else mended(call.arguments_text),
        settled=("succeeded", mended(call.output) or '""') if call.output is not None else None,
        brought=call.output is None,
        shown=_shown(call, None),
    )


def _shown(call: DeferredCall, tool: FunctionTool | None) -> JsonObject | None:
    """Return what is shown beside a call (spec TOOL-17); None: nothing."""
    shown: JsonObject = {name: True for name in ("provider_executed", "dynamic") if getattr(call, name)}
    if call.metadata is not None:
        try:
            shown["provider_metadata"] = kept_value(call.metadata, "the metadata of a call")
        except ConfigurationError as error:  # the turn goes on without it
            tell("fault", "a call's metadata could not be kept", error=error, tool_name=call.tool_name)
    if tool is not None and tool.metadata is not None:
        shown["tool_metadata"] = dict(tool.metadata)
    return shown or None


def changed_arguments(tool: FunctionTool | BuiltInTool, arguments: JsonObject) -> JsonObject:
    """Return the arguments that a person wants a call to run with, checked as a model's are.

    Raises:
        ValueError: They can't be stored, or the tool refuses them; its text says why.
    """
    complaint = _why_not_storable(arguments)
    if not complaint:
        checked, complaint = _checked(tool, copy.deepcopy(arguments))
    if complaint:
        raise ValueError(f"invalid {tool.name} arguments: {complaint}")
    return checked


def _checked(tool: FunctionTool | BuiltInTool, arguments: JsonObject) -> tuple[JsonObject, str]:
    try:
        return tool.validate(arguments), ""
    except ValueError as error:
        return arguments, str(error) or "they were refused"
    except Exception as error:  # noqa: BLE001 - user code, such as a field's own validator
        tell("fault", "arguments could not be checked", error=error, tool_name=tool.name)
        return arguments, f"their check failed with {type(error).__name__}"


def _policy(agent: AgentDefinition, name: str) -> EffectivePolicy:
    if (built_in := agent.built_in(name)) is not None:
        return built_in.policy
    tool = agent.tool(name)
    return agent.policy_of(tool) if tool is not None else agent.policy_of_runners(name)


def _settled(call: DeferredCall, arguments: JsonObject | None, effect: str, text: str) -> RequestedCall:
    return RequestedCall(
        tool_name=storable_name(call.tool_name),
        effect=effect,
        requires_approval=False,
        provider_call_id=call.provider_call_id,
        arguments=arguments,
        arguments_text=None if arguments is not None else mended(call.arguments_text),
        settled=("failed", text),
    )


def unknown_tool(agent: AgentDefinition, name: str) -> str:
    """Return what the model is told about a tool that the agent does not have (field case F130)."""
    shown = mended(name[: 2 * MAX_TOOL_NAME])
    available = ", ".join((*(tool.name for tool in agent.tools), *agent.built_in_tools))
    return f"unknown tool {shown}; available tools: {available or 'none'}"


def _not_offered(name: str, offered: Collection[str]) -> str:
    return f"tool {name} is not available now; available tools: {', '.join(offered) or 'none'}"


def storable_name(name: str) -> str:
    """Return a name that every provider accepts in a replayed history, and that HEAD has room for."""
    return _ILLEGAL_IN_NAME.sub("_", name)[:MAX_TOOL_NAME] or "_"


def _needs_approval(tool_name: str, policy: EffectivePolicy, arguments: JsonObject) -> bool:
    try:
        return policy.needs_approval(copy.deepcopy(arguments))  # a rule that changes them changes a copy
    except Exception as error:  # noqa: BLE001 - user code; a rule that can't decide must not let a call pass
        tell("fault", "approval rule failed, so a person is asked", error=error, tool_name=tool_name)
        return True


def _parsed(text: str) -> tuple[JsonObject | None, str]:
    """Return the JSON object that a text holds and "", or None and the reason. No text is no arguments."""
    if not text.strip():
        return {}, ""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        return None, "nested too deeply"
    except ValueError as error:
        return None, str(error) if isinstance(error, _NotANumberError) else "not valid JSON"
    if not isinstance(value, dict):
        return None, "not a JSON object"
    complaint = _why_not_storable(value)
    return (None, complaint) if complaint else (value, "")


class _NotANumberError(ValueError):
    """JSON has no NaN and no infinities; `json.loads` would take them."""


def _refuse_constant(_: str) -> Any:
    raise _NotANumberError("NaN and Infinity are no JSON numbers")


def _why_not_storable(value: Any) -> str:
    """Return what keeps a parsed value from being written as JSON in UTF-8 again, or an empty text."""
    level = [value]
    for _ in range(MAX_ARGUMENT_DEPTH):
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                deeper += item.keys()
                deeper += item.values()
            elif isinstance(item, list):
                deeper += item
            elif isinstance(item, float) and not math.isfinite(item):
                return "a number is out of range"
            elif isinstance(item, str) and mended(item) is not item:
                return "a text holds half of a surrogate pair"
        if not deeper:
            return ""
        level = deeper
    return "nested too deeply"
