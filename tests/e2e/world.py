"""Everything together: the emulator, what is outside of it, and the stack that is deployed there."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.emulator import Emulator
from tests.e2e.outside import AUDIENCE, HOOK, HOOK_SECRET, ISSUER, MODEL_KEY, PAGE, Outside
from tests.e2e.people import User
from tests.e2e.stack import Stack, artifacts

LEAD_SECONDS = 10
"""Schedules begin at two minutes and this, instead of at seventeen minutes."""


@dataclass
class World:
    """What tests get."""

    emulator: Emulator
    outside: Outside
    stack: Stack
    folder: Path
    begun: set[str] = field(default_factory=set)
    """Names of what was begun and is looked at later."""

    def user(self, **claims: Any) -> User:
        """Return somebody with a good token; by default Anna of the tenant `shop`."""
        return User(self.stack, self.outside, self.outside.issuer.token(**claims))


@contextlib.contextmanager
def deployed(folder: Path, *, guarded: bool = False) -> Iterator[World]:
    """Start AWS on this machine and deploy the stack; end it all afterwards. Logs stay in the folder.

    Args:
        guarded: No function may do more than its role allows, and no call can be made to fail.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that what was started is ended
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    emulator = Emulator(folder)
    callback_port = None if guarded else emulator.injector_port
    with Outside(folder, gateway_port=emulator.port, callback_port=callback_port) as outside:
        try:
            emulator.start(proxy=outside.proxy, authority=outside.authority, guarded=guarded)
            stack = Stack(emulator, {})
            secrets = stack.client("secretsmanager")
            model_key = secrets.create_secret(Name="model-key", SecretString=MODEL_KEY)
            hook_secrets = secrets.create_secret(Name="hook-secrets", SecretString=json.dumps({HOOK: HOOK_SECRET}))
            stack.deploy(
                artifacts(folder / "built"),
                JwtIssuer=ISSUER,
                JwtAudience=AUDIENCE,
                AgentsModule="deployed_agents:agents",
                ModelBaseUrl=outside.model_url,
                ModelKeySecretArn=model_key["ARN"],
                WebhookSecretsArn=hook_secrets["ARN"],
                AllowedOrigins=f"{PAGE},http://localhost:5173",
                DeliverNotices="on",
                LogLevel="DEBUG",
                StreamAccessLogs="on",
                ScheduleLeadSeconds=str(LEAD_SECONDS),
            )
            yield World(emulator=emulator, outside=outside, stack=stack, folder=folder)
            stack.save_logs(folder)
        finally:
            emulator.stop()
            shutil.rmtree(folder / "built", ignore_errors=True)
