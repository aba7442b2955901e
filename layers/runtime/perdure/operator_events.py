"""Events for whoever operates a deployment: a channel of its own, with a small fixed vocabulary (spec EVT-13).

They go to the logger `perdure.operator` as a constant sentence with fields beside it. They hold ids, codes and counts,
and never a prompt, reasoning, a tool's input or output, or what a provider wrote. Of a cause they hold its class and
where it came from; with `PERDURE_OPERATOR_DETAILS=1` in the environment the whole of it, with its message.
"""

from __future__ import annotations

import logging
import os
import re
import traceback
from pathlib import Path
from typing import Final, Literal, LiteralString, TypedDict

logger = logging.getLogger("perdure.operator")

DETAILS_VARIABLE = "PERDURE_OPERATOR_DETAILS"
"""Set to `1`, the causes of operator events are told in full. What they say may hold what users and models wrote."""

MAX_FRAMES = 4
"""Places that are told of a cause, the innermost last. Our own choice."""

OperatorEvent = Literal[
    "dead_letter",  # a queue gave a message up; its step ends visibly
    "fault",  # something raised what nobody expected
    "lease_lost",  # a worker found that its attempt was given to another
    "outage",  # a store, a queue or a service of ours gives no answer
    "recovery",  # an attempt whose worker died was given up, and goes on elsewhere or fails
    "sink_dropped",  # events were not delivered to a sink, and will not be
    "sink_failing",  # a delivery to a sink failed, and is tried again
    "throttled",  # somebody asks us to slow down
    "turn_failed",  # a turn ended without an answer
]

LEASE_LOST: Final = "an attempt was given up while it ran, and its work was cut off"

_LEVELS: dict[str, int] = {
    "dead_letter": logging.ERROR,
    "fault": logging.ERROR,
    "sink_dropped": logging.ERROR,
    "recovery": logging.INFO,
}
"""Everything else is a warning."""


class StepNames(TypedDict):
    """Which attempt of which step, as `tell` wants it."""

    session_id: str
    step_id: str
    attempt: int


_ID = re.compile(r"[A-Za-z0-9._:/-]{1,200}")
"""What an id, a code or a name looks like. Anything else is left out: it may be a text."""


def tell(
    event: OperatorEvent,
    sentence: LiteralString,
    *,
    error: BaseException | None = None,
    session_id: str | None = None,
    turn_id: str | None = None,
    step_id: str | None = None,
    attempt: int | None = None,
    tool_name: str | None = None,
    sink: str | None = None,
    code: str | None = None,
    message_id: str | None = None,
    count: int | None = None,
    seconds: float | None = None,
) -> None:
    """Tell the operators of something. Never raises.

    Args:
        sentence: Constant, so that it can be counted; `error` and the fields say which.
        code: Why, as a code: of a failed turn, or of an answer of a service.
        count: How many: of a `sink_dropped` the events, of a `sink_failing` the failures in a row.
        seconds: Until it is tried again.
    """
    code = code or getattr(error, "code", None)  # as our own errors have one
    named = {
        "session_id": session_id,
        "turn_id": turn_id,
        "step_id": step_id,
        "tool_name": tool_name,
        "sink": sink,
        "code": code,
        "message_id": message_id,
    }
    fields: dict[str, object] = {
        name: value for name, value in named.items() if isinstance(value, str) and _ID.fullmatch(value)
    }
    fields |= {n: v for n, v in (("attempt", attempt), ("count", count), ("seconds", seconds)) if v is not None}
    if error is not None:
        fields |= {"cause": type(error).__name__, "where": _where(error)}
    details = error if os.environ.get(DETAILS_VARIABLE) == "1" else None
    logger.log(_LEVELS.get(event, logging.WARNING), sentence, extra={"event": event, **fields}, exc_info=details)


def _is_id(value: object) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _where(error: BaseException) -> str:
    """Return where an error came from: file names, lines and functions, and nothing that a variable held."""
    frames = traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
    return " > ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames)
