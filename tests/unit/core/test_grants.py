"""An approval given ahead: this tool, these fields, this session, for a while (Beyond 4)."""

from datetime import timedelta
from typing import Any

import pytest

from perdure.core.commands import GrantScope
from perdure.core.control_commands import RevokeGrant
from perdure.core.grants import scope_match
from perdure.core.limits import MAX_GRANT_USES
from perdure.core.public import public_state
from perdure.errors import InvalidRequestError, NotFoundError
from tests.unit.core.builders import ALICE, Play, a_single_write, asked_for

HOUR = timedelta(hours=1)
CALL = "call-2-0"


def a_payment(order: str, amount: int = 5) -> Any:
    return a_single_write(gated=True, arguments={"order": order, "amount": amount})


def granted(**scope: Any) -> Play:
    """Return a session in which payments for order 7 were approved ahead with the first of them."""
    play, _ = asked_for(a_payment("7"))
    match = scope_match(("order",), {"order": "7", "amount": 5})
    bounds: dict[str, Any] = {"match": match, "lasts": HOUR, "fields": ("order",)}
    play.approve(CALL, grant=GrantScope(**bounds | scope))
    play.starts(CALL)
    play.finishes(CALL, "paid")
    return play


def test_a_call_with_the_same_fields_is_approved_ahead_and_that_is_an_event() -> None:
    play = granted()

    (call,) = play.model_asks(a_payment("7", amount=900))

    assert play.dispatched == [call]
    assert play.pending == []
    told = next(event for event in play.last.events if event.type == "approval.by_grant")
    assert told.payload == {"tool_call_id": call, "tool_name": "pay", "grant_id": "grant-3-0"}


@pytest.mark.parametrize("order", ["8", None])
def test_another_value_in_a_field_is_asked_for(order: str | None) -> None:
    play = granted()

    (call,) = play.model_asks(a_payment(order))  # type: ignore[arg-type]

    assert play.pending == [call]


def test_another_tool_is_asked_for() -> None:
    play = granted()

    (call,) = play.model_asks(a_single_write("refund", gated=True, arguments={"order": "7", "amount": 5}))

    assert play.pending == [call]


def test_it_ends_with_its_time() -> None:
    play = granted()
    play.wait(HOUR)

    (call,) = play.model_asks(a_payment("7"))

    assert play.pending == [call]


def test_it_holds_as_often_as_was_said_and_is_then_gone() -> None:
    play = granted(max_uses=1)
    assert play.head.grants[0].uses_left == 1

    first, second = play.model_asks(a_payment("7"), a_payment("7"))

    assert play.dispatched == [first]
    assert play.pending == [second]
    assert play.head.grants == ()


def test_a_mode_that_always_asks_asks_all_the_same() -> None:
    play = granted()

    (call,) = play.model_asks(a_payment("7"), approval_mode="always_ask")

    assert play.pending == [call]


@pytest.mark.parametrize("mode", ["deny_all", "read_only"])
def test_a_mode_that_lets_nothing_run_lets_nothing_run_by_it(mode: str) -> None:
    play = granted()

    (call,) = play.model_asks(a_payment("7"), approval_mode=mode)

    assert play.result(call)["status"] == "rejected"
    assert len(play.head.grants) == 1


def test_what_a_person_declined_in_this_turn_stays_declined() -> None:
    play = granted()
    play.model_asks(a_payment("8"), a_payment("9"))
    play.reject(play.pending[0])
    match = scope_match((), {})
    play.approve(play.pending[0], grant=GrantScope(match=match, lasts=HOUR))
    play.runs(play.dispatched[0])

    declined, other = play.model_asks(a_payment("8"), a_payment("10"))

    assert play.result(declined)["status"] == "rejected"
    assert play.dispatched == [other]


def test_it_can_be_revoked_once() -> None:
    play = granted()
    revoke = RevokeGrant(grant_id="grant-3-0", actor=ALICE)

    play.apply(revoke)

    assert play.last.events[-1].type == "approval.revoked"
    (call,) = play.model_asks(a_payment("7"))
    assert play.pending == [call]
    with pytest.raises(NotFoundError, match="grant-3-0") as caught:
        play.apply(revoke)
    assert caught.value.code == "grant_not_found"


def test_everybody_sees_what_is_approved_ahead() -> None:
    play = granted(max_uses=3)

    state = public_state(play.head)

    assert state is not None
    assert state["grants"] == [
        {
            "grant_id": "grant-3-0",
            "tool_name": "pay",
            "fields": ["order"],
            "expires_at": "2026-01-15T13:00:00.030Z",
            "uses_left": 3,
        }
    ]


@pytest.mark.parametrize(
    ("scope", "complaint"),
    [
        ({"lasts": timedelta(0)}, "30 days"),
        ({"lasts": timedelta(days=31)}, "30 days"),
        ({"max_uses": 0}, "once at least"),
        ({"max_uses": 1_000_001}, "1000000 times"),
    ],
)
def test_one_without_bounds_is_refused_and_nothing_is_approved(scope: dict[str, Any], complaint: str) -> None:
    # F058
    play, _ = asked_for(a_payment("7"))
    an_hour: dict[str, Any] = {"match": "m", "lasts": HOUR}

    with pytest.raises(InvalidRequestError, match=complaint):
        play.approve(CALL, grant=GrantScope(**an_hour | scope))

    assert play.pending == [CALL]


def test_it_counts_to_a_million_at_most() -> None:
    play = granted(max_uses=MAX_GRANT_USES)

    assert [each.uses_left for each in play.head.grants] == [1_000_000]


def test_a_rejected_call_approves_nothing_ahead() -> None:
    play, _ = asked_for(a_payment("7"))

    with pytest.raises(InvalidRequestError, match="leave `grant` out"):
        play.reject(CALL, grant=GrantScope(match="m", lasts=HOUR))


def test_a_session_has_twenty_at_most_and_those_that_are_over_do_not_count() -> None:
    play, _ = asked_for(a_payment("0"))
    for number in range(20):
        match = scope_match(("order",), {"order": str(number)})
        play.approve(play.pending[0], grant=GrantScope(match=match, lasts=HOUR, fields=("order",)))
        play.starts(play.dispatched[0])
        play.finishes(play.dispatched[0])
        play.model_asks(a_payment(str(number + 1)))

    with pytest.raises(InvalidRequestError, match="20 approvals ahead"):
        play.approve(play.pending[0], grant=GrantScope(match="m", lasts=HOUR))
    play.wait(HOUR)
    play.approve(play.pending[0], grant=GrantScope(match="m", lasts=HOUR))

    assert len(play.head.grants) == 1
