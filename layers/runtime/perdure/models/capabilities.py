"""What a model client may tell of itself beyond the protocol. A client that leaves a word out is taken to have none.

So a client of somebody else's needs three members only (`ModelClient`), and what it cannot tell stays unknown.
"""

from __future__ import annotations

from hashlib import sha256


def credential_version(client: object) -> str | None:
    """Return what changes when the client's credential changes: 16 hexadecimal digits, never the credential.

    It is read anew at every call, so a key that was exchanged in the environment shows. None: there is no key, or the
    client does not tell (spec RETRY-05, U-6).
    """
    tell = getattr(client, "credential_version", None)
    version = tell() if callable(tell) else None
    return version if isinstance(version, str) and version else None


def reasoning_levels(client: object) -> tuple[str, ...]:
    """Return the levels that `reasoning_effort` may have, weakest first, for a picker. Empty: it does not tell."""
    levels = getattr(client, "reasoning_levels", None)
    return tuple(levels) if isinstance(levels, list | tuple) else ()


def context_window(client: object) -> int | None:
    """Return how many tokens the model takes, its answer included, as the deployment declared. None: it did not."""
    window = getattr(client, "context_window", None)
    return window if isinstance(window, int) and not isinstance(window, bool) and window > 0 else None


def version_of_key(key: str) -> str | None:
    """Return the version of a key, for clients that have one; None for an empty key.

    Sixteen digits of a SHA-256 tell two keys apart and give none away: keys are random and long.
    """
    return sha256(b"perdure credential\0" + key.encode("utf-8", "surrogatepass")).hexdigest()[:16] if key else None
