"""One run on the AWS adapters: real handlers, moto's services, and a user behind API Gateway."""

from __future__ import annotations

import os
from collections.abc import Generator
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from string import Formatter
from typing import Any

from perdure.agents.definition import AgentRegistry
from perdure.aws.subscriptions import PUMP_LEASE
from perdure.core.cursor import Cursor
from perdure.core.expected import expected_dispatches
from perdure.ports import SessionKey
from perdure.sinks import EventSink, Notice
from perdure.testing.gateway import Connection
from perdure.testing.moto import AwsInProcess, aws_in_process
from perdure.testing.simulation.aws import SimulatedDeployment
from perdure.testing.simulation.deadlines import postpone_deadlines, result_of
from perdure.testing.simulation.ending import Ending, pending, waits
from perdure.testing.simulation.faults import Plan
from perdure.testing.simulation.invariants import ViolationError, check_told
from perdure.testing.simulation.observer import Observer
from perdure.testing.simulation.scenario import Scenario
from perdure.testing.simulation.world import Told, World
from perdure.testing.virtual_time import LoopClock

SESSION = "case-42"
KEY = SessionKey("acme", SESSION)
PATH = f"/v1/sessions/{SESSION}"
ROUTES = {
    "stop": ("POST", "stop"),
    "pause": ("POST", "pause"),
    "resume": ("POST", "resume"),
    "retry": ("POST", "retry"),
    "remove": ("DELETE", "inbox/{message_id}"),
    "edit": ("PATCH", "inbox/{message_id}"),
    "move": ("PATCH", "inbox/{message_id}"),
    "deliver": ("POST", "inbox/{message_id}/deliver"),
    "skip_wait": ("POST", "waits/{wait_id}/skip"),
    "change_wait": ("PATCH", "waits/{wait_id}"),
    "cancel_wait": ("DELETE", "waits/{wait_id}"),
    "start": ("PUT", ""),
    "set_schedule": ("POST", "schedules"),
    "cancel_schedule": ("DELETE", "schedules/{schedule_id}"),
}
"""Where the operations are, under the session's path."""

FUNCTIONS = Path(__file__).parents[5] / "functions"
"""The handlers, in a checkout of the repository; they are no part of the installed package."""

LONGEST_SETTLING = timedelta(hours=3)
"""Virtual time after which work that is still expected counts as work that nobody will ever do."""

MAX_TRIES = 20

CALLS = ("call-tool", "call-single-attempt-tool")
"""The queues of calls."""


def request_of(operation: str, arguments: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Return method, path behind the session's, and body of an operation that Python calls with these arguments."""
    method, path = ROUTES[operation]
    named = {name for _, name, _, _ in Formatter().parse(path) if name}
    body = {name: value for name, value in arguments.items() if name not in named}
    body |= body.pop("when", {})
    return method, f"/{path.format(**arguments)}".rstrip("/"), body


class _Pause:
    """Hands control back to whoever drives the script: until a moment, for a time, or until nothing happens (None)."""

    def __init__(self, until: str | timedelta | None) -> None:
        self._until = until

    def __await__(self) -> Generator[str | timedelta | None, None, None]:
        yield self._until


class AwsRun:
    """One scenario under one plan. The script is driven by hand: between two of its pauses AWS does its part."""

    def __init__(self, scenario: Scenario, plan: Plan, aws: AwsInProcess) -> None:
        self.scenario = scenario
        self.plan = plan
        clock = LoopClock()
        self.world = World(clock, self._point, self._reach)
        self.deployment = SimulatedDeployment(
            aws=aws, agents=AgentRegistry([scenario.agent(self.world)]), functions=FUNCTIONS, clock=clock
        )
        self._delivered: list[int] = []
        self._refused = False
        if scenario.sink:
            self.deployment.deliver_to([EventSink("audit", self._take)])
        self.deployment.plan = plan
        if scenario.given_up:
            self.deployment.queues.gives_up = CALLS
        self._observer = Observer(aws, KEY)
        self.deployment.committed = self._observer.committed
        self._keys = count(1)
        self._reached: set[str] = set()
        self._script = scenario.script(self).__await__()
        self._waits_for: str | None = None
        self._resumes_at: datetime | None = None
        self._is_over = False
        self._viewer: Connection | None = None

    def run(self) -> Ending:
        """Run it to its end.

        Raises:
            ViolationError: Something does not hold, or the session is stuck.
        """
        try:
            self._go_on()
            while True:
                self._settle()
                if self._is_over:
                    break
                self._go_on()
            self.plan.armed = False
            return self._ending()
        finally:
            self.deployment.cold_start()

    def _go_on(self) -> None:
        """Let the user act until they wait for something."""
        until = None
        try:
            until = next(self._script)
        except StopIteration:
            self._is_over = True
        self._waits_for = until if isinstance(until, str) else None
        self._resumes_at = self.world.clock.now() + until if isinstance(until, timedelta) else None

    def _settle(self) -> None:
        """Let AWS do its part until it is the user's turn again."""
        at_last = self.world.clock.now() + LONGEST_SETTLING
        self.deployment.settle_until(lambda: self._resumes_at or at_last)
        if self._resumes_at is not None:
            self.world.clock.advance_to(self._resumes_at)
            return
        expected = expected_dispatches(self._observer.head())
        if expected:
            raise ViolationError(f"nobody will ever run {[(d.step_id, d.attempt) for d in expected]}")

    # --- the world's -----------------------------------------------------------------------------------------------

    async def _point(self, name: str) -> None:
        await self.deployment.point(name)

    async def _reach(self, moment: str) -> None:
        self._reached.add(moment)
        if self._waits_for == moment:
            with self.deployment.aside():
                self._waits_for = None
                self._go_on()

    def _ending(self) -> Ending:
        is_calm = not self.plan.struck
        ending, head = self._observer.ending(self.world, calm=is_calm)
        if self._viewer is not None:
            self._ask_again(self._viewer, is_calm)
            check_told(self._viewer.sequences, head)
        if self.scenario.sink:
            self.deployment.settle()
            check_told(self._delivered, head, "a sink")
        return ending

    async def _take(self, notice: Notice) -> None:
        """Be a sink that does not take what it is given first."""
        await self.deployment.point("sink")
        if not self._refused:
            self._refused = True
            raise ConnectionError("the sink is down")
        self._delivered += [event["sequence"] for event in notice.events]

    def _ask_again(self, viewer: Connection, is_calm: bool) -> None:
        """Do what a viewer's ping does when a pump may have died: behind its lease the next one sends the rest."""
        if is_calm:
            return
        self.plan.armed = False
        self.deployment.clock.advance(PUMP_LEASE.total_seconds() + 1)
        self.deployment.gateway.send(viewer, {"type": "ping"})

    # --- the user --------------------------------------------------------------------------------------------------

    async def send(self, text: str, *, key: str | None = None, **more: str) -> str:
        reply = self._persist("POST", f"{PATH}/inputs", {"text": text, **more}, key)
        if self.scenario.viewer and self._viewer is None:
            self._viewer = self._subscribed()
        return reply if isinstance(reply, str) else "duplicate" if reply["duplicate"] else "accepted"

    async def approve(self, approved: bool = True) -> str:
        return await self._decide("approval", approved=approved)

    async def answer(self, text: str) -> str:
        return await self._decide("question", answer=text)

    async def _decide(self, kind: str, **decision: Any) -> str:
        answer = "nothing"
        for interrupt in pending(self._observer.head(), kind):
            path = f"{PATH}/interrupts/{interrupt}"
            reply = self._persist("POST", path, decision, None)
            answer = reply if isinstance(reply, str) else reply["result"]
        return answer

    async def stop(self) -> str:
        reply = self._persist("POST", f"{PATH}/stop", {}, None)
        return reply if isinstance(reply, str) else str(reply["result"])

    async def stop_as_shown(self) -> str:
        shown = self._persist("GET", f"{PATH}/events", None, None)
        return await self.do("stop", frontier=shown["cursor"])

    async def do(self, operation: str, **arguments: Any) -> str:
        method, path, body = request_of(operation, arguments)
        reply = self._persist(method, f"{PATH}{path}", body, None)
        return reply if isinstance(reply, str) else str(reply.get("result", reply.get("delivered_as")))

    async def waits(self) -> tuple[str, ...]:
        return waits(self._observer.head())

    def now(self) -> datetime:
        return self.world.clock.now()

    async def tell(self, command: Told) -> str:
        told = command(self._observer.head())
        if told is None:
            return "nothing"
        reply = self.deployment.do(partial(result_of, KEY, told))
        self._observer.committed()
        return reply

    async def inbox(self) -> tuple[str, ...]:
        return tuple(message.message_id for message in self._observer.head().inbox)

    def _persist(self, method: str, path: str, body: Any, key: str | None) -> Any:
        key = key or f"key-{next(self._keys)}"
        for _ in range(MAX_TRIES):
            reply = self.deployment.gateway.http(method, path, body, key=key)
            if reply.status < 300:
                return reply.body
            if reply.status < 500:
                return reply.body["error"]["code"]
            self.deployment.advance(timedelta(seconds=1))
        raise ViolationError("the deployment never answered its user")

    def _subscribed(self) -> Connection:
        armed, self.plan.armed = self.plan.armed, False
        gateway = self.deployment.gateway
        viewer = gateway.connect(gateway.http("POST", "/v1/socket-tickets", {}).body["ticket"])
        assert viewer is not None
        gateway.send(viewer, {"type": "attach", "session_id": SESSION, "after": Cursor().encode(SESSION)})
        self.plan.armed = armed
        return viewer

    async def postpone_deadlines(self, by: timedelta) -> bool:
        moved = self.deployment.do(lambda ports: postpone_deadlines(ports, KEY, by))
        self._observer.committed()
        return moved

    async def when(self, moment: str) -> None:
        if moment not in self._reached:
            await _Pause(moment)

    async def settled(self) -> None:
        await _Pause(None)

    async def wait(self, time: timedelta) -> None:
        await _Pause(time)


def run_aws(scenario: Scenario, plan: Plan) -> Ending:
    """Run a scenario on the AWS adapters, in an account of its own; see `AwsRun.run`."""
    if not FUNCTIONS.is_dir():
        raise RuntimeError(f"there are no handlers at {FUNCTIONS}: run this in a checkout of the repository")
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    with aws_in_process() as aws:
        return AwsRun(scenario, plan, aws).run()
