"""The chat-completions client: OpenAI itself, and every server that speaks its `POST /v1/chat/completions`.

One request is one HTTP call: nothing is repeated and no redirect is followed here, because the durable attempts of the
runtime are the only retries (field cases F019, F107). httpx is imported at the first call.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakKeyDictionary

from perdure.errors import ConfigurationError, ModelCallError
from perdure.models.base import ModelRequest, StreamActivity, StreamItem
from perdure.models.capabilities import version_of_key
from perdure.models.chat_request import RESERVED_SETTINGS, chat_request, chat_settings
from perdure.models.chat_stream import ChatStream
from perdure.models.clock import SystemClock
from perdure.models.failures import malformed, provider_error, retry_after_seconds, status_error
from perdure.models.patience import Patience
from perdure.models.settings import ModelSettings
from perdure.models.sse import EventTooLargeError, SseReader
from perdure.models.surrogates import mended

if TYPE_CHECKING:
    import httpx

    from perdure.ports import Clock

DEFAULT_BASE_URL = "https://api.openai.com/v1"
BASE_URL_VARIABLE = "OPENAI_BASE_URL"
API_KEY_VARIABLE = "OPENAI_API_KEY"

INACTIVITY_TIMEOUT = timedelta(minutes=5)
"""Longest silence of a provider. Our own choice: models that reason without showing it are silent for minutes."""

CONNECT_TIMEOUT_SECONDS = 10.0
"""Longest wait for a connection, in seconds. Our own choice: three lost SYN packets (1 s, 2 s, 4 s) still fit."""

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""Largest answer without streaming that is read, in bytes. Our own choice: it bounds memory."""

MAX_ERROR_BYTES = 64 * 1024
"""How much of an error's body is read, in bytes. Our own choice: error objects have less than one KiB."""


class OpenAIChatModel:
    """A `ModelClient` for chat completions. Safe for concurrent use; one HTTP client per event loop, reused.

    Args:
        model: The model's name at the provider.
        base_url: Address that `/chat/completions` is added to; ends in `/v1`. Default: `OPENAI_BASE_URL`, else OpenAI.
        api_key: Default: `OPENAI_API_KEY`. Both variables are read at every call and not kept. Without a key no
            `Authorization` header is sent.
        settings: For every request; a request's own win. In a mapping, names that `ModelSettings` does not know are
            sent as they are, and None takes a setting out.
        reasoning_levels: What `reasoning_effort` may be, weakest first. Empty: whatever the provider takes.
        context_window: Tokens that the model takes, its answer included. None: not known.
        output_limit_name: What the wire calls `max_output_tokens`. Default: `max_completion_tokens` for OpenAI, whose
            newer models refuse the older name, and for other servers `max_tokens`, which all of them know.
        inactivity_timeout: Longest time without a byte from the provider. Its keep-alive comments count as activity;
            the request's deadline bounds those.
        transport: Instead of the network. For tests.
        clock: Reads a request's deadline and the provider's `retry-after` dates. Default: the system's. The waiting
            itself is on the event loop's own timers (`asyncio.timeout_at`), so a virtual clock moves no timeout.

    Raises:
        ConfigurationError: httpx is missing, the base URL is no http address, or a setting is wrong or not to be set.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        settings: ModelSettings | Mapping[str, Any] | None = None,
        reasoning_levels: Sequence[str] = (),
        context_window: int | None = None,
        output_limit_name: str | None = None,
        inactivity_timeout: timedelta = INACTIVITY_TIMEOUT,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Clock | None = None,
    ) -> None:
        if find_spec("httpx") is None:
            raise ConfigurationError("OpenAIChatModel needs httpx, which is not installed: pip install 'perdure[http]'")
        if base_url is not None and not _is_http(base_url):
            raise ConfigurationError(f"base_url of model {model!r} is no http or https address: it ends in /v1")
        if inactivity_timeout <= timedelta(0):
            raise ConfigurationError(f"inactivity_timeout of model {model!r} must be longer than zero")
        try:
            self._settings = ModelSettings.of(settings)
        except ValueError as error:
            raise ConfigurationError(f"settings of model {model!r}: {error}") from None
        if reserved := RESERVED_SETTINGS.intersection(self._settings.provider_options):
            raise ConfigurationError(f"settings of model {model!r} may not hold {_listed(reserved)}: leave them out")
        if context_window is not None and context_window < 1:
            raise ConfigurationError(f"context_window of model {model!r} must be 1 or more")
        self.model = model
        self.reasoning_levels = tuple(reasoning_levels)
        self.context_window = context_window
        self._output_limit_name = output_limit_name
        self._base_url = base_url
        self._api_key = api_key
        self._inactivity_timeout = inactivity_timeout
        self._transport = transport
        self._clock: Clock = clock or SystemClock()
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()

    @property
    def provider(self) -> str:
        """`openai-chat`, and for another server than OpenAI's its host as well.

        So an output of one server is never replayed as another's own when both speak this format (field case F014).
        """
        host = urlsplit(self._address()).netloc.rpartition("@")[2]
        return "openai-chat" if host == urlsplit(DEFAULT_BASE_URL).netloc else f"openai-chat:{host}"

    def credential_version(self) -> str | None:
        """What changes when the key does, and is not the key; None without one. Read anew at every call."""
        return version_of_key(self._key())

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        """Make one call, as `ModelClient.stream` says. Close the iterator (`contextlib.aclosing`) to abort it.

        The request's deadline and the inactivity timeout hold while this client waits for the provider, not while
        the caller looks at a delta.

        Raises:
            ModelCallError: There is no usable answer. Its text names no prompt, key or header value.
        """
        body = self._body(request)
        patience = Patience.until(request.deadline, now=self._clock.now(), silence=self._inactivity_timeout)
        answer = ChatStream(self.model)
        async with self._sent(body, patience, answer) as response:
            if response.status_code != 200:
                raise await self._refusal(response, patience)
            async with aclosing(self._events(response, patience, answer)) as events:
                async for data in events:
                    deltas = answer.feed(data)
                    for delta in deltas:
                        yield delta
                    if not deltas:
                        yield StreamActivity()
        for delta in answer.finish():
            yield delta
        yield answer.response()

    async def aclose(self) -> None:
        """Close the connections of the running event loop. A later call opens new ones."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    # --- the request -------------------------------------------------------------------------------------------

    def _body(self, request: ModelRequest) -> bytes:
        settings = request.settings.over(self._settings)
        if reserved := RESERVED_SETTINGS.intersection(settings.provider_options):
            raise _invalid(f"the model settings may not hold {_listed(reserved)}: leave them out")
        provider = self.provider
        on_wire = chat_settings(settings, own=provider == "openai-chat", limit_name=self._output_limit_name)
        body = chat_request(request, model=self.model, provider=provider, settings=on_wire)
        try:
            text = json.dumps(body, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise _invalid("a model setting or a tool's schema is no JSON value: change it") from error
        return mended(text).encode()

    def _headers(self) -> dict[str, str]:
        headers = {
            "accept": "text/event-stream",
            "accept-encoding": "identity",  # a compressing proxy would hold deltas back
            "content-type": "application/json",
        }
        key = self._key()
        if not (key.isascii() and key.isprintable()):
            raise ModelCallError(
                f"the API key holds characters that no key has: check {API_KEY_VARIABLE}", kind="auth", retryable=False
            )
        return headers | {"authorization": f"Bearer {key}"} if key else headers

    def _key(self) -> str:
        return (self._api_key or os.environ.get(API_KEY_VARIABLE) or "").strip()

    def _address(self) -> str:
        return self._base_url or os.environ.get(BASE_URL_VARIABLE) or DEFAULT_BASE_URL

    def _url(self) -> str:
        address = self._address()
        if not _is_http(address):
            raise ModelCallError(
                f"{BASE_URL_VARIABLE} is no http or https address: it ends in /v1", kind="unavailable", retryable=False
            )
        parts = urlsplit(address)
        return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/chat/completions"))

    def _client(self) -> httpx.AsyncClient:
        import httpx

        for loop in list(self._clients):
            if loop.is_closed():  # its connections keep it alive, so nobody else would let it go
                self._clients.pop(loop, None)
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = httpx.AsyncClient(
                transport=self._transport,
                follow_redirects=False,
                # Reading has no limit of its own: patience is kept outside, longer than any fixed one (F107).
                timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_SECONDS),
                # A call never queues for a connection, which would look like a silent provider.
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            )
        return self._clients[loop]

    # --- the answer --------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _sent(self, body: bytes, patience: Patience, answer: ChatStream) -> AsyncIterator[httpx.Response]:
        """Send the request and give its response, which is closed afterwards whatever happens."""
        import httpx

        url, headers, client = self._url(), self._headers(), self._client()
        try:
            async with patience.waiting(answer):
                response = await client.send(
                    client.build_request("POST", url, content=body, headers=headers), stream=True
                )
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError):
            # Without a cause: it would quote the address or a header.
            raise ModelCallError(
                "the base URL or the API key can't be sent: check both", kind="unavailable", retryable=False
            ) from None
        except httpx.HTTPError as error:
            raise ModelCallError(
                f"no answer from {urlsplit(url).hostname} ({type(error).__name__}): "
                "check the network and the base URL, or try again later",
                kind="timeout",
                retryable=True,
            ) from error
        try:
            yield response
        finally:
            with suppress(Exception):  # how a call ended is not changed by how its connection did (spec MODEL-22)
                await response.aclose()

    async def _events(
        self, response: httpx.Response, patience: Patience, answer: ChatStream
    ) -> AsyncGenerator[str, None]:
        content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type == "text/html":
            raise ModelCallError(
                "the answer is a web page: check the base URL, which ends in /v1", kind="unavailable", retryable=False
            )
        if content_type == "application/json":  # a server that does not stream
            yield (await _read(response, patience, answer, MAX_ANSWER_BYTES)).decode("utf-8", "replace")
            return
        reader = SseReader()
        try:
            async with aclosing(_pieces(response, patience, answer)) as pieces:
                async for piece in pieces:
                    for data in reader.feed(piece) or ("",):  # a keep-alive holds no event, and shows that all is well
                        yield data
        except EventTooLargeError as error:
            raise malformed("the stream holds an event of absurd size", partial_text=answer.text) from error
        for data in reader.finish():
            yield data

    async def _refusal(self, response: httpx.Response, patience: Patience) -> ModelCallError:
        try:
            body = json.loads(await _read(response, patience, ChatStream(self.model), MAX_ERROR_BYTES))
        except (ModelCallError, ValueError, RecursionError):
            body = None  # the status says enough
        wait = retry_after_seconds(response.headers, self._clock.now())
        return status_error(response.status_code, provider_error(body), retry_after=wait)


async def _pieces(response: httpx.Response, patience: Patience, answer: ChatStream) -> AsyncGenerator[bytes, None]:
    """Give the body's bytes as they come.

    Once the answer is complete only its usage is still to come, so then neither a cut nor a silence is a failure.
    Behind `[DONE]` only the body's end is waited for: a response that is closed before it takes its connection along.
    """
    import httpx

    body = response.aiter_bytes()
    try:
        while True:
            async with patience.waiting(answer):
                piece = await anext(body, None)
            if piece is None or answer.ended:
                return
            yield piece
    except httpx.HTTPError as error:
        if not answer.complete:
            raise malformed(f"the stream was cut ({type(error).__name__})", partial_text=answer.text) from error
    except ModelCallError:
        if not answer.complete:
            raise


async def _read(response: httpx.Response, patience: Patience, answer: ChatStream, limit: int) -> bytes:
    body = bytearray()
    async with aclosing(_pieces(response, patience, answer)) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > limit:
                break
    return bytes(body[:limit])


def _is_http(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _invalid(message: str) -> ModelCallError:
    return ModelCallError(message, kind="invalid", retryable=False)


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))
