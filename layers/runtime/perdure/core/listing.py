"""What a search in the session list asks for, and whether a row of the list is what it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

WAITING_FOR = ("approval", "question", "input", "timer", "event", "task", "retry", "any")
"""What a session may wait for; `any`: for something."""

STATUSES = ("active", "waiting_for_user_message", "running_model", "running_tools", "compacting_context")
"""What a session may do; `active`: a turn is open, whether it runs or waits."""


class SessionSearch(TypedDict, total=False):
    """What a session list may be searched for; all of it has to hold (`SessionFilter`)."""

    query: str | None
    waiting_for: str | None
    status: str | None
    agent: str | None


_SEARCHED = ("session_id", "title", "preview")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """What a search asks for; all of it has to hold.

    Attributes:
        query: A text that is in the session's id, title or preview; upper and lower case are the same.
        waiting_for: One of `WAITING_FOR`.
        status: One of `STATUSES`.
        agent: The session's agent.
    """

    query: str | None = None
    waiting_for: str | None = None
    status: str | None = None
    agent: str | None = None

    def matches(self, row: Mapping[str, Any]) -> bool:
        """Whether a row of the list, as `public_summary` makes it, is what is asked for."""
        if self.agent is not None and row["agent"] != self.agent:
            return False
        if self.status == "active" and row["status"] == "waiting_for_user_message":
            return False
        if self.status not in (None, "active", row["status"]):
            return False
        kinds = [item["kind"] for item in row.get("waiting_for", ())]
        if self.waiting_for is not None and not (kinds if self.waiting_for == "any" else self.waiting_for in kinds):
            return False
        if self.query is None:
            return True
        sought = self.query.strip().casefold()
        return any(sought in str(row.get(name) or "").casefold() for name in _SEARCHED)
