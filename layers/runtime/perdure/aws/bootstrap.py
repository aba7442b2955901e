"""What a Lambda container keeps for its life: settings, clients, ports, agents and one event loop."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Coroutine, Sequence
from datetime import datetime, timedelta
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from perdure.agents.definition import AgentDefinition, AgentRegistry
from perdure.aws.clients import Clients
from perdure.aws.clock import SystemClock, new_id
from perdure.aws.leases import DynamoDBLeases
from perdure.aws.limits import SETTLE_TAIL_BYTES
from perdure.aws.live import ApiGatewayLive
from perdure.aws.model_key import provide_model_key
from perdure.aws.progress import ProgressLog
from perdure.aws.queues import Sender, SqsStepQueue
from perdure.aws.results import DynamoDBResults
from perdure.aws.settings import Settings
from perdure.aws.store import DynamoDBSessionStore
from perdure.aws.subscriptions import Subscriptions
from perdure.aws.table import Table
from perdure.aws.timers import SchedulerTimers
from perdure.errors import ConfigurationError
from perdure.operator_events import tell
from perdure.ports import Clock, NewId, Ports
from perdure.steps.base import StepDeps

if TYPE_CHECKING:  # what only the API's functions need
    from perdure.access import Authorize
    from perdure.aws.delivery import Pump
    from perdure.aws.messages import NoticeMessage
    from perdure.aws.notices import Notices
    from perdure.aws.tickets import SocketTickets
    from perdure.aws.tokens import TokenVerifier
    from perdure.aws.webhook_secrets import WebhookSecrets
    from perdure.service import Service
    from perdure.sinks import EventSink
    from perdure.webhooks import Webhook

T = TypeVar("T")

PROGRESS_INTERVAL_SECONDS = 1.0
"""How long progress is gathered before it is written (design §7: 1 s or 4 KB in the table)."""


class Runtime:
    """One container's runtime. Everything is made when it is first used: a cold start pays for what it needs."""

    def __init__(
        self,
        settings: Settings,
        *,
        clients: Clients | None = None,
        clock: Clock | None = None,
        new_id: NewId = new_id,
        agents: AgentRegistry | None = None,
        webhooks: Sequence[Webhook] = (),
        sinks: Sequence[EventSink] = (),
    ) -> None:
        self.settings = settings
        self.clients = clients or Clients(socket_endpoint=settings.socket_endpoint)
        self.clock: Clock = clock or SystemClock()
        self.new_id = new_id
        self.settle_over = SETTLE_TAIL_BYTES
        self._agents = agents
        self._webhooks = webhooks  # of given agents; else their module says
        self._sinks = sinks  # the same

    @cached_property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The container's event loop. It outlives invocations, so that HTTP connections are used again."""
        return asyncio.new_event_loop()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run one invocation's work to its end, and what it began to send to viewers."""
        return self.loop.run_until_complete(self.whole(work))

    async def whole(self, work: Coroutine[Any, Any, T]) -> T:
        """Await some work, and then what is still being sent to viewers."""
        try:
            result = await work
        except Exception:
            await self._all_sent()
            raise
        await self._all_sent()
        return result

    async def _all_sent(self) -> None:
        if "live" in self.__dict__:
            await self.live.close()

    @cached_property
    def table(self) -> Table:
        return Table(self.clients.dynamodb, self.settings.table_name)

    @cached_property
    def store(self) -> DynamoDBSessionStore:
        return DynamoDBSessionStore(
            self.clients.dynamodb,
            self.settings.table_name,
            s3=lambda: self.clients.s3,
            bucket=self.settings.bucket_name,
            settle_over=self.settle_over,
        )

    @cached_property
    def subscriptions(self) -> Subscriptions:
        return Subscriptions(self.table, self.clock)

    @cached_property
    def tickets(self) -> SocketTickets:
        from perdure.aws.tickets import SocketTickets

        return SocketTickets(self.table, self.clock, self.new_id)

    @cached_property
    def tokens(self) -> TokenVerifier:
        """Verifies bearer tokens, for the authorizer of the stream API."""
        from perdure.aws.tokens import TokenVerifier

        audience = [value for value in self.settings.jwt_audience.split(",") if value]
        if not (self.settings.jwt_issuer and audience):
            raise ConfigurationError("JWT_ISSUER and JWT_AUDIENCE are not set: template.yaml sets them")
        return TokenVerifier(issuer=self.settings.jwt_issuer, audience=audience, clock=self.clock)

    @cached_property
    def queue(self) -> SqsStepQueue:
        return SqsStepQueue(self.clients.sqs, self.settings.step_queue_urls, self.clock)

    @cached_property
    def timers(self) -> SchedulerTimers:
        return SchedulerTimers(
            lambda: self.clients.scheduler,
            self.clients.sqs,
            self.clock,
            queue_url=self.settings.timers_queue_url,
            queue_arn=self.settings.timers_queue_arn,
            group=self.settings.schedule_group,
            role_arn=self.settings.schedule_role_arn,
            lead=timedelta(seconds=self.settings.schedule_lead_seconds),
        )

    @cached_property
    def live(self) -> ApiGatewayLive:
        progress = ProgressLog(self.table, self.clock)
        return ApiGatewayLive(self.store, progress, self.subscriptions, lambda: self.pump, self.clock)

    @cached_property
    def pump(self) -> Pump:
        """What sends to viewers; made when somebody watches."""
        from perdure.aws.delivery import Pump

        return Pump(
            self.ports, self.subscriptions, lambda: self.clients.connections, lambda: self.authorize, self.new_id
        )

    @cached_property
    def sinks(self) -> list[EventSink]:
        """Where events go after their commits: the agents' module may have `sinks`."""
        return list(self._sinks) if self._agents else sinks_of(self.settings.perdure_agents)

    @cached_property
    def notices(self) -> Notices:
        """What delivers to the sinks."""
        from perdure.aws.notices import Notices
        from perdure.aws.sink_places import DynamoDBSinkPlaces

        places = DynamoDBSinkPlaces(self.table, self.clock)
        return Notices(self.sinks, places, self.store, self.send_notice, self.clock, self.new_id)

    async def send_notice(self, message: NoticeMessage, not_before: datetime | None = None) -> None:
        """Have a session's events delivered to a sink, not before a time."""
        if not self.settings.notices_queue_url:
            raise ConfigurationError("NOTICES_QUEUE_URL is not set: deploy with DeliverNotices=on")
        sender = Sender(self.clients.sqs, self.clock)
        await sender.send(self.settings.notices_queue_url, message, tenant=message.tenant, not_before=not_before)

    @cached_property
    def ports(self) -> Ports:
        """The adapter set."""
        return Ports(
            store=self.store,
            leases=DynamoDBLeases(self.table, self.clock),
            queue=self.queue,
            timers=self.timers,
            live=self.live,
            clock=self.clock,
            new_id=self.new_id,
            results=DynamoDBResults(self.table, self.clock),
            progress_interval_seconds=PROGRESS_INTERVAL_SECONDS,
        )

    @cached_property
    def deps(self) -> StepDeps:
        """What steps get: the ports, and the agents of the module that `PERDURE_AGENTS` names."""
        if self.settings.model_key_secret_arn:  # before the agents, which may look for the key when they are loaded
            provide_model_key(self.clients, self.settings.model_key_secret_arn)
        agents = self._agents or load_agents(self.settings.perdure_agents)
        if self.sinks and not self.settings.notices_queue_url:
            tell("fault", "the agents' module has sinks, and this stack delivers to none: set DeliverNotices to on")
        return StepDeps(ports=self.ports, agents=agents)

    @cached_property
    def service(self) -> Service:
        """What answers commands and reads."""
        from perdure.service import Service

        return Service(self.deps, authorize=self.authorize, webhooks=self.webhooks, webhook_secret=self.webhook_secret)

    @cached_property
    def authorize(self) -> Authorize | None:
        """Who else than its owner may do what to a session: the agents' module may have an `authorize`."""
        return None if self._agents else authorize_of(self.settings.perdure_agents)

    @cached_property
    def webhooks(self) -> list[Webhook]:
        """Whose events become messages: the agents' module may have `webhooks`."""
        return list(self._webhooks) if self._agents else webhooks_of(self.settings.perdure_agents)

    @cached_property
    def webhook_secret(self) -> WebhookSecrets:
        """How the secret of a webhook is found."""
        from perdure.aws.webhook_secrets import WebhookSecrets

        return WebhookSecrets(self.clients, self.settings.webhook_secrets_arn)


@cache
def runtime() -> Runtime:
    """Return this container's runtime; the first call makes it from the environment.

    Raises:
        ConfigurationError: The environment is not complete; the message names what is missing.
    """
    return Runtime(Settings.from_environment())


def authorize_of(name: str) -> Authorize | None:
    """Return the hook `authorize` that stands beside the agents in their module, or None when there is none."""
    hook = _beside(name, "authorize", None)
    return cast("Authorize", hook) if callable(hook) else None


def webhooks_of(name: str) -> list[Webhook]:
    """Return the list `webhooks` that stands beside the agents in their module; none when there is none."""
    return list(_beside(name, "webhooks", ()))


def sinks_of(name: str) -> list[EventSink]:
    """Return the list `sinks` that stands beside the agents in their module; none when there is none."""
    return list(_beside(name, "sinks", ()))


def _beside(name: str, attribute: str, default: Any) -> Any:
    return getattr(importlib.import_module(name.partition(":")[0]), attribute, default)


def load_agents(name: str) -> AgentRegistry:
    """Return the agents that `module:attribute` names: an `AgentDefinition`, or a list of them.

    Raises:
        ConfigurationError: There is no such module or attribute, or it is something else.
    """
    module_name, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"PERDURE_AGENTS is {name!r}, and that can't be loaded: {error}") from error
    return AgentRegistry([found] if isinstance(found, AgentDefinition) else list(found))
