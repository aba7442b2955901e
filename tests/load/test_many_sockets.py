"""Many WebSockets on one server, each of which gets all of it in order: the small version of `python -m bench live`.

The server is a process of its own. Sockets are compared with each other, and never with a stop watch.
"""

import pytest

from bench.live import SLOW_DELTAS, Sizes, beside_a_slow_one, many_sessions, one_session

pytestmark = [pytest.mark.load, pytest.mark.timeout(120)]

SMALL = Sizes(sockets=50, sessions=20, each=5, quick=20, deltas=20, rounds=2)

MOST_KB_PER_SOCKET = 256
"""About 85 were measured, with compression."""

MOST_UNFAIR = 4.0
"""How much older than the median socket's tokens those of the slowest twentieth may be."""

MOST_BESIDE_A_SLOW_ONE = 3.0
"""How much longer the quick ones may wait: 1.5 is what a machine of one's own has to show."""


async def test_fifty_sockets_of_one_session_get_every_event_in_order() -> None:
    shown = await one_session(SMALL)

    assert shown["tokens_received"] == SMALL.sockets * SMALL.deltas * SMALL.rounds
    assert shown["kb_per_socket"]["after"] <= MOST_KB_PER_SOCKET


async def test_of_a_hundred_sockets_on_twenty_sessions_none_starves() -> None:
    shown = await many_sessions(SMALL)

    assert shown["tokens_received"] == SMALL.sessions * SMALL.each * SMALL.deltas
    assert shown["fairness_p95_by_p50"] <= MOST_UNFAIR


async def test_a_socket_that_takes_nothing_holds_up_no_other() -> None:
    shown = await beside_a_slow_one(SMALL)

    assert shown["p95_ratio"] <= MOST_BESIDE_A_SLOW_ONE
    assert max(shown["tokens_the_slow_one_saw_live"]) < SLOW_DELTAS
