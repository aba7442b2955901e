"""What is not AWS: the issuer of tokens, the model's provider, and TLS at the addresses that the stack gives out.

The stack's outputs are addresses of AWS (`https://….execute-api.us-east-1.amazonaws.com`), and so is the one by which
functions reach their viewers. Nobody changes them: every process gets this machine's proxy (`HTTPS_PROXY`) and trusts
its certificate. Behind the proxy are the emulator and the token issuer.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import ssl
import threading
import time
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

from perdure.testing.conversation import converse
from perdure.testing.provider_plans import Plan, answer
from perdure.testing.providers import FaultProvider
from tests.e2e.emulator import REGION

T = TypeVar("T")
JsonObject = dict[str, Any]

ISSUER_HOST = "issuer.perdure.test"
ISSUER = f"https://{ISSUER_HOST}/"
AUDIENCE = "perdure-e2e"
MODEL_KEY = "sk-only-for-tests"
HOOK, HOOK_SECRET = "PARCELS_HOOK_SECRET", "whsec_" + base64.b64encode(b"only for the parcels of tests").decode()
"""Name and value of the secret that the parcel service signs with; see `deployed_agents`."""

PAGE = "https://app.perdure.test"
"""Where a page in a browser comes from that uses the API."""

KEY_ID = "key-1"

SLOWLY = "tell me slowly"
SLOW_PIECES = 60
PIECE_SECONDS = 0.25

_CALLBACK = re.compile(rb"^(POST|DELETE) (/[^ ]*/@connections/[^ ]*) HTTP/1\.1\r\n")


def script(body: JsonObject) -> Plan:
    """Answer as `converse` does, and a message that starts with `SLOWLY` over about 15 seconds."""
    last = body["messages"][-1]
    if last["role"] == "user" and str(last["content"]).startswith(SLOWLY):
        told = answer("".join(f"piece {n:02}\n" for n in range(SLOW_PIECES)), chunk=9)
        return type(told)(events=told.events, usage=told.usage, delay_seconds=PIECE_SECONDS)
    return converse(body)


class Issuer:
    """An OpenID Connect issuer with one RSA key."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def token(self, *, subject: str = "anna", tenant: str | None = "shop", **claims: Any) -> str:
        """Return a signed token, good for an hour; claims of None are left out."""
        return self._signed(self._key, subject, tenant, claims)

    def forged(self) -> str:
        """Return a token that somebody else has signed."""
        return self._signed(self._stranger, "anna", "shop", {})

    def _signed(self, key: rsa.RSAPrivateKey, subject: str, tenant: str | None, claims: JsonObject) -> str:
        now = int(time.time())
        given: JsonObject = {"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "iat": now - 5, "exp": now + 3600}
        given |= {"tenant": tenant} | claims
        content = {name: value for name, value in given.items() if value is not None}
        parts = [{"alg": "RS256", "typ": "JWT", "kid": KEY_ID}, content]
        text = ".".join(_base64(json.dumps(part).encode()) for part in parts)
        return f"{text}.{_base64(key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def document(self, path: str) -> JsonObject | None:
        """Return what the issuer publishes at a path."""
        if path == "/.well-known/openid-configuration":
            return {"issuer": ISSUER, "jwks_uri": f"{ISSUER}keys", "id_token_signing_alg_values_supported": ["RS256"]}
        if path == "/keys":
            numbers = self._key.public_key().public_numbers()
            key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID}
            return {"keys": [key | {"n": _base64(_bytes(numbers.n)), "e": _base64(_bytes(numbers.e))}]}
        return None


class Outside:
    """Everything of the above, in a thread and an event loop of its own. Use it as a context manager.

    Args:
        folder: For certificates.
        gateway_port: Where API Gateway's emulator listens.
        callback_port: Where functions' posts to WebSocket connections go: the fault injector. None: to the gateway.
    """

    def __init__(self, folder: Path, *, gateway_port: int, callback_port: int | None) -> None:
        self.issuer = Issuer()
        self.authority = folder / "authority.pem"
        self._certificate = folder / "server.pem"
        self._gateway_port = gateway_port
        self._callback_port = callback_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="outside", daemon=True)
        self._provider = FaultProvider(script)
        self._servers: list[asyncio.Server] = []
        self._clients: set[asyncio.StreamWriter] = set()
        self._tls_port = 0
        self.proxy_port = 0

    @property
    def proxy(self) -> str:
        return f"http://127.0.0.1:{self.proxy_port}"

    @property
    def model_url(self) -> str:
        return self._provider.base_url

    def trust(self) -> ssl.SSLContext:
        """Return what a client needs to accept our certificate."""
        return ssl.create_default_context(cafile=str(self.authority))

    def model_requests(self) -> list[JsonObject]:
        """Return the bodies of all requests to the model so far."""
        return [received.body for received in list(self._provider.requests)]

    def model_keys(self) -> set[str]:
        """Return what the model's provider was given as `Authorization`."""
        return {received.headers.get("authorization", "") for received in list(self._provider.requests)}

    def model_departures(self) -> int:
        """Return how many clients have left the model before its answer had ended."""
        return self._provider.departures

    def hang_up(self) -> None:
        """Break every connection to the gateway, WebSockets among them."""
        for writer in list(self._clients):
            self._loop.call_soon_threadsafe(writer.transport.abort)

    def __enter__(self) -> Self:
        _write_certificates(self.authority, self._certificate)
        self._thread.start()
        self._wait(self._open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wait(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)

    async def _open(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificate)
        await self._provider.__aenter__()
        tls = await asyncio.start_server(self._secured, "127.0.0.1", 0, ssl=context)
        proxy = await asyncio.start_server(self._tunnel, "127.0.0.1", 0)
        self._servers = [tls, proxy]
        self._tls_port, self.proxy_port = (server.sockets[0].getsockname()[1] for server in self._servers)

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        await self._provider.__aexit__(None, None, None)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The proxy: `CONNECT` to any host leads to our TLS server."""
        with _ending(writer):
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"CONNECT "):
                writer.write(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n")
                return
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _join(reader, writer, b"", self._tls_port)

    async def _secured(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The TLS server: the issuer, the callbacks of functions, and all else is API Gateway's."""
        self._clients.add(writer)
        try:
            await self._answer(reader, writer)
        finally:
            self._clients.discard(writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with _ending(writer):
            head = await reader.readuntil(b"\r\n\r\n")
            host = re.search(rb"\r\nhost: *([^\r:]+)", head, re.IGNORECASE)
            name = host[1].decode() if host else ""
            callback = _CALLBACK.match(head)
            if name == ISSUER_HOST:
                writer.write(self._published(head))
            elif callback and self._callback_port is not None:
                # The injector knows hosts by paths only; one request a connection, so that each is rewritten.
                path = b"/_aws/execute-api/%b%b" % (name.split(".")[0].encode(), callback[2])
                rest = re.sub(rb"\r\nconnection: [^\r]*", b"", head[callback.end() - 2 :], flags=re.IGNORECASE)
                head = b"%b %b HTTP/1.1\r\nConnection: close%b" % (callback[1], path, rest)
                await _join(reader, writer, head, self._callback_port)
            else:
                await _join(reader, writer, head, self._gateway_port)

    def _published(self, head: bytes) -> bytes:
        found = self.issuer.document(head.split(b" ", 2)[1].decode())
        body = json.dumps(found or {}).encode()
        status = b"200 OK" if found else b"404 Not Found"
        fields = b"Content-Type: application/json\r\nConnection: close\r\nContent-Length: %d" % len(body)
        return b"HTTP/1.1 %b\r\n%b\r\n\r\n%b" % (status, fields, body)


@contextlib.contextmanager
def _ending(writer: asyncio.StreamWriter) -> Any:
    """Close a connection at the end, whatever became of it."""
    try:
        yield
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass  # either side is gone
    finally:
        writer.close()


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes, port: int) -> None:
    """Carry bytes both ways between a client and a local port until either side ends."""
    there, back = await asyncio.open_connection("127.0.0.1", port)
    back.write(head)
    ways = [asyncio.create_task(_carry(reader, back)), asyncio.create_task(_carry(there, writer))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        if back.transport.is_closing() and not writer.transport.is_closing():
            writer.transport.abort()
        back.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def _write_certificates(authority: Path, server: Path) -> None:
    """Make an authority for one day, and a certificate of it for every host that the stack and its users know."""
    now = datetime.now(UTC)
    root_key, key = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
    root = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "perdure e2e")])

    def certificate(subject: x509.Name, public: rsa.RSAPublicKey) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder(issuer_name=root, subject_name=subject, public_key=public)
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))

    identifier = x509.SubjectKeyIdentifier.from_public_key(root_key.public_key())
    signs = x509.KeyUsage(*(False,) * 5, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False)
    own = (
        certificate(root, root_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(signs, critical=True)
        .add_extension(identifier, critical=False)
        .sign(root_key, hashes.SHA256())
    )
    names = [x509.DNSName(ISSUER_HOST), x509.DNSName(f"*.execute-api.{REGION}.amazonaws.com")]
    leaf = (
        certificate(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, ISSUER_HOST)]), key.public_key())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key()), critical=False)
        .sign(root_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    authority.write_bytes(own.public_bytes(pem))
    server.write_bytes(private + leaf.public_bytes(pem))
