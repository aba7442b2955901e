"""What the suites of `SessionStore`, `Leases` and `Results` are given: an adapter set, and how it is opened."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from perdure.ports import Leases, Results, SessionKey, SessionStore

OpenAdapter = Callable[[str], AbstractAsyncContextManager["Adapter"]]
"""Opens an adapter set for one test, as an async context manager that removes what it made when it is left.

It is given a name of 17 characters of `[a-z0-9]` that no other test has, for a file, a table or a schema. The tenants
of the test begin with it, so a store that tests share is good enough too.
"""


@dataclass(frozen=True)
class Adapter:
    """One adapter set, open.

    Attributes:
        store: The store of one worker.
        leases: Its leases.
        another_store: Returns the store of another worker on the same data, as a new process would make it.
        results: Where outcomes wait for a common commit, if the adapter set has it.
        erase: Deletes what was stored of a session besides HEAD, as retention and purge do: the entries below a
            version and, when told to, the receipts. What only HEAD holds is left alone.
    """

    store: SessionStore
    leases: Leases
    another_store: Callable[[], SessionStore]
    erase: Callable[[SessionKey, int, bool], Awaitable[None]]
    results: Results | None = None
