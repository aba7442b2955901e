"""What comes by itself while a person sits at an idle prompt: turns of schedules, and of messages from elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import cast

from perdure.cli.printing import print_message
from perdure.cli.turn_view import LATEST_MESSAGES, TurnView
from perdure.session import Session, SessionEvent


class Onlooker:
    """Looks for turns that nobody here began.

    Attributes:
        place: The cursor behind what has been shown.
    """

    def __init__(self, session: Session, view: TurnView) -> None:
        self.place: str | None = None
        self._session = session
        self._view = view
        self._turn_id: str | None = None

    async def begun(self) -> None:
        """Return when a turn has begun; `place` then stands right before it."""
        events = cast("AsyncGenerator[SessionEvent]", self._session.events(after=self.place, follow=True))
        async with contextlib.aclosing(events):
            async for event in events:
                if event.type == "turn_started":
                    self._turn_id = event.turn_id
                    return
                self.place = event.cursor

    async def show(self) -> None:
        """Show the messages that the turn began with, and who they are from."""
        self._view.end_line()
        for message in (await self._session.messages(limit=LATEST_MESSAGES))["messages"]:
            if message["turn_id"] == self._turn_id and message["role"] == "user":
                print_message(message)
