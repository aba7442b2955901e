"""Fixed texts that the model sees. Those quoted in the spec (appendix A.6) are contract strings."""

from __future__ import annotations

DENIED = "Tool call denied by user."
DENIED_DEFAULT = f"{DENIED} A person declined it, so do not repeat this call unchanged."
DENIED_BEFORE = f"{DENIED} A person already declined this very call in this turn; it was not asked again."
APPROVAL_DEADLINE_PASSED = "approval deadline passed"
STOPPED_BEFORE_START = "The tool call was not run: the user stopped this turn before it started."
STEERED_BEFORE_START = "The tool call was not run: the user sent something else to do before it started."
BLOCKED_BY_MODE = (
    "The tool call was not run: this session's approval mode {mode!r} does not allow it. No person was asked."
)
DID_NOT_RUN = "the tool did not run, so it is safe to call again"
OUTCOME_UNKNOWN = (
    "The outcome of this tool call is unknown: it was started, and it may have taken effect. "
    "Do not assume that it failed; check before you repeat it."
)
TOO_MANY_CALLS = "The tool call was not run: one response may hold at most {limit} tool calls."
CALL_LIMIT = "The tool call was not run: this turn reached its limit of {limit} model calls."
ATTEMPTS_SPENT = "the tool failed in every attempt: {detail}"

NOTE = "[Perdure]"
"""Every note that we add to a prompt begins with this (spec U-16)."""


def denied(message: str | None) -> str:
    """Return what the model is told about a call that a person declined."""
    return f"{DENIED} They wrote: {message}" if message else DENIED_DEFAULT


def did_not_run(detail: str) -> str:
    """Return what the model is told about a call that no worker ever began (spec TOOL-06)."""
    return f"{DID_NOT_RUN}: {detail}"
