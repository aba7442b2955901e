"""The machine's clock and new ids."""

from __future__ import annotations

import re
from datetime import UTC

from perdure.core.codec import from_millis, to_millis
from perdure.embedded.clock import SystemClock, new_id


def test_a_moment_reads_back_from_the_store_as_it_was() -> None:
    moments = [SystemClock().now() for _ in range(50)]

    assert [from_millis(to_millis(moment)) for moment in moments] == moments
    assert all(moment.tzinfo is UTC for moment in moments)


def test_ids_are_different_and_of_the_alphabet_that_the_port_promises() -> None:
    ids = {new_id() for _ in range(1000)}

    assert len(ids) == 1000
    assert all(re.fullmatch(r"[a-z0-9]{1,32}", each) for each in ids)


async def test_a_sleep_of_no_time_returns_at_once() -> None:
    await SystemClock().sleep(0)
    await SystemClock().sleep(-1)
