"""What every command has in common. `decide` finds the transition of one by its class.

A command of the class `PauseSession` is decided by `on_pause_session` in the module of `core` that the class names.
That module is imported with the first such command: a container of the model step never sees most of them, and the time
to import them all would be added to each first turn.
"""

from __future__ import annotations

from typing import ClassVar


class UserCommand:
    """What somebody outside asks for. It gives up after too many lost races, and needs a session that exists."""

    __slots__ = ()

    DECIDED_IN: ClassVar[str]
    BEGINS_A_SESSION: ClassVar[bool] = False
    """It does not need a session that exists."""


class StepCommand:
    """What a worker has to say. It never gives up a race."""

    __slots__ = ()

    DECIDED_IN: ClassVar[str]
    IS_OUTCOME: ClassVar[bool] = False
    """It may not be known again, so the store is asked for longer."""


Command = UserCommand | StepCommand
