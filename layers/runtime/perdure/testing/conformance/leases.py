"""What `Leases` promises."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from perdure.core.limits import LEASE_DURATION, LEASE_GRACE, MAX_CHECKPOINT_BYTES
from perdure.errors import InvalidRequestError
from perdure.ports import Lease, Leases, SessionKey
from perdure.testing.conformance.builders import A_SESSION, NOON, SECOND

pytestmark = pytest.mark.asyncio

STEP = "model-1-0"
SOON = NOON + LEASE_DURATION
OVER = SOON + LEASE_GRACE


async def test_a_step_without_a_claim_has_no_lease(leases: Leases) -> None:
    assert await leases.read_lease(A_SESSION, STEP) is None


async def test_a_claimed_attempt_is_held_by_its_owner_until_its_expiry(leases: Leases) -> None:
    assert await leases.claim(A_SESSION, STEP, 1, "anna", SOON)

    assert await leases.read_lease(A_SESSION, STEP) == Lease(attempt=1, owner="anna", expires_at=SOON)


async def test_a_claimed_attempt_is_claimed_by_nobody_else(leases: Leases) -> None:
    await leases.claim(A_SESSION, STEP, 1, "anna", SOON)

    assert not await leases.claim(A_SESSION, STEP, 1, "bert", SOON)

    assert await leases.read_lease(A_SESSION, STEP) == Lease(attempt=1, owner="anna", expires_at=SOON)


async def test_a_claim_whose_answer_was_lost_holds_when_it_is_sent_again(leases: Leases) -> None:
    await leases.claim(A_SESSION, STEP, 1, "anna", SOON)

    assert await leases.claim(A_SESSION, STEP, 1, "anna", SOON)


async def test_of_many_workers_that_claim_one_attempt_at_once_exactly_one_gets_it(leases: Leases) -> None:
    claims = await asyncio.gather(*(leases.claim(A_SESSION, STEP, 1, f"worker{i}", SOON) for i in range(20)))

    assert sum(claims) == 1
    lease = await leases.read_lease(A_SESSION, STEP)
    assert lease is not None
    assert lease.owner == f"worker{claims.index(True)}"


async def test_x6_an_expired_attempt_is_never_claimed_again(leases: Leases) -> None:
    await leases.claim(A_SESSION, STEP, 1, "anna", NOON)

    late = OVER + timedelta(days=1)

    assert not await leases.claim(A_SESSION, STEP, 1, "bert", late)


async def test_x6_a_worker_that_read_head_before_a_later_attempt_can_not_claim_the_earlier_one(leases: Leases) -> None:
    await leases.claim(A_SESSION, STEP, 1, "anna", SOON)
    await leases.revoke(A_SESSION, STEP, 1, OVER)
    await leases.claim(A_SESSION, STEP, 2, "bert", OVER + LEASE_DURATION)

    assert not await leases.claim(A_SESSION, STEP, 1, "carl", OVER + LEASE_DURATION)
    assert not await leases.claim(A_SESSION, STEP, 1, "anna", OVER + LEASE_DURATION)


async def test_a_later_attempt_is_claimed_after_an_earlier_one(leases: Leases) -> None:
    await leases.claim(A_SESSION, STEP, 1, "anna", SOON)

    assert await leases.claim(A_SESSION, STEP, 2, "bert", OVER)

    assert await leases.read_lease(A_SESSION, STEP) == Lease(attempt=2, owner="bert", expires_at=OVER)


async def test_a_renewal_moves_the_expiry_of_ones_own_claim(leases: Leases) -> None:
    await leases.claim(A_SESSION, STEP, 1, "anna", SOON)

    assert await leases.renew(A_SESSION, STEP, 1, "anna", SOON + SECOND)

    assert await leases.read_lease(A_SESSION, STEP) == Lease(attempt=1, owner="anna", expires_at=SOON + SECOND)


async def test_nobody_renews_a_claim_of_another_owner_or_attempt_or_one_that_was_never_made(leases: Leases) -> None:
    assert not await leases.renew(A_SESSION, STEP, 1, "anna", SOON)
    await leases.claim(A_SESSION, STEP, 2, "anna", SOON)

    assert not await leases.renew(A_SESSION, STEP, 2, "bert", SOON + SECOND)
    assert not await leases.renew(A_SESSION, STEP, 1, "anna", SOON + SECOND)
    assert not await leases.renew(A_SESSION, STEP, 3, "anna", SOON + SECOND)
    assert await leases.read_lease(A_SESSION, STEP) == Lease(attempt=2, owner="anna", expires_at=SOON)


async def test_a_worker_whose_attempt_was_replaced_learns_it_at_its_next_renewal(leases: Leases) -> None:
    await leases.claim(A_SESSION, STEP, 1, "anna", SOON)
    await leases.claim(A_SESSION, STEP, 2, "bert", OVER)

    assert not await leases.renew(A_SESSION, STEP, 1, "anna", OVER)


async def test_an_attempt_that_somebody_holds_is_not_revoked_before_the_grace_is_over(leases: Leases) -> None:
    await leases.claim(A_SESSION, STEP, 1, "anna", SOON)

    assert await leases.revoke(A_SESSION, STEP, 1, NOON) == "alive"
    assert await leases.revoke(A_SESSION, STEP, 1, OVER - timedelta(milliseconds=1)) == "alive"

    assert await leases.renew(A_SESSION, STEP, 1, "anna", OVER)


async def test_an_expired_attempt_is_revoked_and_its_worker_must_stop(leases: Leases) -> None:
    await leases.claim(A_SESSION, STEP, 1, "anna", SOON)

    assert await leases.revoke(A_SESSION, STEP, 1, OVER) == "claimed"

    assert not await leases.renew(A_SESSION, STEP, 1, "anna", OVER + LEASE_DURATION)
    assert not await leases.claim(A_SESSION, STEP, 1, "anna", OVER + LEASE_DURATION)
    lease = await leases.read_lease(A_SESSION, STEP)
    assert lease is not None
    assert (lease.attempt, lease.claimed, lease.revoked) == (1, True, True)


async def test_x5_an_attempt_revoked_before_anybody_claimed_it_never_runs(leases: Leases) -> None:
    assert await leases.revoke(A_SESSION, STEP, 1, NOON) == "unclaimed"

    assert not await leases.claim(A_SESSION, STEP, 1, "anna", SOON)
    lease = await leases.read_lease(A_SESSION, STEP)
    assert lease is not None
    assert (lease.attempt, lease.claimed, lease.revoked) == (1, False, True)


async def test_x5_of_a_claim_and_a_revocation_at_once_exactly_one_wins(leases: Leases) -> None:
    for number in range(10):
        step = f"call-{number + 1}-0"

        claimed, revoked = await asyncio.gather(
            leases.claim(A_SESSION, step, 1, "anna", SOON), leases.revoke(A_SESSION, step, 1, NOON)
        )

        assert (claimed, revoked) in {(True, "alive"), (False, "unclaimed")}


async def test_a_second_attempt_that_nobody_claimed_is_revoked_as_unclaimed(leases: Leases) -> None:
    await leases.claim(A_SESSION, STEP, 1, "anna", SOON)
    await leases.revoke(A_SESSION, STEP, 1, OVER)

    assert await leases.revoke(A_SESSION, STEP, 2, OVER) == "unclaimed"

    assert not await leases.claim(A_SESSION, STEP, 2, "bert", OVER)
    assert await leases.claim(A_SESSION, STEP, 3, "bert", OVER)


async def test_a_repeated_revocation_gives_the_same_answer(leases: Leases) -> None:
    await leases.claim(A_SESSION, STEP, 1, "anna", SOON)

    claimed = [await leases.revoke(A_SESSION, STEP, 1, OVER + n * SECOND) for n in range(3)]
    unclaimed = [await leases.revoke(A_SESSION, "call-2-0", 1, NOON - n * SECOND) for n in range(3)]

    assert claimed == ["claimed"] * 3
    assert unclaimed == ["unclaimed"] * 3


async def test_a_revoked_claim_is_answered_as_claimed_even_by_a_clock_that_is_behind(leases: Leases) -> None:
    await leases.claim(A_SESSION, STEP, 1, "anna", SOON)
    await leases.revoke(A_SESSION, STEP, 1, OVER)

    assert await leases.revoke(A_SESSION, STEP, 1, NOON) == "claimed"


async def test_a_renewed_claim_survives_a_revocation_that_was_decided_on_the_old_expiry(leases: Leases) -> None:
    await leases.claim(A_SESSION, STEP, 1, "anna", SOON)
    await leases.renew(A_SESSION, STEP, 1, "anna", OVER + LEASE_DURATION)

    assert await leases.revoke(A_SESSION, STEP, 1, OVER) == "alive"


async def test_leases_of_other_steps_sessions_and_tenants_are_independent(leases: Leases) -> None:
    others = [
        (A_SESSION, "model-3-0"),
        (SessionKey(A_SESSION.tenant, "s-2"), STEP),
        (SessionKey("other", A_SESSION.session_id), STEP),
    ]
    await leases.revoke(A_SESSION, STEP, 1, NOON)

    assert [await leases.claim(key, step, 1, "anna", SOON) for key, step in others] == [True, True, True]
    assert await leases.claim(A_SESSION, STEP, 1, "anna", SOON) is False


# --- checkpoints -------------------------------------------------------------------------------------------------


async def checkpoint_of(leases: Leases, key: SessionKey = A_SESSION, step: str = STEP) -> str | None:
    lease = await leases.read_lease(key, step)
    assert lease is not None
    return lease.checkpoint


async def test_a_claim_has_no_checkpoint_until_its_owner_saves_one(leases: Leases) -> None:
    await leases.claim(A_SESSION, STEP, 1, "anna", SOON)
    before = await checkpoint_of(leases)

    assert await leases.save_checkpoint(A_SESSION, STEP, 1, "anna", "row 500")

    lease = Lease(attempt=1, owner="anna", expires_at=SOON, checkpoint="row 500")  # and no renewal
    assert (before, await leases.read_lease(A_SESSION, STEP)) == (None, lease)


async def test_the_last_checkpoint_is_the_one_that_counts_and_a_renewal_keeps_it(leases: Leases) -> None:
    await leases.claim(A_SESSION, STEP, 1, "anna", SOON)
    for text in ("row 500", "", "row 1000 \x00 🌍"):
        assert await leases.save_checkpoint(A_SESSION, STEP, 1, "anna", text)
        assert await checkpoint_of(leases) == text

    await leases.renew(A_SESSION, STEP, 1, "anna", OVER)
    await leases.claim(A_SESSION, STEP, 1, "anna", OVER)  # an answer was lost

    assert await checkpoint_of(leases) == "row 1000 \x00 🌍"


async def test_a_later_attempt_finds_the_checkpoint_of_an_earlier_one_and_replaces_it(leases: Leases) -> None:
    await leases.claim(A_SESSION, STEP, 1, "anna", NOON)
    await leases.save_checkpoint(A_SESSION, STEP, 1, "anna", "row 500")
    await leases.revoke(A_SESSION, STEP, 1, SOON)

    await leases.claim(A_SESSION, STEP, 2, "bert", OVER)
    found = await checkpoint_of(leases)
    await leases.save_checkpoint(A_SESSION, STEP, 2, "bert", "row 900")

    assert (found, await checkpoint_of(leases)) == ("row 500", "row 900")


async def test_a_checkpoint_outlives_an_attempt_that_was_revoked_before_anybody_claimed_it(leases: Leases) -> None:
    await leases.claim(A_SESSION, STEP, 1, "anna", NOON)
    await leases.save_checkpoint(A_SESSION, STEP, 1, "anna", "row 500")
    await leases.revoke(A_SESSION, STEP, 1, SOON)
    await leases.revoke(A_SESSION, STEP, 2, SOON)

    await leases.claim(A_SESSION, STEP, 3, "carl", OVER)

    assert await checkpoint_of(leases) == "row 500"


async def test_nobody_saves_a_checkpoint_without_a_claim_that_holds(leases: Leases) -> None:
    assert not await leases.save_checkpoint(A_SESSION, STEP, 1, "anna", "row 500")
    assert await leases.read_lease(A_SESSION, STEP) is None
    await leases.claim(A_SESSION, STEP, 2, "anna", NOON)

    assert not await leases.save_checkpoint(A_SESSION, STEP, 2, "bert", "row 500")
    assert not await leases.save_checkpoint(A_SESSION, STEP, 1, "anna", "row 500")
    assert not await leases.save_checkpoint(A_SESSION, STEP, 3, "anna", "row 500")
    await leases.revoke(A_SESSION, STEP, 2, SOON)
    assert not await leases.save_checkpoint(A_SESSION, STEP, 2, "anna", "row 500")

    assert await checkpoint_of(leases) is None


async def test_a_checkpoint_of_four_kilobytes_is_kept_and_a_larger_one_refused(leases: Leases) -> None:
    await leases.claim(A_SESSION, STEP, 1, "anna", SOON)
    longest = "ä" * (MAX_CHECKPOINT_BYTES // 2)

    assert await leases.save_checkpoint(A_SESSION, STEP, 1, "anna", longest)
    for wrong in (longest + "a", "a\ud800"):
        with pytest.raises(InvalidRequestError):
            await leases.save_checkpoint(A_SESSION, STEP, 1, "anna", wrong)

    assert await checkpoint_of(leases) == longest
