"""Bearer tokens of the stream API: whose signature counts, which claims, and how often the issuer is asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from perdure.aws.tokens import (
    BETWEEN_FETCHES,
    CLOCK_SKEW,
    KEYS_GRACE,
    KEYS_LIFETIME,
    MAX_TOKEN,
    TokenVerifier,
    fetch_document,
)
from perdure.errors import StoreUnavailableError, UnauthorizedError
from perdure.testing.issuer import AUDIENCE, ISSUER, Issuer
from tests.unit.aws.builders import NOON, SteppingClock

NOW = int(NOON.timestamp())


@pytest.fixture
def issuer(clock: SteppingClock) -> Issuer:
    return Issuer(clock)


@pytest.fixture
def verifier(issuer: Issuer, clock: SteppingClock) -> TokenVerifier:
    return TokenVerifier(issuer=ISSUER, audience=[AUDIENCE, "mobile"], clock=clock, fetch=issuer.fetch)


# --- what is taken -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key_id", ["rsa-1", "ec-1"])
async def test_a_token_of_the_issuer_tells_its_claims(verifier: TokenVerifier, issuer: Issuer, key_id: str) -> None:
    claims = await verifier.verify(issuer.token(key_id=key_id))

    assert claims == issuer.claims()


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": ["other", "mobile"]},
        {"aud": None, "client_id": AUDIENCE},
        {"iat": NOW + CLOCK_SKEW.total_seconds()},
        {"exp": NOW + 0.001},
        {"iat": None},
    ],
    ids=["one of several audiences", "a client id", "an issuer whose clock is ahead", "its last moment", "no iat"],
)
async def test_a_token_is_taken_with(verifier: TokenVerifier, issuer: Issuer, claims: dict[str, Any]) -> None:
    assert (await verifier.verify(issuer.token(**claims)))["sub"] == "ann"


# --- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"iss": "https://elsewhere.example.com/"}, "another issuer"),
        ({"iss": ISSUER.rstrip("/")}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": "other"}, "another audience"),
        ({"aud": ["other"], "client_id": AUDIENCE}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"aud": []}, "another audience"),
        ({"exp": NOW}, "has ended"),
        ({"exp": NOW - 1}, "has ended"),
        ({"exp": None}, "has ended, or does not say"),
        ({"exp": True}, "has ended, or does not say"),
        ({"nbf": NOW + 61}, "not valid yet"),
        ({"iat": NOW + 61}, "not valid yet"),
    ],
)
async def test_a_token_is_refused_for_its_claims(
    verifier: TokenVerifier, issuer: Issuer, claims: dict[str, Any], why: str
) -> None:
    with pytest.raises(UnauthorizedError, match=why):
        await verifier.verify(issuer.token(**claims))


@pytest.mark.parametrize("text", ["9999999999", "1e99"])
async def test_an_end_that_is_a_text_is_no_end(verifier: TokenVerifier, issuer: Issuer, text: str) -> None:
    token = signed_anyhow(issuer, exp=text)

    with pytest.raises(UnauthorizedError, match="has ended, or does not say"):
        await verifier.verify(token)


def signed_anyhow(issuer: Issuer, **claims: object) -> str:
    """Return a token whose claims the library that makes it would refuse."""
    content = json.dumps(issuer.claims(**claims)).encode()
    return jwt.PyJWS().encode(content, issuer.keys["rsa-1"], algorithm="RS256", headers={"kid": "rsa-1"})


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (Issuer.forged, "signature is wrong"),
        (Issuer.unsigned, "signature is wrong"),
        (Issuer.signed_with_the_public_key, "signature is wrong"),
        (lambda issuer: issuer.token(key_id="ec-1", key=issuer.keys["rsa-1"]), "signature is wrong"),
        (lambda issuer: issuer.token()[:-2], "signature is wrong"),
        (lambda issuer: issuer.token(key_id=None), "which key"),
        (lambda issuer: issuer.token(header={"crit": ["b64"], "b64": False}), "unknown here|no signed token"),
        (lambda issuer: "", "no signed token"),
        (lambda issuer: "a.b.c", "no signed token"),
        (lambda issuer: "ä" * 20, "no signed token"),
        (lambda issuer: "x" * (MAX_TOKEN + 1), "more than"),
    ],
    ids=[
        "forged",
        "alg none",
        "HS256 with the public key",
        "an RSA signature for an EC key",
        "cut",
        "no key id",
        "an extension",
        "empty",
        "no JSON",
        "no base64",
        "too long",
    ],
)
async def test_a_token_is_refused_that_is(
    verifier: TokenVerifier, issuer: Issuer, make: Callable[[Issuer], str], why: str
) -> None:
    with pytest.raises(UnauthorizedError, match=why):
        await verifier.verify(make(issuer))


async def test_what_is_no_key_for_signatures_of_ours_signs_nothing(verifier: TokenVerifier, issuer: Issuer) -> None:
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    issuer.keys["weak"] = weak
    published = issuer.published("rsa-1")
    issuer.more_keys = [
        {**published, "kid": "for-encryption", "use": "enc"},
        {**published, "kid": "rs512", "alg": "RS512"},
        {"kty": "oct", "kid": "shared", "k": "c2VjcmV0"},
        {"kty": ["RSA"], "kid": "odd"},
        {"kty": "RSA", "kid": "broken", "n": "!", "e": "AQAB"},
    ]

    for key_id in ("weak", "for-encryption", "rs512", "shared", "odd", "broken"):
        signer = weak if key_id == "weak" else issuer.keys["rsa-1"]
        with pytest.raises(UnauthorizedError, match="no key with the id"):
            await verifier.verify(issuer.token(key_id=key_id, key=signer))


async def test_a_refusal_tells_nothing_of_the_token(verifier: TokenVerifier, issuer: Issuer) -> None:
    for token in (issuer.forged(), issuer.token(exp=NOW), issuer.token(key_id="k-secret", key=issuer.keys["rsa-1"])):
        with pytest.raises(UnauthorizedError) as refused:
            await verifier.verify(token)
        assert not any(part in str(refused.value) for part in (*token.split("."), "k-secret", "ann"))
        assert refused.value.__cause__ is None


# --- how often the issuer is asked -------------------------------------------------------------------------------


async def test_the_issuers_keys_are_asked_for_once(
    verifier: TokenVerifier, issuer: Issuer, clock: SteppingClock
) -> None:
    for _ in range(3):
        await verifier.verify(issuer.token())
    assert issuer.asked == [f"{ISSUER}.well-known/openid-configuration", f"{ISSUER}keys"]

    clock.advance(KEYS_LIFETIME)
    await verifier.verify(issuer.token())
    assert len(issuer.asked) == 4


async def test_a_new_key_of_the_issuer_is_found_by_one_more_request(
    verifier: TokenVerifier, issuer: Issuer, clock: SteppingClock
) -> None:
    await verifier.verify(issuer.token())
    issuer.keys["rsa-2"] = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    clock.advance(BETWEEN_FETCHES)

    assert (await verifier.verify(issuer.token(key_id="rsa-2")))["sub"] == "ann"
    assert issuer.asked.count(f"{ISSUER}keys") == 2


async def test_invented_key_ids_are_no_flood_at_the_issuer(
    verifier: TokenVerifier, issuer: Issuer, clock: SteppingClock
) -> None:
    await verifier.verify(issuer.token())
    clock.advance(BETWEEN_FETCHES)

    for number in range(20):
        with pytest.raises(UnauthorizedError, match="no key with the id"):
            await verifier.verify(issuer.token(key_id=f"invented-{number}", key=issuer.keys["rsa-1"]))

    assert issuer.asked.count(f"{ISSUER}keys") == 2


async def test_a_withdrawn_key_is_good_until_the_keys_are_read_again(
    verifier: TokenVerifier, issuer: Issuer, clock: SteppingClock
) -> None:
    token = issuer.token()
    await verifier.verify(token)
    del issuer.keys["rsa-1"]

    clock.advance(KEYS_LIFETIME - timedelta(seconds=1))
    await verifier.verify(token)
    clock.advance(timedelta(seconds=1))
    with pytest.raises(UnauthorizedError, match="no key with the id"):
        await verifier.verify(token)


async def test_an_issuer_that_is_silent_for_hours_locks_nobody_out_whose_key_is_known(
    verifier: TokenVerifier, issuer: Issuer, clock: SteppingClock
) -> None:
    token = issuer.token(exp=NOW + 86_400)
    await verifier.verify(token)
    issuer.answers = False

    clock.advance(KEYS_GRACE - timedelta(seconds=1))
    assert (await verifier.verify(token))["sub"] == "ann"
    clock.advance(BETWEEN_FETCHES)
    with pytest.raises(StoreUnavailableError, match="can't be had now"):
        await verifier.verify(token)


async def test_without_keys_nobody_is_refused_for_good_and_the_next_token_asks_again(
    verifier: TokenVerifier, issuer: Issuer
) -> None:
    issuer.answers = False
    with pytest.raises(StoreUnavailableError):
        await verifier.verify(issuer.token())

    issuer.answers = True
    assert (await verifier.verify(issuer.token()))["sub"] == "ann"


@pytest.mark.parametrize(
    "document", [{"issuer": "https://evil.example.com/", "jwks_uri": f"{ISSUER}keys"}, {"issuer": ISSUER}, {}]
)
async def test_keys_are_only_taken_from_where_this_issuer_says(
    verifier: TokenVerifier, issuer: Issuer, document: dict[str, str]
) -> None:
    issuer.document = document

    with pytest.raises(StoreUnavailableError):
        await verifier.verify(issuer.token())
    assert f"{ISSUER}keys" not in issuer.asked


@pytest.mark.parametrize("url", ["http://issuer.example.com/keys", "file:///etc/passwd", "ftp://issuer.example.com/"])
async def test_an_issuers_documents_come_over_https_only(url: str) -> None:
    with pytest.raises(StoreUnavailableError, match="https only"):
        await fetch_document(url)
