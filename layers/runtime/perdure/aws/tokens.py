"""Verifies bearer tokens where API Gateway does not: the stream API is a REST API, which has no JWT authorizer.

The same rules as at the HTTP API: the issuer's own keys, found by its discovery document; RS256 or ES256, and which of
them the key says, never the token; issuer and audience as the stack names them; neither ended nor not yet begun.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib import request as urllib_request

import jwt

from perdure.aws.clients import in_thread
from perdure.errors import StoreUnavailableError, TransientError, UnauthorizedError
from perdure.ports import Clock

logger = logging.getLogger("perdure")

JsonObject = dict[str, Any]
Fetch = Callable[[str], Awaitable[JsonObject]]

MAX_TOKEN = 10_240
"""Longest token, in characters: what API Gateway takes of all headers together (its quotas)."""

KEYS_LIFETIME = timedelta(minutes=15)
"""How old the issuer's keys may get before they are asked for again (ours): a key that it withdrew is good so long."""

KEYS_GRACE = timedelta(hours=6)
"""How old they may get while the issuer does not answer (ours)."""

BETWEEN_FETCHES = timedelta(seconds=30)
"""Least time between two requests for keys (ours), so that tokens with invented key ids don't become a flood there."""

CLOCK_SKEW = timedelta(seconds=60)
"""How far ahead the issuer's clock may be when it writes `iat` and `nbf` (ours). `exp` has no such tolerance."""

FETCH_TIMEOUT_SECONDS = 2.0
"""Longest wait for one of the issuer's two documents (ours); API Gateway's own is 1.5 s."""

FETCH_ATTEMPTS = 2
MAX_DOCUMENT_BYTES = 256 * 1024
"""Largest document of an issuer, in bytes (ours)."""

MIN_RSA_BITS = 2048


class TokenVerifier:
    """Verifies the tokens of one issuer.

    Args:
        issuer: Exactly as in the tokens' `iss`.
        audience: Accepted values of `aud`, or of `client_id` where a token has no `aud`.
        fetch: Gets a JSON document of the issuer.
    """

    def __init__(self, *, issuer: str, audience: Sequence[str], clock: Clock, fetch: Fetch | None = None) -> None:
        self._issuer = issuer
        self._audience = frozenset(audience)
        self._clock = clock
        self._keys = SigningKeys(issuer, clock, fetch or fetch_document)

    async def verify(self, token: str) -> JsonObject:
        """Return the claims of a valid token.

        Raises:
            UnauthorizedError: It is not valid; the message says why, and holds nothing of the token.
            StoreUnavailableError: The issuer's keys can't be had now.
        """
        key_id = _key_id_of(token)
        key = await self._keys.get(key_id)
        if key is None:
            raise UnauthorizedError("the issuer has no key with the id that the token names")
        try:
            content = jwt.PyJWS().decode(token, key, algorithms=[key.algorithm_name])
            claims = json.loads(content)
        except (jwt.PyJWTError, ValueError):
            raise UnauthorizedError("the token's signature is wrong") from None
        if not isinstance(claims, dict):
            raise UnauthorizedError("the token has no claims")
        self._check(claims)
        return claims

    def _check(self, claims: JsonObject) -> None:
        if claims.get("iss") != self._issuer:
            raise UnauthorizedError("the token is of another issuer")
        named = claims["aud"] if "aud" in claims else claims.get("client_id")
        audience = named if isinstance(named, list) else [named]
        if not any(isinstance(value, str) and value in self._audience for value in audience):
            raise UnauthorizedError("the token is for another audience")
        now = self._clock.now().timestamp()
        if not isinstance(ends := claims.get("exp"), int | float) or isinstance(ends, bool) or now >= ends:
            raise UnauthorizedError("the token has ended, or does not say when it ends")
        for name in ("nbf", "iat"):
            begins = claims.get(name, 0)
            if not isinstance(begins, int | float) or now + CLOCK_SKEW.total_seconds() < begins:
                raise UnauthorizedError("the token is not valid yet")


def _key_id_of(token: str) -> str:
    """Return the id of the key that a token says it was signed with. Nothing else of its header is believed."""
    if len(token) > MAX_TOKEN:
        raise UnauthorizedError(f"the token has more than {MAX_TOKEN} characters")
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError):
        raise UnauthorizedError("this is no signed token") from None
    key_id = header.get("kid")
    if not isinstance(key_id, str) or not key_id:
        raise UnauthorizedError("the token does not say which key it was signed with")
    if "crit" in header:
        raise UnauthorizedError("the token demands an extension that is unknown here")
    return key_id


class SigningKeys:
    """An issuer's public keys by id, kept for the container's life and asked for again now and then."""

    def __init__(self, issuer: str, clock: Clock, fetch: Fetch) -> None:
        self._issuer = issuer
        self._clock = clock
        self._fetch = fetch
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_at: datetime | None = None
        self._tried_at: datetime | None = None

    async def get(self, key_id: str) -> jwt.PyJWK | None:
        """Return a key; None: the issuer has no such key, or had none half a minute ago.

        Raises:
            StoreUnavailableError: There are no keys that are young enough, and the issuer gives none.
        """
        now = self._clock.now()
        known = key_id in self._keys
        if (not known or self._older_than(KEYS_LIFETIME, now)) and self._may_ask(now):
            await self._ask(now)
        if self._older_than(KEYS_GRACE, now):
            raise StoreUnavailableError("the issuer's keys can't be had now: try again", code="issuer_unavailable")
        return self._keys.get(key_id)

    def _older_than(self, age: timedelta, now: datetime) -> bool:
        return self._fetched_at is None or now - self._fetched_at >= age

    def _may_ask(self, now: datetime) -> bool:
        return self._tried_at is None or now - self._tried_at >= BETWEEN_FETCHES

    async def _ask(self, now: datetime) -> None:
        try:
            self._keys = _keys_of(await self._fetch(await self._place()))
        except TransientError as error:
            # The next token asks again: without keys nobody gets in.
            self._tried_at = now if self._fetched_at is not None else None
            logger.warning("the issuer's keys could not be read", extra={"error": error.message})
        else:
            self._fetched_at = self._tried_at = now

    async def _place(self) -> str:
        """Return where the keys are (OpenID Connect Discovery 1.0, section 4)."""
        document = await self._fetch(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        place = document.get("jwks_uri")
        if document.get("issuer") != self._issuer or not isinstance(place, str):
            raise StoreUnavailableError("the issuer's discovery document is of another issuer, or names no keys")
        return place


def _keys_of(document: JsonObject) -> dict[str, jwt.PyJWK]:
    """Return the keys that a signature can be checked with; others of the set are for something else."""
    listed = document.get("keys")
    if not isinstance(listed, list):
        raise StoreUnavailableError("the issuer's key set holds no list of keys")
    found: dict[str, jwt.PyJWK] = {}
    for entry in listed:
        algorithm = _algorithm_of(entry) if isinstance(entry, dict) else None
        if algorithm is None or not isinstance(key_id := entry.get("kid"), str):
            continue
        try:
            key = jwt.PyJWK(entry, algorithm=algorithm)
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        if algorithm == "RS256" and key.key.key_size < MIN_RSA_BITS:
            continue
        found[key_id] = key
    return found


def _algorithm_of(entry: JsonObject) -> str | None:
    """Return what a key signs with, by its own kind; None: nothing that is accepted."""
    kinds = {("RSA", None): "RS256", ("EC", "P-256"): "ES256"}
    kind = entry.get("kty")
    algorithm = kinds.get((kind, entry.get("crv") if kind == "EC" else None)) if isinstance(kind, str) else None
    fits = entry.get("use", "sig") == "sig" and entry.get("alg", algorithm) == algorithm and "d" not in entry
    return algorithm if fits else None


class _NoRedirects(urllib_request.HTTPRedirectHandler):
    """An issuer's documents are where it says, and nowhere else."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


async def fetch_document(url: str) -> JsonObject:
    """Get a JSON object over https.

    Raises:
        StoreUnavailableError: It could not be had, is too large or is no JSON object.
    """
    if not url.startswith("https://"):
        raise StoreUnavailableError("an issuer's documents come over https only", code="issuer_unavailable")
    content = b""
    for attempt in range(FETCH_ATTEMPTS):
        try:
            content = await in_thread(_get, url=url)
            break
        except OSError as error:
            if attempt == FETCH_ATTEMPTS - 1:
                raise StoreUnavailableError(
                    f"the issuer did not answer: {type(error).__name__}", code="issuer_unavailable"
                ) from error
    if len(content) > MAX_DOCUMENT_BYTES:
        raise StoreUnavailableError(f"a document of the issuer has more than {MAX_DOCUMENT_BYTES} bytes")
    try:
        document = json.loads(content)
    except ValueError as error:
        raise StoreUnavailableError("a document of the issuer is no JSON") from error
    if not isinstance(document, dict):
        raise StoreUnavailableError("a document of the issuer is no JSON object")
    return document


def _get(url: str) -> bytes:
    opener = urllib_request.build_opener(_NoRedirects)
    with opener.open(url, timeout=FETCH_TIMEOUT_SECONDS) as answer:
        content: bytes = answer.read(MAX_DOCUMENT_BYTES + 1)
        return content
