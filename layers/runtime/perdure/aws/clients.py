"""boto3 clients, made once per container when they are first used, and the threads that their calls run in."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property, partial
from typing import Any

ATTEMPTS = 3
"""Attempts of one call, the first included (design §8)."""

SECRET_ATTEMPTS = 5
"""The same for a secret, without which a container can't do its work: about 8 s of waits between them, 15 at most."""

TIMEOUT_SECONDS = 2
"""Connect and read timeout of one attempt (design §8): ten times the slowest write that was measured."""

OBJECT_TIMEOUT_SECONDS = 20
"""Read timeout of one attempt at S3, whose answer comes after a whole body of up to 64 MiB."""

THREADS = 16
"""Calls at a time. Not the loop's own threads: a slow `def` tool there must not hold up a lease's renewal."""


class Clients:
    """Clients of one region. boto3 is imported with the first one.

    Args:
        session: A boto3 session; None: one made from the environment.
        socket_endpoint: `https://` address of the WebSocket API's stage.
    """

    def __init__(self, *, session: Any = None, socket_endpoint: str | None = None) -> None:
        self._given_session = session
        self._socket_endpoint = socket_endpoint

    @cached_property
    def dynamodb(self) -> Any:
        return self._client("dynamodb")

    @cached_property
    def sqs(self) -> Any:
        return self._client("sqs")

    @cached_property
    def scheduler(self) -> Any:
        return self._client("scheduler")

    @cached_property
    def s3(self) -> Any:
        return self._client("s3", read_timeout=OBJECT_TIMEOUT_SECONDS)

    @cached_property
    def secrets(self) -> Any:
        return self._client("secretsmanager", attempts=SECRET_ATTEMPTS)

    @cached_property
    def connections(self) -> Any:
        """The management API of the WebSocket API's connections."""
        return self._client("apigatewaymanagementapi", endpoint_url=self._socket_endpoint)

    @cached_property
    def _session(self) -> Any:
        if self._given_session is not None:
            return self._given_session
        import boto3

        return boto3.session.Session()

    def _client(
        self,
        service: str,
        *,
        attempts: int = ATTEMPTS,
        read_timeout: float = TIMEOUT_SECONDS,
        endpoint_url: str | None = None,
    ) -> Any:
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError

        from perdure.aws.errors import translated

        config = Config(
            connect_timeout=TIMEOUT_SECONDS,
            read_timeout=read_timeout,
            retries={"mode": "standard", "total_max_attempts": attempts},
            max_pool_connections=THREADS,
        )
        try:
            return self._session.client(service, config=config, endpoint_url=endpoint_url)
        except BotoCoreError as error:
            raise translated(error, f"make a client of {service}") from error


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="perdure-aws")


async def in_thread(function: Callable[..., Any], /, **parameters: Any) -> Any:
    """Run one blocking call in a thread of its own kind and return its answer."""
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_threads(), partial(context.run, function, **parameters))
