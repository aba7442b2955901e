"""Text that arrives in pieces becomes valid Unicode."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.models.surrogates import SurrogateJoiner, mended


def shown(*pieces: str) -> list[str]:
    joiner = SurrogateJoiner()
    return [*(joiner.feed(piece) for piece in pieces), joiner.finish()]


def test_a_pair_that_was_cut_is_shown_once_it_is_whole() -> None:
    assert shown("go \ud83d", "\ude80!") == ["go ", "🚀!", ""]


def test_half_a_pair_at_the_end_becomes_a_replacement() -> None:
    assert shown("go \ud83d") == ["go ", "\ufffd"]


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (("\ude80x",), "\ufffdx"),
        (("\ud83d", "x"), "\ufffdx"),
        (("\ud83d", "", "\ude80"), "🚀"),
        (("\ud83d", "\ud83d", "\ude80"), "\ufffd🚀"),
        (("\x00\ufeff",), "\x00\ufeff"),
    ],
)
def test_a_lone_half_becomes_a_replacement_and_everything_else_stays(pieces: tuple[str, ...], text: str) -> None:
    assert "".join(shown(*pieces)) == text


@given(st.lists(st.text(st.characters(categories=("Cs", "L", "So")), max_size=4)))
def test_every_piece_is_valid_and_together_they_are_the_mended_whole(pieces: list[str]) -> None:
    out = shown(*pieces)

    assert all(piece.encode() is not None for piece in out)
    assert "".join(out) == mended("".join(pieces))
