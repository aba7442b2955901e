"""Function tools: a Python function that a model may call."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar, overload

from perdure.agents.execution import output_text, run_body
from perdure.agents.policies import ApprovalRule, Effect, check_effect
from perdure.agents.waiting import Answer, DurableSteps, SessionHandle, ToolTask, check_wait
from perdure.errors import ConfigurationError, PermanentError, ToolExecutionError

if TYPE_CHECKING:
    from perdure.agents.schema import Parameters

JsonObject = dict[str, Any]

T = TypeVar("T")
ReportProgress = Callable[[str], Awaitable[None]]
SaveCheckpoint = Callable[[str], Awaitable[bool]]


async def _saved_nowhere(_: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a running tool may know; a parameter annotated with this class receives it.

    Attributes:
        idempotency_key: `<tenant>/<session>/<turn>/<call>`, the same on every attempt (spec TOOL-08).
        attempt: From 1.
        message_id: Of the message that began the turn; that of an event is `<source>:<event id>`.
        deadline: The attempt is cut off then.
        abort: Set when the turn was stopped or the lease was lost; honouring it is up to the tool.
        report_progress: Shows a text to the viewers, 4096 characters of it at most; never model input. Awaitable, for
            async tools.
        answers: What people answered to the questions that this call's tool has asked, oldest first.
        continuation: What the tool kept when it asked last, or its task when it was looked at last.
        resolution: Of a look at a task: what became of its question. None: nothing is to be delivered.
        supports_tasks: The runner can look after remote work (spec TASK-09).
        checkpoint: The text that an earlier attempt of this call saved last, so that this one can go on from there.
            None: there is none. It may be older than what was done, because a checkpoint may be lost.
        save_checkpoint: Keeps a text for the next attempt, in place of the one before; for async tools. At most 4096
            bytes of UTF-8, else `InvalidRequestError`. True: it is kept. False: it may be lost, which is no reason
            to stop. A tool whose attempt was given up is cut off here. Outside a session nothing is kept.
        session: Its own session: messages and schedules. None: no runtime runs this tool.
    """

    tenant: str
    session_id: str
    turn_id: str
    tool_call_id: str
    tool_name: str
    attempt: int
    idempotency_key: str
    message_id: str | None = None
    deadline: datetime | None = None
    abort: asyncio.Event = field(default_factory=asyncio.Event)
    report_progress: ReportProgress | None = None
    answers: tuple[Answer, ...] = ()
    continuation: Any = None
    resolution: Answer | None = None
    supports_tasks: bool = False
    durable: DurableSteps | None = None
    checkpoint: str | None = None
    save_checkpoint: SaveCheckpoint = _saved_nowhere
    session: SessionHandle | None = None

    @overload
    async def step(self, name: str, function: Callable[[], Awaitable[T]]) -> T: ...

    @overload
    async def step(self, name: str, function: Callable[[], T]) -> T: ...

    async def step(self, name: str, function: Callable[[], Any]) -> Any:
        """Do something once, whatever happens to this call: later runs of it get the recorded result.

        Args:
            name: Unique in this call, at most 100 characters.
            function: Takes nothing; `async` or not. Its result is anything that JSON can write, and comes back as JSON.

        Raises:
            OutsideToolError: No runtime runs this tool.
            ToolExecutionError: The call has recorded the most that one may.
        """
        return await self._durable().step(name, function)

    async def sleep(self, name: str, duration: timedelta) -> None:
        """Wait without a worker. The tool runs again from its start then, and passes the sleeps that are over.

        Args:
            name: Unique in this call, at most 100 characters.
            duration: 0 to 365 days.

        Raises:
            OutsideToolError: No runtime runs this tool.
            ConfigurationError: The duration is outside its limits.
        """
        check_wait(duration, f"sleep {name!r}")
        await self._durable().sleep(name, duration)

    async def wait_for_event(self, name: str, within: timedelta | None = None) -> Any:
        """Wait without a worker until trusted code brings the event (`session.send_event`), and return its value.

        Raises:
            EventTimeoutError: It did not come in time.
            OutsideToolError: No runtime runs this tool.
        """
        if within is not None:
            check_wait(within, f"the time for event {name!r}")
        return await self._durable().wait_for_event(name, within)

    async def show(self, output: Any) -> None:
        """Show what there is so far, as a durable event `tool.output`. Never model input (spec TOOL-17)."""
        await self._durable().show(output)

    async def event(self, event_type: str, payload: Mapping[str, Any] | None = None, *, durable: bool = False) -> None:
        """Show an event of the application's own, such as `myapp.stage`. Never model input (spec EVT-07).

        Args:
            event_type: Begins with a prefix that is none of ours (`perdure.core.own_events`) and a dot.
            payload: JSON values, at most 16 KiB as compact UTF-8 JSON.
            durable: False: live only, to whoever watches now. True: committed at once, with a `sequence`, and there
                for every later reader. A tool that runs again tells it again, with the number of that attempt.

        Raises:
            InvalidRequestError: The type or the payload is outside these bounds.
            ConfigurationError: The payload can't be written as JSON.
            OutsideToolError: No runtime runs this tool.
        """
        await self._durable().event(event_type, payload or {}, durable=durable)

    def _durable(self) -> DurableSteps:
        if self.durable is None:
            raise OutsideToolError(
                f"{self.tool_name} is run by no runtime: steps, sleeps and events need one (perdure.open)"
            )
        return self.durable


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionTool:
    """A tool: what the model is told of it, what it does to the world, and how it is run.

    Calling it calls the plain function, so that a user's own tests need no runtime.

    Attributes:
        parameters: JSON Schema of its arguments.
        validate: Checks raw arguments and returns those that are stored and executed later, perhaps by another
            process: the same JSON values, from which `execute` makes what the annotations say.
            Raises ValueError with a short reason.
        execute: Runs the body with validated arguments and returns the output text, which is never empty, or the
            remote work that it started.
        function: The plain function, if there is one.
        lane: Of a response's calls with the same lane, one runs at a time.
        poll, cancel: Look after the remote work of a `ToolTask`; called with its handle and the context.
        reconcile: Finds out what became of an attempt whose outcome is not known; called with its idempotency key and
            the context.
        metadata: Shown beside each of its calls, as `tool_metadata`; never model input.
    """

    name: str
    description: str
    parameters: JsonObject
    validate: Callable[[JsonObject], JsonObject]
    execute: Callable[[JsonObject, ToolContext], Awaitable[str | ToolTask]]
    effect: Effect | None = None
    requires_approval: ApprovalRule | None = None
    inline: bool = False
    function: Callable[..., Any] | None = None
    lane: str | None = None
    poll: Callable[..., Any] | None = None
    cancel: Callable[..., Any] | None = None
    reconcile: Callable[..., Any] | None = None
    metadata: Mapping[str, Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.function is None:
            raise TypeError(f"tool {self.name!r} has no plain function to call")
        return self.function(*args, **kwargs)


class OutsideToolError(PermanentError, LookupError):
    """There is no tool context, because no tool is running here."""

    code = "configuration"


_running: contextvars.ContextVar[ToolContext] = contextvars.ContextVar("perdure_tool_context")


def current_tool_context() -> ToolContext:
    """Return the context of the tool call that is running, from anywhere below it, threads of `def` tools included.

    Raises:
        OutsideToolError: No tool is running here.
    """
    context = _running.get(None)
    if context is None:
        raise OutsideToolError("no tool is running here: current_tool_context() works below a tool's body only")
    return context


@contextmanager
def running_tool(context: ToolContext) -> Iterator[None]:
    """Make a context the current one; for runners of other frameworks, and for tests of code below a tool."""
    token = _running.set(context)
    try:
        yield
    finally:
        _running.reset(token)


@overload
def function_tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def function_tool(
    *,
    effect: Effect | None = None,
    requires_approval: ApprovalRule | None = None,
    name: str | None = None,
    description: str | None = None,
    inline: bool = False,
    lane: str | None = None,
    poll: Callable[..., Any] | None = None,
    cancel: Callable[..., Any] | None = None,
    reconcile: Callable[..., Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def function_tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effect: Effect | None = None,
    requires_approval: ApprovalRule | None = None,
    name: str | None = None,
    description: str | None = None,
    inline: bool = False,
    lane: str | None = None,
    poll: Callable[..., Any] | None = None,
    cancel: Callable[..., Any] | None = None,
    reconcile: Callable[..., Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a function a tool; `@function_tool` or `@function_tool(effect="read", …)`.

    An `async def` runs on the event loop, a `def` in a thread of its own. A text that it returns is the output;
    anything else becomes JSON (`output_text` has the details). It raises `ToolExecutionError` for a failure that the
    model should see; any other exception is tried again where the effect allows (spec TOOL-09).

    Args:
        effect: What it does to the world. None: the agent's default, `unclassified` unless it says otherwise.
        requires_approval: True, False, or a pure function of the arguments as the model gave them (parameters that it
            left out are absent) that returns `approved` or `ask`. None: as the effect has it.
        name: What the model calls it. None: the function's name.
        description: What the model is told of it. None: the first paragraph of the docstring.
        inline: The worker of the model step may run it when no other call is to be run: a turn is then faster and
            cheaper on AWS, but the function of model steps needs the tool's permissions. In one process every tool
            may run so.
        metadata: JSON values to be shown beside each call of it, for whoever draws it. Never model input.
        lane: Of the calls of one response with the same lane, one runs at a time (spec TOOL-18).
        poll: `poll(task_id, context)` looks at the remote work that the tool started (`ToolTask`). It returns the
            result, or `TaskPending`; it raises `ToolInputRequested` to ask a person, `ToolExecutionError` for a failure
            that the model should see. It only reads, or delivers `context.resolution` idempotently (spec TASK-05).
        cancel: `cancel(task_id, context)` asks that work to stop, idempotently, within 30 seconds. Best effort.
        reconcile: `reconcile(idempotency_key, context)` finds out what became of an attempt whose outcome is not
            known, before the model is told so. It returns the result, or `TaskPending` when it can't tell yet, and
            raises `DidNotHappenError` when nothing was done.

    Raises:
        ConfigurationError: Something in the signature or the policy is wrong; the message names it.
    """
    scope = sys._getframe(1).f_locals  # annotations may be strings that name classes of the defining function

    def decorate(target: Callable[..., Any]) -> FunctionTool:
        from perdure.agents.schema import parameters_of

        tool_name = name if name is not None else getattr(target, "__name__", "")
        if not tool_name:
            raise ConfigurationError(f"{target!r} has no name of its own: pass function_tool(name=…)")
        if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
            raise ConfigurationError(f"tool {tool_name!r} is a generator: return its result instead")
        check_effect(effect, f"tool {tool_name!r}")
        if (
            requires_approval is not None
            and not isinstance(requires_approval, bool)
            and not callable(requires_approval)
        ):
            raise ConfigurationError(f"requires_approval of tool {tool_name!r} must be a bool or a function")
        parameters = parameters_of(target, tool_name, ToolContext, scope)
        return FunctionTool(
            name=tool_name,
            description=description if description is not None else _first_paragraph(target),
            parameters=parameters.schema,
            validate=_validator(parameters),
            execute=_executor(tool_name, target, parameters),
            effect=effect,
            requires_approval=requires_approval,
            inline=inline,
            function=target,
            lane=lane,
            poll=poll,
            cancel=cancel,
            reconcile=reconcile,
            metadata=metadata,
        )

    return decorate if function is None else decorate(function)


def _first_paragraph(function: Callable[..., Any]) -> str:
    paragraph = (inspect.getdoc(function) or "").strip().split("\n\n")[0]
    return " ".join(paragraph.split())


def _validator(parameters: Parameters) -> Callable[[JsonObject], JsonObject]:
    def validate(raw: JsonObject) -> JsonObject:
        parameters.convert(raw)
        return raw

    return validate


def _executor(
    tool_name: str, function: Callable[..., Any], parameters: Parameters
) -> Callable[[JsonObject, ToolContext], Awaitable[str | ToolTask]]:
    async def execute(arguments: Mapping[str, Any], context: ToolContext) -> str | ToolTask:
        try:
            values = parameters.convert(dict(arguments))
        except ValueError as error:  # stored by an older deployment whose signature was another
            raise ToolExecutionError(f"invalid {tool_name} arguments: {error}") from error
        if parameters.context_parameter is not None:
            values[parameters.context_parameter] = context
        with running_tool(context):
            result = await run_body(function, values)
        if isinstance(result, ToolTask):
            return result
        return output_text(tool_name, result)

    return execute
