"""Signed webhooks: an event of another system becomes one message, however often it is sent (spec HOOK-01 to HOOK-04).

The signature is that of Standard Webhooks (https://www.standardwebhooks.com): the headers `webhook-id`,
`webhook-timestamp` and `webhook-signature`, which is `v1,` and the base64 of an HMAC-SHA256 over `id.timestamp.body`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.checks import LOCAL_CALLER, Caller
from perdure.core.ids import event_message_id
from perdure.errors import ConfigurationError, NotFoundError, RequestConflictError, UnauthorizedError

if TYPE_CHECKING:
    from perdure.service import Service

JsonObject = dict[str, Any]

TOLERANCE_SECONDS = 300
"""How far a signature's time may be from ours, in seconds: what Standard Webhooks' own libraries allow."""

MIN_SECRET_BYTES = 24
"""Shortest secret, in bytes (Standard Webhooks, "Signature scheme")."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PREFIX = "whsec_"


def from_environment(name: str) -> str:
    """Return an environment variable; an empty text when it is not set."""
    return os.environ.get(name, "")


class HookMessage(NamedTuple):
    """What an event says to a session.

    Attributes:
        message_id: Made of the event, so that its retries are the same message; None: of the header `webhook-id`.
        delivery: As for any message; None: as the agent's inbox says.
        caller: In whose name; None: in the webhook's.
    """

    session_id: str
    text: str
    message_id: str | None = None
    delivery: str | None = None
    metadata: JsonObject | None = None
    caller: Caller | None = None


class ToolEvent(NamedTuple):
    """What an event says to a tool that waits for it (`ToolContext.wait_for_event`).

    Attributes:
        tool_call_id: The call's, which the tool told the other system.
        name: Of the event within the tool.
        value: What `wait_for_event` returns: anything that JSON can write.
        caller: In whose name; None: in the webhook's.
    """

    session_id: str
    tool_call_id: str
    name: str
    value: Any = None
    caller: Caller | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """The address `/v1/hooks/{name}` of another system's events.

    Attributes:
        name: `[A-Za-z0-9_-]{1,64}`.
        secret_env: Name of the environment variable that holds the secret: `whsec_` and base64, or plain text. On AWS
            also a name in the secret of the parameter `WebhookSecretsArn`.
        handler: Pure function of the event's JSON: a message, or an event for a tool that waits for it. None: it
            concerns nobody. What it raises is a 500, and the sender tries again.
        caller: In whose name messages are sent: the owner of the sessions. Default: the local user.
        agent: Of new sessions; None: the first one.

    Raises:
        ConfigurationError: The name can't be part of an address.
    """

    name: str
    secret_env: str
    handler: Callable[[JsonObject], HookMessage | ToolEvent | None]
    caller: Caller = LOCAL_CALLER
    agent: str | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(f"webhook {self.name!r} must have a name of 1 to 64 letters, digits, '_' and '-'")

    def secret(self, look_up: Callable[[str], str] = from_environment) -> bytes:
        """Return the secret.

        Args:
            look_up: Returns the text that is kept under `secret_env`; an empty one when there is none.

        Raises:
            ConfigurationError: There is none, or none that could keep anybody out.
        """
        text = look_up(self.secret_env)
        try:
            secret = base64.b64decode(text.removeprefix(_PREFIX), validate=True) if text.startswith(_PREFIX) else None
        except binascii.Error:
            raise ConfigurationError(f"{self.secret_env} of webhook {self.name!r} is no base64") from None
        secret = text.encode() if secret is None else secret
        if len(secret) < MIN_SECRET_BYTES:
            raise ConfigurationError(
                f"{self.secret_env} of webhook {self.name!r} must hold a secret of {MIN_SECRET_BYTES} bytes or more"
            )
        return secret


def named(webhooks: Sequence[Webhook], name: str) -> Webhook:
    """Return the webhook with a name.

    Raises:
        NotFoundError: There is none.
    """
    for webhook in webhooks:
        if webhook.name == name:
            return webhook
    raise NotFoundError(f"there is no webhook {name[:64]!r} here", code="not_found")


def signature(secret: bytes, event_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of `webhook-signature`."""
    signed = f"{event_id}.{timestamp}.".encode("utf-8", "surrogatepass") + body
    return "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()


def verify(secret: bytes, headers: Mapping[str, str], body: bytes, now: datetime) -> str:
    """Return the id of the event that somebody with the secret has sent just now.

    Args:
        headers: Names in lower case.

    Raises:
        UnauthorizedError: Somebody else sent it, or it was sent at another time, or changed on its way.
    """
    event_id, time = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not event_id or not re.fullmatch(r"[0-9]{1,12}", time):
        raise UnauthorizedError("an event needs the headers webhook-id, webhook-timestamp and webhook-signature")
    if abs(now.timestamp() - int(time)) > TOLERANCE_SECONDS:
        raise UnauthorizedError(f"webhook-timestamp is more than {TOLERANCE_SECONDS} s from our time: sign it anew")
    expected = signature(secret, event_id, int(time), body).encode()
    given = headers.get("webhook-signature", "").split()
    if not any(hmac.compare_digest(expected, one.encode("utf-8", "surrogatepass")) for one in given):
        raise UnauthorizedError("webhook-signature does not fit the event: check the secret")
    return event_id


async def receive(service: Service, webhook: Webhook, event_id: str, event: JsonObject) -> JsonObject:
    """Hand an event to its handler, and send what that says.

    Returns a message's receipt, `{"result": "recorded"}` for what a tool waited for, or `{"ignored": true}`.
    """
    message = webhook.handler(event)
    if message is None:
        return {"ignored": True}
    if isinstance(message, ToolEvent):
        return await _bring(service, webhook, event_id, message)
    message = HookMessage(*message)
    derived = event_message_id("webhook", f"{webhook.name}:{event_id}")
    return await service.send_input(
        message.caller or webhook.caller,
        message.session_id,
        text=message.text,
        message_id=message.message_id or derived,
        agent=webhook.agent,
        delivery=message.delivery,
        metadata=message.metadata,
        source="webhook",
    )


async def _bring(service: Service, webhook: Webhook, event_id: str, event: ToolEvent) -> JsonObject:
    """Bring a tool its event, once. One for a call that is over concerns nobody any more: no retry would help it."""
    key = event_message_id("webhook", f"{webhook.name}:{event_id}")
    try:
        return await service.send_event(
            event.caller or webhook.caller,
            event.session_id,
            event.tool_call_id,
            event.name,
            event.value,
            idempotency_key=key,
        )
    except RequestConflictError as error:
        if error.code != "not_pending":
            raise
        return {"ignored": True}
