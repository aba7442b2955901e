"""Who calls, by the claims of a token that somebody has verified."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from perdure.checks import Caller
from perdure.core.entries import Actor
from perdure.errors import ForbiddenError

MAX_CLAIM = 1024
"""Longest claim that is taken, in characters; subjects of real issuers have at most 255."""


def caller_of_claims(claims: Mapping[str, Any], tenant_claim: str) -> Caller:
    """Return the caller that verified claims name.

    Raises:
        ForbiddenError: The token is valid but says no tenant or no subject.
    """
    return Caller(
        tenant=_claim(claims, tenant_claim),
        actor=Actor(issuer=_claim(claims, "iss"), subject=_claim(claims, "sub")),
        until=_end_of(claims),
    )


def _end_of(claims: Mapping[str, Any]) -> datetime | None:
    """Return when the token ends. Whoever verified it has checked it; an HTTP API hands numbers over as text."""
    try:
        return datetime.fromtimestamp(float(claims["exp"]), UTC)
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return None


def _claim(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_CLAIM:
        raise ForbiddenError(f"the token has no usable claim {name!r}: ask its issuer for one")
    return value
