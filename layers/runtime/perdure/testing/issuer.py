"""An OpenID Connect issuer in this process: keys, tokens, and the two documents by which its keys are found."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import timedelta
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from perdure.errors import StoreUnavailableError
from perdure.ports import Clock

ISSUER = "https://issuer.example.com/"
AUDIENCE = "perdure"

JsonObject = dict[str, Any]


@cache
def _rsa_key(name: str) -> rsa.RSAPrivateKey:  # noqa: ARG001 - one key per name
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@cache
def _ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class Issuer:
    """Gives tokens. `fetch` is what a `TokenVerifier` reads it with; `asked` counts what was read."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.keys: dict[str, Any] = {"rsa-1": _rsa_key("rsa-1"), "ec-1": _ec_key()}
        self.asked: list[str] = []
        self.answers = True
        self.document: JsonObject = {"issuer": ISSUER, "jwks_uri": f"{ISSUER}keys"}
        self.more_keys: list[JsonObject] = []

    async def fetch(self, url: str) -> JsonObject:
        self.asked.append(url)
        if not self.answers:
            raise StoreUnavailableError("the issuer did not answer")
        if url == f"{ISSUER}keys":
            return {"keys": [*(self.published(key_id) for key_id in self.keys), *self.more_keys]}
        assert url == f"{ISSUER}.well-known/openid-configuration", url
        return self.document

    def published(self, key_id: str) -> JsonObject:
        key = self.keys[key_id]
        kind = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
        return {**kind.to_jwk(key.public_key(), as_dict=True), "kid": key_id, "use": "sig"}

    def claims(self, **claims: Any) -> JsonObject:
        """Return the claims of a token that is good for an hour; those of None are left out."""
        now = int(self._clock.now().timestamp())
        given: JsonObject = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "tenant": "acme", "iat": now}
        given |= {"exp": now + int(timedelta(hours=1).total_seconds())} | claims
        return {name: value for name, value in given.items() if value is not None}

    def token(
        self, *, key_id: str | None = "rsa-1", key: Any = None, header: JsonObject | None = None, **claims: Any
    ) -> str:
        """Return a signed token. `key` signs instead of the one that `key_id` names."""
        signer = key if key is not None else self.keys[key_id or "rsa-1"]
        algorithm = "RS256" if isinstance(signer, rsa.RSAPrivateKey) else "ES256"
        headers = {name: value for name, value in {"kid": key_id, **(header or {})}.items() if value is not None}
        return jwt.encode(self.claims(**claims), signer, algorithm=algorithm, headers=headers)

    def forged(self) -> str:
        """Return a token that names our key and was signed with another."""
        return self.token(key=_rsa_key("of a stranger"))

    def unsigned(self) -> str:
        """Return a token of the algorithm `none`."""
        return f"{self._parts({'alg': 'none', 'typ': 'JWT', 'kid': 'rsa-1'})}."

    def signed_with_the_public_key(self) -> str:
        """Return a token whose HMAC was made with our public key as the secret: the old confusion of algorithms."""
        secret = (
            self.keys["rsa-1"]
            .public_key()
            .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        )
        text = self._parts({"alg": "HS256", "typ": "JWT", "kid": "rsa-1"})
        return f"{text}.{base64url(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"

    def _parts(self, header: JsonObject) -> str:
        return ".".join(base64url(json.dumps(part).encode()) for part in (header, self.claims()))
