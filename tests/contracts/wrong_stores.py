"""Stores that break one promise each, in a way that somebody has got wrong before. The suites must catch every one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from perdure.core.decision import Decision
from perdure.core.entries import Actor, Entry
from perdure.errors import StaleSessionError
from perdure.ports import Lease, Loaded, LogSlice, RevokeResult, SessionKey, SessionPage
from tests.contracts.toy_store import ToyLeases, ToyStore


class LastWriterWins(ToyStore):
    """No condition on the version."""

    async def commit(self, key: SessionKey, loaded: Loaded, decision: Decision) -> Loaded:
        return await super().commit(key, Loaded(head=self.row(key).head), decision)


class TakesItsOwnEchoForARival(ToyStore):
    """A commit whose answer was lost is not recognised when it is sent again (X2)."""

    async def commit(self, key: SessionKey, loaded: Loaded, decision: Decision) -> Loaded:
        if self.row(key).head.version != loaded.head.version:
            raise StaleSessionError("another commit came first: read the session again")
        return await super().commit(key, loaded, decision)


class RemembersTheLatestReceiptsOnly(ToyStore):
    """Receipts leave with the entries that are in sight."""

    async def load(self, key: SessionKey, receipt_keys: Sequence[str] = ()) -> Loaded:
        row = self.row(key)
        latest = (entry for version, entry in row.entries.items() if version > row.head.version - 4)
        known = {receipt.key_hash: receipt for entry in latest for receipt in entry.receipts}
        return Loaded(head=row.head, receipts={name: known[name] for name in receipt_keys if name in known})


class WritesReceiptsBeforeItKnows(ToyStore):
    """A commit that is stale leaves its receipt behind."""

    async def commit(self, key: SessionKey, loaded: Loaded, decision: Decision) -> Loaded:
        assert decision.entry is not None
        row = self.row(key)
        row.receipts |= {receipt.key_hash: receipt for receipt in decision.entry.receipts}
        return await super().commit(key, loaded, decision)


class NewestFirst(ToyStore):
    """A limited read of the newest entries comes in the order it was found."""

    async def read(self, key: SessionKey, **wanted: object) -> LogSlice:
        log = await super().read(key, **wanted)  # type: ignore[arg-type]
        return replace(log, entries=log.entries[::-1]) if wanted.get("newest") else log


class ForgetsTheTenant(ToyStore):
    """One namespace for the sessions of all tenants. A name of the suite's 17 characters stands before each."""

    def row(self, key: SessionKey) -> object:  # type: ignore[override]
        return super().row(SessionKey(key.tenant[:17], key.session_id))

    async def commit(self, key: SessionKey, loaded: Loaded, decision: Decision) -> Loaded:
        return await super().commit(SessionKey(key.tenant[:17], key.session_id), loaded, decision)


class ReadsTheHeadLast(ToyStore):
    """Entries first, then a head that has moved on: a reader misses what was committed in between (X4)."""

    async def read(self, key: SessionKey, **wanted: object) -> LogSlice:
        log = await super().read(key, **wanted)  # type: ignore[arg-type]
        await _others_run()
        return replace(log, head=self.row(key).head)


class ListsEverybodysSessions(ToyStore):
    """The list of a tenant, whoever asks."""

    async def list_sessions(
        self, tenant: str, owner: Actor, *, cursor: str | None = None, limit: int = 50
    ) -> SessionPage:
        owners = {row.head.owner for key, row in self.rows.items() if key.tenant == tenant and row.head.owner}
        pages = [await super(ListsEverybodysSessions, self).list_sessions(tenant, someone) for someone in owners]
        return SessionPage(sessions=tuple(summary for page in pages for summary in page.sessions))


class PostponesWhatMovedOn(ToyStore):
    """The sweep's look is put off although a commit came in between."""

    async def postpone(self, key: SessionKey, version: int, due_at: datetime) -> None:
        self.row(key).due_at = due_at


class StartsAgainAfterAPurge(ToyStore):
    """A purge takes the tombstone along, so an old worker's condition holds in the next life (X11)."""

    async def erase(self, key: SessionKey, below: int, receipts: bool) -> None:
        await super().erase(key, below, receipts)
        if receipts:
            del self.rows[key]


class FindsAnyCommitOfTheVersion(ToyStore):
    """Whatever was committed as that version is taken for one's own."""

    async def find_commit(self, key: SessionKey, commit_id: str, versions: Sequence[int]) -> Entry | None:
        entries = self.row(key).entries
        return next((entries[version] for version in versions if version in entries), None)


class ReclaimsWhatExpired(ToyLeases):
    """An expired attempt is claimed again as the same attempt (X6)."""

    async def claim(self, key: SessionKey, step_id: str, attempt: int, owner: str, expires_at: datetime) -> bool:
        held = self.leases.get((key, step_id))
        if held is not None and held.expires_at + timedelta(hours=1) < expires_at:
            del self.leases[key, step_id]
        return await super().claim(key, step_id, attempt, owner, expires_at)


class TakesNoLeaseForDead(ToyLeases):
    """A revocation that finds no claim leaves no mark, so the attempt may still run (X5)."""

    async def revoke(self, key: SessionKey, step_id: str, attempt: int, now: datetime) -> RevokeResult:
        if (key, step_id) not in self.leases:
            return "unclaimed"
        return await super().revoke(key, step_id, attempt, now)


class LooksThenClaims(ToyLeases):
    """Two moments where one is needed: whoever looks meanwhile sees nobody."""

    async def claim(self, key: SessionKey, step_id: str, attempt: int, owner: str, expires_at: datetime) -> bool:
        held = self.leases.get((key, step_id))
        await _others_run()
        if held is not None:
            return await super().claim(key, step_id, attempt, owner, expires_at)
        self.leases[key, step_id] = Lease(attempt=attempt, owner=owner, expires_at=expires_at)
        return True


class ForgetsTheCheckpoint(ToyLeases):
    """A claim writes the whole item anew, and with it what the attempt before has left."""

    async def claim(self, key: SessionKey, step_id: str, attempt: int, owner: str, expires_at: datetime) -> bool:
        claimed = await super().claim(key, step_id, attempt, owner, expires_at)
        if claimed:
            self.leases[key, step_id] = Lease(attempt=attempt, owner=owner, expires_at=expires_at)
        return claimed


async def _others_run() -> None:
    import asyncio

    await asyncio.sleep(0)


CAUGHT_BY = {
    LastWriterWins: "test_of_two_commits_on_one_version_the_second_is_stale",
    TakesItsOwnEchoForARival: "test_x2_a_commit_whose_answer_was_lost_counts_as_done_when_it_is_sent_again",
    RemembersTheLatestReceiptsOnly: "test_a_receipt_is_found_after_any_number_of_later_commits",
    WritesReceiptsBeforeItKnows: "test_a_stale_commit_writes_nothing",
    NewestFirst: "test_a_range_is_read_oldest_first_and_without_gaps",
    ForgetsTheTenant: "test_sessions_of_one_id_in_two_tenants_know_nothing_of_each_other",
    ReadsTheHeadLast: "test_x4_a_reader_beside_writers_never_misses_an_entry",
    ListsEverybodysSessions: "test_a_list_holds_only_the_owners_sessions_of_the_tenant",
    PostponesWhatMovedOn: "test_a_session_that_moved_on_is_not_postponed",
    StartsAgainAfterAPurge: "test_x11_a_worker_of_a_purged_life_can_not_write_into_the_next_one",
    FindsAnyCommitOfTheVersion: "test_a_commit_is_found_by_its_id_at_the_versions_that_it_tried",
    ReclaimsWhatExpired: "test_x6_an_expired_attempt_is_never_claimed_again",
    TakesNoLeaseForDead: "test_x5_an_attempt_revoked_before_anybody_claimed_it_never_runs",
    LooksThenClaims: "test_of_many_workers_that_claim_one_attempt_at_once_exactly_one_gets_it",
    ForgetsTheCheckpoint: "test_a_later_attempt_finds_the_checkpoint_of_an_earlier_one_and_replaces_it",
}
"""Each wrong adapter, and the test that is about what it gets wrong. Others may fail too."""
