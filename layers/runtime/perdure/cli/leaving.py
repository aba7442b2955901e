"""What ends a conversation in the terminal besides its own end: both are raised from wherever a line is read."""

from __future__ import annotations


class Leave(Exception):  # noqa: N818 - it is no error
    """The person wants to go."""


class Switch(Exception):  # noqa: N818 - it is no error
    """The person wants to go on with another session."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.session_id = session_id
