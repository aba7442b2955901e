"""Fixed texts that the model sees. Those quoted in the spec (appendix A.6) are contract strings."""

from __future__ import annotations

from perdure.core.limits import MAX_RECORDS

DENIED = "Tool call denied by user."
DENIED_DEFAULT = f"{DENIED} A person declined it, so do not repeat this call unchanged."
DENIED_BEFORE = f"{DENIED} A person already declined this very call in this turn; it was not asked again."
APPROVAL_DEADLINE_PASSED = "approval deadline passed"
QUESTION_DEADLINE_PASSED = "question deadline passed"
DECLINED = "The user declined to answer."
STOPPED_BEFORE_START = "The tool call was not run: the user stopped this turn before it started."
STEERED_BEFORE_START = "The tool call was not run: the user sent something else to do before it started."
UNANSWERED = {
    "turn_cancelled": "The question was not answered: the user stopped this turn.",
    "steered": "The question was not answered: a new message of the user replaced it.",
}
WAIT_ENDED = {
    "turn_cancelled": "The wait ended before its time: the user stopped this turn.",
    "steered": "The wait ended before its time: the user sent something else to do.",
}
NOT_AWAITED = {
    "turn_cancelled": "What this tool call was to bring did not come before the user stopped this turn.",
    "steered": "What this tool call was to bring did not come before the user sent something else to do.",
}
TASK_ABANDONED = (
    "The outcome of this tool call is unknown: its task was started, and the user stopped this turn before it ended. "
    "It may go on and take effect."
)
PARTLY_DONE = "This tool call had begun before it asked. What it had done by then stays done."
TOO_MANY_FACTS = f"the tool asked, waited and recorded more than {MAX_RECORDS} times, the most that one call may"
NO_POLLER = "the tool started a task, and nothing in this deployment can look after it"
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


def withdrawn(status: str, reason: str) -> str:
    """Return what the model is told about a call that was ended before any worker began it.

    Args:
        status: What it waited for.
        reason: `turn_cancelled` or `steered`.
    """
    if status == "awaiting_answer":
        return UNANSWERED[reason]
    if status == "waiting_for_timer":
        return WAIT_ENDED[reason]
    if status == "waiting_for_event":
        return NOT_AWAITED[reason]
    return STOPPED_BEFORE_START if reason == "turn_cancelled" else STEERED_BEFORE_START


def did_not_run(detail: str) -> str:
    """Return what the model is told about a call that no worker ever began (spec TOOL-06)."""
    return f"{DID_NOT_RUN}: {detail}"
