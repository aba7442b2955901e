"""The deployment in one process: real handlers, moto's AWS, virtual time.

The harness does what AWS does between functions: it hands queue messages over one at a time, hides them while they are
worked on, shows them again when a handler failed, makes dead letters of them, fires schedules and runs the sweep
every minute. Each invocation runs in a container of its own kind that is used again while it is warm. Nothing waits:
see `virtual_time`.
"""

from __future__ import annotations

import contextlib
import contextvars
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from perdure.agents.definition import AgentRegistry
from perdure.aws import bootstrap
from perdure.aws.bootstrap import Runtime
from perdure.aws.settings import Settings
from perdure.aws.tokens import TokenVerifier
from perdure.ports import Clock
from perdure.sinks import EventSink
from perdure.testing import permissions
from perdure.testing.gateway import STREAM_URL, Gateway
from perdure.testing.issuer import AUDIENCE, ISSUER, Issuer
from perdure.testing.moto import AwsInProcess
from perdure.testing.virtual_queues import Message, Queue, VirtualQueues, VirtualSchedules
from perdure.testing.virtual_stream import VirtualStream
from perdure.testing.virtual_time import LoopClock, SkewedClock, VirtualLoop
from perdure.testing.web_adapter import adapted
from perdure.webhooks import Webhook

JsonObject = dict[str, Any]
Handler = Callable[[JsonObject, Any], JsonObject]

TIMEOUTS = {
    "api": 29,
    "socket": 29,
    "authorize": 5,
    "authorize_stream": 10,
    "stream": 900,
    "run_model": 900,
    "call_tool": 900,
    "call_single_attempt_tool": 900,
    "poll_tool_task": 180,
    "cancel_tool_task": 90,
    "fire_timer": 60,
    "sweep": 55,
    "record_dead_letter": 60,
    "relay_commits": 60,
    "deliver_notices": 300,
}
"""Timeouts of the functions, in seconds, as in `template.yaml`; a test keeps them equal."""

QUEUES = {
    "run-model": ("run_model", 960),
    "call-tool": ("call_tool", 960),
    "call-single-attempt-tool": ("call_single_attempt_tool", 960),
    "poll-tool-task": ("poll_tool_task", 360),
    "cancel-tool-task": ("cancel_tool_task", 360),
    "timers": ("fire_timer", 360),
    "notices": ("deliver_notices", 360),
}
"""Queues: the function that consumes each, and its visibility timeout in seconds, as in `template.yaml`."""

MAX_RECEIVES = 5
"""Receives after which a message becomes a dead letter, as in `template.yaml`."""

WITHOUT_DEAD_LETTERS = ("notices",)
"""Queues whose messages are received until they are taken."""

DEAD_LETTERS_VISIBILITY = timedelta(seconds=360)
SWEEP_EVERY = timedelta(minutes=1)


class Crash(BaseException):
    """The process is gone: no `except Exception` sees it, and nothing after it reaches AWS."""


@dataclass(frozen=True)
class Invocation:
    """What an invocation came to: an answer, or the error that Lambda would report."""

    function: str
    event: JsonObject
    took: timedelta
    answer: JsonObject | None = None
    error: BaseException | None = None


@dataclass
class Context:
    """The context object of one invocation, as far as handlers look at it."""

    function_name: str
    ends_at: datetime
    clock: LoopClock
    aws_request_id: str = "00000000-0000-4000-8000-000000000000"
    memory_limit_in_mb: int = 1024
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:perdure"

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self.ends_at - self.clock.now()).total_seconds() * 1000))


@dataclass
class LambdaHarness:
    """One deployment.

    Attributes:
        agents: What `PERDURE_AGENTS` would name.
        functions: The repository's `functions` folder.
        deliveries: How often each message is handed over; 2 doubles everything, as SQS may.
        invocations: All invocations so far, the oldest first.
        before_invocation: Called before each one; may raise `Crash` to lose the invocation as a whole.
        webhooks, sinks: What stands beside the agents in their module. Without sinks the table has no stream.
        skews: How much the clocks of a function's new containers are ahead of the time, or behind it when negative.
        threads: Where new containers make their calls; None: in the pool of `perdure.aws.clients`.
        running: The function that runs now; None: AWS itself, that is, the harness.
    """

    aws: AwsInProcess
    agents: AgentRegistry
    functions: Path
    clock: LoopClock = field(default_factory=LoopClock)
    deliveries: int = 1
    invocations: list[Invocation] = field(default_factory=list)
    before_invocation: Callable[[str, JsonObject], None] = lambda _function, _event: None
    webhooks: Sequence[Webhook] = ()
    sinks: Sequence[EventSink] = ()
    skews: Mapping[str, timedelta] = field(default_factory=dict)
    threads: Executor | None = None
    running: str | None = None

    def __post_init__(self) -> None:
        self.issuer = Issuer(self.clock)
        known: dict[str, Any] = {"jwt_issuer": ISSUER, "jwt_audience": AUDIENCE, "stream_url": STREAM_URL}
        known["notices_queue_url"] = self.aws.queue_urls["notices"]
        self._settings = replace(Settings.from_environment(self.aws.environment()), **known)
        self._current: contextvars.ContextVar[Runtime] = contextvars.ContextVar("container")
        self._warm: dict[str, list[Runtime]] = {}
        self._ids = 0
        self._handlers: dict[str, Handler] = {}
        self.queues = VirtualQueues(self.aws.clients, self.clock, self._make_queues())
        self.schedules = VirtualSchedules(self.aws.clients, self.aws.schedule_group)
        self.stream: VirtualStream | None = None
        if self.sinks:
            self.deliver_to(self.sinks)
        self.gateway = Gateway(self.invoke, self.aws.clients, self.clock, self.issuer)
        self._next_sweep = self.clock.now() + SWEEP_EVERY
        for watcher in permissions.WATCHERS:
            watcher(self)

    def _make_queues(self) -> list[Queue]:
        made = []
        for name, (function, visibility) in QUEUES.items():
            dead_name = f"{name}-dead-letters" if name not in WITHOUT_DEAD_LETTERS else None
            made.append(
                Queue(
                    name=name,
                    url=self.aws.queue_urls[name],
                    arn=self.aws.queue_arns[name],
                    function=function,
                    visibility=timedelta(seconds=visibility),
                    max_receives=MAX_RECEIVES if dead_name else None,
                    dead_letters=dead_name,
                )
            )
            if dead_name:
                made.append(
                    Queue(
                        name=dead_name,
                        url=self.aws.clients.sqs.create_queue(QueueName=dead_name)["QueueUrl"],
                        arn=f"{self.aws.queue_arns[name]}-dead-letters",
                        function="record_dead_letter",
                        visibility=DEAD_LETTERS_VISIBILITY,
                    )
                )
        return made

    def deliver_to(self, sinks: Sequence[EventSink]) -> None:
        """Have sinks from now on, and so a stream of the table."""
        self.sinks = sinks
        self.stream = VirtualStream(self.aws.clients, self.aws.table, self.clock)

    # --- invocations ---------------------------------------------------------------------------------------------

    def invoke(self, function: str, event: JsonObject) -> Invocation:
        """Run one function once, and take over what it sent."""
        began_at = self.clock.now()
        outer, self.running = self.running, function
        try:
            self.before_invocation(function, event)
            with self._container(function) as container:
                context = Context(function, self.clock.now() + timedelta(seconds=TIMEOUTS[function]), self.clock)
                token = self._current.set(container)
                try:
                    answer = self._handler(function)(event, context)
                finally:
                    self._current.reset(token)
                if self.clock.now() > context.ends_at:  # too late to stop it where Lambda would have
                    raise TimeoutError(f"{function} ran longer than its {TIMEOUTS[function]} s")
            done = Invocation(function, event, self.clock.now() - began_at, answer=answer)
        except (Exception, Crash) as error:  # noqa: BLE001 - Lambda reports whatever it is
            done = Invocation(function, event, self.clock.now() - began_at, error=error)
        finally:
            self.running = outer
        self.invocations.append(done)
        self.collect()
        return done

    def collect(self) -> None:
        """Take over what was sent and written since the last look."""
        self.queues.collect()
        if self.stream is not None:
            self.stream.collect()

    @contextlib.contextmanager
    def _container(self, function: str) -> Iterator[Runtime]:
        """Lend a warm container, or a new one. One in which something was raised is not used again."""
        warm = self._warm.setdefault(function, [])
        container = warm.pop() if warm else self._new_container(function)
        try:
            yield container
        except BaseException:
            _abandon(container)
            raise
        warm.append(container)

    def _new_container(self, function: str = "") -> Runtime:
        container = Runtime(
            self._settings,
            clients=self.aws.clients,
            clock=self._clock_of(function),
            new_id=self._new_id,
            agents=self.agents,
            webhooks=self.webhooks,
            sinks=self.sinks,
        )
        container.__dict__["loop"] = self._new_loop()
        if function == "authorize_stream":
            container.__dict__["tokens"] = TokenVerifier(
                issuer=ISSUER, audience=[AUDIENCE], clock=container.clock, fetch=self.issuer.fetch
            )
        return container

    def _clock_of(self, function: str) -> Clock:
        skew = self.skews.get(function)
        return SkewedClock(self.clock, skew) if skew else self.clock

    def _new_loop(self) -> VirtualLoop:
        return VirtualLoop(self.clock, self.threads)

    def _new_id(self) -> str:
        self._ids += 1
        return f"id{self._ids:08d}"

    def cold_start(self) -> None:
        """Throw all warm containers away, as a deployment does."""
        for containers in self._warm.values():
            while containers:
                _abandon(containers.pop())

    def _handler(self, function: str) -> Handler:
        if function not in self._handlers:
            self._handlers[function] = self._load(function)
        return self._handlers[function]

    def _load(self, function: str) -> Handler:
        """Import a function's `app.py` with containers of this harness instead of the process's own."""
        path = self.functions / function / "app.py"
        spec = importlib.util.spec_from_file_location(f"perdure_function_{function}", path)
        assert spec is not None, f"there is no {path}"
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        own = bootstrap.runtime
        bootstrap.runtime = self._current.get  # type: ignore[assignment]
        try:
            spec.loader.exec_module(module)
        finally:
            bootstrap.runtime = own
        if hasattr(module, "app"):
            return adapted(module.app, self._current.get)
        handler: Handler = module.handler
        return handler

    # --- time ----------------------------------------------------------------------------------------------------

    def settle(self, within: timedelta = timedelta(minutes=30)) -> None:
        """Let everything happen that happens by itself within a time. The clock stops at the last of it."""
        limit = self.clock.now() + within
        while (moment := self._next_moment()) is not None and moment <= limit:
            self.clock.advance_to(moment)
            self._do_next()

    def advance(self, by: timedelta) -> None:
        """Move the clock on, letting everything happen on the way."""
        ends_at = self.clock.now() + by
        self.settle(by)
        self.clock.advance_to(ends_at)

    def deliver_one(self) -> Invocation | None:
        """Hand over the message that is visible first, moving the clock to it. None: there is no message."""
        message = self.queues.next_message()
        if message is None:
            return None
        self.clock.advance_to(message.visible_at)
        return self._deliver(message)

    def _next_moment(self) -> datetime | None:
        message = self.queues.next_message()
        if message is not None and message.visible_at <= self.clock.now():
            return self.clock.now()
        schedules = self.schedules.pending()
        moments = [message.visible_at] if message else []
        moments += [schedules[0][0]] if schedules else []
        moments += [self.stream.due_at] if self.stream is not None and self.stream.due_at is not None else []
        due_at = self._first_due()
        if due_at is not None:
            moments.append(max(due_at, self._next_sweep))
        return min(moments, default=None)

    def _do_next(self) -> None:
        now = self.clock.now()
        message = self.queues.next_message()
        if message is not None and message.visible_at <= now:
            self._deliver(message)
            return
        if self.stream is not None and self.stream.due_at is not None and self.stream.due_at <= now:
            self._relay(self.stream)
            return
        schedules = self.schedules.pending()
        if schedules and schedules[0][0] <= now:
            self.schedules.fire(schedules[0][1], self.queues)
            return
        self.sweep()

    def sweep(self) -> Invocation:
        """Run the sweep, as its rule does every minute. One that nothing is due for may be left out."""
        self._next_sweep = self.clock.now() + SWEEP_EVERY
        return self.invoke("sweep", {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}})

    def _deliver(self, message: Message) -> Invocation | None:
        if not self.queues.receive(message):
            return None
        function = self.queues.queues[message.queue].function
        event = self.queues.event(message)
        for _ in range(self.deliveries):
            done = self.invoke(function, event)
        failed = (done.answer or {}).get("batchItemFailures", [])
        if done.error is None and not failed:
            self.queues.delete(message)
        return done

    def _relay(self, stream: VirtualStream) -> None:
        """Hand a batch of the table's stream over; the next one is not before it has been taken."""
        event = stream.event()
        done = [self.invoke("relay_commits", event) for _ in range(self.deliveries)]
        stream.answered(ok=done[-1].error is None)

    def _first_due(self) -> datetime | None:
        """Return when the first session is due for the sweep, as the table says."""
        rows = self.aws.clients.dynamodb.scan(
            TableName=self._settings.table_name, FilterExpression="attribute_exists(due_at)"
        )["Items"]
        millis = min((int(row["due_at"]["N"]) for row in rows), default=None)
        return datetime.fromtimestamp(millis / 1000, tz=self.clock.now().tzinfo) if millis is not None else None


def _abandon(container: Runtime) -> None:
    """Throw a container away: its tasks never run again."""
    loop = container.loop
    for task in _tasks_of(loop):
        task._log_destroy_pending = False
    loop.close()


def _tasks_of(loop: Any) -> set[Any]:
    import asyncio

    return asyncio.all_tasks(loop)
