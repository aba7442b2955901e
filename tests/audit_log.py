"""An application's sink for tests of both adapter sets."""

from __future__ import annotations

from typing import Any

from perdure import Notice

JsonObject = dict[str, Any]


class Audit:
    """An application's own log, which may be told to fail.

    Attributes:
        failing: How many of the next deliveries raise, after they took nothing.
        losing: How many of the next raise after they took all.
        session_id: Which session is meant when none is named.
    """

    def __init__(self, *, failing: int = 0, losing: int = 0, session_id: str = "s-1") -> None:
        self.session_id = session_id
        self.failing = failing
        self.losing = losing
        self.tries = 0
        self.notices: list[Notice] = []

    async def deliver(self, notice: Notice) -> None:
        self.tries += 1
        if self.failing:
            self.failing -= 1
            raise ConnectionError("the audit log is down")
        self.notices.append(notice)
        if self.losing:
            self.losing -= 1
            raise TimeoutError("no answer came")

    def events(self, session_id: str | None = None) -> list[JsonObject]:
        wanted = session_id or self.session_id
        return [event for notice in self.notices if notice.session_id == wanted for event in notice.events]

    def sequences(self, session_id: str | None = None) -> list[int]:
        return [event["sequence"] for event in self.events(session_id)]
