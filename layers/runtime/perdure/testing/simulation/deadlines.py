"""What happens to a session by other ways than its API: a deadline that moves, a command of trusted code."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from perdure.core.commands import UserCommand
from perdure.core.decision import Decision
from perdure.core.entries import Entry
from perdure.core.expected import expected_timers
from perdure.core.head import Interrupt
from perdure.errors import RequestError
from perdure.ports import Ports, SessionKey
from perdure.steps.commit import execute


async def postpone_deadlines(ports: Ports, key: SessionKey, by: timedelta) -> bool:
    """Move the deadlines of all that a person is asked, and set the new timers beside the old ones.

    Returns:
        False: nobody is asked anything.
    """
    loaded = await ports.store.load(key)
    head = loaded.head
    if head.turn is None or not head.turn.interrupts:
        return False
    version = head.version + 1

    def later(interrupt: Interrupt) -> Interrupt:
        moved = interrupt.deadline + by if interrupt.deadline else None
        return replace(interrupt, deadline=moved, fence=version)

    turn = replace(head.turn, interrupts=tuple(later(interrupt) for interrupt in head.turn.interrupts))
    changed = replace(head, version=version, turn=turn)
    entry = Entry(version=version, commit_id=ports.new_id(), at=ports.clock.now(), kind="deadlines_moved")
    await ports.store.commit(key, loaded, Decision(changed, entry, {}))
    for timer in expected_timers(changed):
        await ports.timers.set(key, timer)
    return True


async def result_of(key: SessionKey, command: UserCommand, ports: Ports) -> str:
    """Carry out a command; returns its result, or the code of what was wrong with it."""
    try:
        return str((await execute(ports, key, command)).reply["result"])
    except RequestError as error:
        return error.code
