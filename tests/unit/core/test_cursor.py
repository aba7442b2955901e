"""The cursor: one opaque place in a session's events."""

import base64
import zlib

import pytest

from perdure.core.cursor import Cursor
from perdure.errors import InvalidRequestError


def forged(body: str, session_id: str = "s-1") -> str:
    """Return what somebody makes who knows how cursors are put together; they are checked, not secret."""
    check = format(zlib.crc32(f"{session_id}\n{body}".encode()), "08x")
    return base64.urlsafe_b64encode(f"{body}.{check}".encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    [
        Cursor(),
        Cursor(version=7),
        Cursor(version=123456789012, index=3),
        Cursor(version=7, index=1, progress=(("model-7-0", 1, 250), ("call-7-63", 3, 0))),
    ],
)
def test_a_cursor_reads_back_as_the_place_that_was_written(cursor: Cursor) -> None:
    # EVT-04
    assert Cursor.decode(cursor.encode("s-1"), "s-1") == cursor


def test_sixty_four_calls_that_all_report_progress_fit_into_one_cursor() -> None:
    full = Cursor(version=10**11, index=99, progress=tuple((f"call-{10**11}-{n}", 3, 10**6) for n in range(64)))

    assert Cursor.decode(full.encode("s" * 128), "s" * 128) == full


def test_cursors_order_like_the_places_they_stand_for() -> None:
    # EVT-08
    places = [Cursor(), Cursor(version=1), Cursor(version=1, index=2), Cursor(version=2)]

    assert sorted(places, reverse=True) == places[::-1]


def test_a_cursor_of_another_session_is_invalid() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        Cursor.decode(Cursor(version=7).encode("s-1"), "s-2")

    assert caught.value.code == "invalid_cursor"


@pytest.mark.parametrize("at", range(0, 20, 3))
def test_a_changed_letter_is_noticed(at: int) -> None:
    text = Cursor(version=1234, index=5).encode("s-1")
    changed = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]

    with pytest.raises(InvalidRequestError):
        Cursor.decode(changed, "s-1")


@pytest.mark.parametrize(
    "text", ["", "x", "%%%", "é", "\ud83d", "null", "a" * 9000, Cursor(version=1).encode("s-1") + "\n"]
)
def test_garbage_is_invalid(text: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        Cursor.decode(text, "s-1")

    assert caught.value.code == "invalid_cursor"


FORGED = ["-1.0.", "1.-1.", "1_0.0.", "+1.0.", "1000000000000.0.", "1.0.a:1", "1.0.a:-1:2", "1..", "1.0"]


@pytest.mark.parametrize("body", [*FORGED, " 1.0.", "9" * 30 + ".0."])
def test_a_forged_place_that_no_session_has_is_invalid(body: str) -> None:
    with pytest.raises(InvalidRequestError):
        Cursor.decode(forged(body), "s-1")


def test_what_the_forgery_looks_like_would_be_read_if_its_place_were_possible() -> None:
    assert Cursor.decode(forged("7.2.model-7-0:1:5"), "s-1") == Cursor(
        version=7, index=2, progress=(("model-7-0", 1, 5),)
    )


def test_a_cursor_knows_how_much_of_a_running_attempt_was_seen() -> None:
    cursor = Cursor(version=7, progress=(("model-7-0", 2, 250),))

    assert cursor.seen("model-7-0", 2) == 250
    assert cursor.seen("model-7-0", 1) == 0
    assert cursor.seen("call-7-0", 2) == 0
