"""Commands of one session go through one by one, in the order of their coming; those of others pass beside them."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

from perdure.ports import SessionKey


class Turnstiles:
    """`Ports.turnstile` of one event loop. One that nobody stands at takes no memory."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[SessionKey, asyncio.Lock] = WeakValueDictionary()

    def __call__(self, key: SessionKey) -> asyncio.Lock:
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock
