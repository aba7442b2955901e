"""The group commit: outcomes of many parallel calls share commits instead of racing for one item (races.md X14)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

from perdure.core.commands import ToolFinished, ToolsFinished
from perdure.core.expected import expected_dispatches
from perdure.core.head import Head
from perdure.core.tools import is_awaited
from perdure.ports import Ports, SessionKey
from perdure.steps.attempt import Attempt
from perdure.steps.base import Line
from perdure.steps.commit import MAX_OUTAGES_OF_AN_OUTCOME, Executed, despite_outages, execute

ALONE_UP_TO = 4
"""Calls in flight up to which an outcome is committed alone (design §3)."""

JITTER_MS = 30
"""Longest wait in milliseconds before the outcomes that are there by then are taken together (design §3)."""

MAX_GROUPED_BYTES = 64 * 1024
"""Output in bytes up to which an outcome waits for others; a larger one is committed alone and offloaded."""


def is_grouped(attempt: Attempt, finished: ToolFinished) -> bool:
    """Whether an outcome should wait for those of its siblings."""
    if attempt.ports.results is None and not attempt.ports.in_process:
        return False
    if len(finished.output.encode()) > MAX_GROUPED_BYTES:
        return False
    return len(expected_dispatches(attempt.head)) > ALONE_UP_TO


async def finish_in_line(attempt: Attempt, finished: ToolFinished, line: Line) -> Executed:
    """Commit an outcome with those that came while an earlier commit was on its way, all of this process.

    Nothing is promised to anybody before the commit, so memory is enough for those that wait.
    """
    ports, key = attempt.ports, attempt.key
    line.waiting.append(finished)
    await ports.clock.sleep(0)  # tools that ended in the same moment
    async with line.lock:
        if finished not in line.waiting:  # somebody took it along
            return Executed(head=(await ports.store.load(key)).head, reply={"accepted": True})
        outcomes, line.waiting = line.waiting, []
        try:
            return await execute(ports, key, ToolsFinished(outcomes=tuple(outcomes)))
        except BaseException:  # each of the others tries for itself
            line.waiting = [other for other in outcomes if other is not finished] + line.waiting
            raise


async def finish_together(attempt: Attempt, finished: ToolFinished) -> Executed:
    """Make an outcome known, then see to it that it is committed: by this worker, with whatever else is there, or by
    another one that took it along."""
    ports, key = attempt.ports, attempt.key
    assert ports.results is not None, "outcomes are grouped"
    results = ports.results
    await despite_outages(ports, lambda: results.put(key, finished), most=MAX_OUTAGES_OF_AN_OUTCOME)
    await ports.clock.sleep(_jitter_ms(attempt.owner) / 1000)
    loaded, known = await despite_outages(
        ports, lambda: asyncio.gather(ports.store.load(key), results.of_turn(key, finished.turn_id))
    )
    if not is_awaited(loaded.head, finished):
        return Executed(head=loaded.head, reply={"accepted": True})
    outcomes = _awaited(loaded.head, known)
    return await execute(ports, key, ToolsFinished(outcomes=outcomes or (finished,)), known=loaded)


async def known_outcomes(ports: Ports, key: SessionKey, head: Head) -> tuple[ToolFinished, ...]:
    """Return the outcomes that were made known and that HEAD still waits for, in the order of the calls."""
    if ports.results is None or head.turn is None:
        return ()
    return _awaited(head, await ports.results.of_turn(key, head.turn.turn_id))


def _awaited(head: Head, known: Sequence[ToolFinished]) -> tuple[ToolFinished, ...]:
    assert head.turn is not None, "results belong to a turn"
    waiting = [result for result in known if is_awaited(head, result)]
    order = {call.call_id: place for place, call in enumerate(head.turn.calls)}
    return tuple(sorted(waiting, key=lambda result: order[result.call_id]))


async def take_known_outcome(ports: Ports, key: SessionKey, step_id: str, attempt: int) -> bool:
    """Commit an attempt's outcome if it was made known before its worker died: what is known never becomes unknown."""
    if ports.results is None:
        return False
    outcomes = await known_outcomes(ports, key, (await ports.store.load(key)).head)
    if not any((r.call_id, r.attempt) == (step_id, attempt) for r in outcomes):
        return False
    await execute(ports, key, ToolsFinished(outcomes=outcomes))
    return True


def _jitter_ms(owner: str) -> int:
    """Return a wait that differs between workers; drawn from the nonce, so that a virtual run is repeatable."""
    return int.from_bytes(hashlib.sha256(owner.encode()).digest()[:4], "big") % (JITTER_MS + 1)
