"""A process that commits turn after turn and says so: one line of `acknowledged <session> <version>` each."""

from __future__ import annotations

import asyncio
import resource
import sys

from perdure.core.limits import LEASE_DURATION
from perdure.embedded.clock import new_id
from perdure.embedded.database import Database
from perdure.embedded.leases import SqliteLeases
from perdure.embedded.store import SqliteSessionStore
from perdure.errors import PerdureError
from perdure.ports import SessionKey
from perdure.testing.conformance.builders import NOON, a_message, an_answer, decided


def say(*words: object) -> None:
    print(*words, flush=True)


async def commit_for_ever(file: str, sessions: int) -> None:
    """Commit to many sessions at once until somebody kills this process."""
    database = Database.open(file)
    store, leases = SqliteSessionStore(database), SqliteLeases(database)

    async def write(key: SessionKey) -> None:
        while True:
            loaded = await store.load(key)
            command = an_answer(loaded.head) if loaded.head.turn else a_message("x" * 3000)
            decision = decided(loaded.head, command, commit_id=new_id())
            await store.commit(key, loaded, decision)
            say("acknowledged", key.session_id, decision.head.version)
            step = f"model-{decision.head.version}-0"
            if await leases.claim(key, step, 1, "me", NOON + LEASE_DURATION):
                say("claimed", key.session_id, step)

    say("ready")
    await asyncio.gather(*(write(SessionKey("acme", f"s-{number}")) for number in range(sessions)))


async def commit_until_the_disk_fails(file: str) -> None:
    """Let writes fail for a while by a limit on file sizes, and say what was acknowledged before and after."""
    database = Database.open(file)
    store, key = SqliteSessionStore(database), SessionKey("acme", "s-0")

    async def send() -> None:
        loaded = await store.load(key)
        decision = decided(loaded.head, a_message("x" * 20_000), commit_id=new_id())
        await store.commit(key, loaded, decision)
        say("acknowledged", key.session_id, decision.head.version)

    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for _ in range(3):
        await send()
    resource.setrlimit(resource.RLIMIT_FSIZE, (256 * 1024, hard))
    for _ in range(20):
        try:
            await send()
        except PerdureError as error:
            say("refused", type(error).__name__)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    say("room")
    for _ in range(3):
        await send()
    say("done")


if __name__ == "__main__":
    if sys.argv[1] == "for-ever":
        asyncio.run(commit_for_ever(sys.argv[2], int(sys.argv[3])))
    else:
        asyncio.run(commit_until_the_disk_fails(sys.argv[2]))
