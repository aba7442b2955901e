"""Copies of frozen values."""

from __future__ import annotations

import dataclasses

import pytest

from perdure.core.values import replace


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    first: int
    second: str = "b"


@dataclasses.dataclass(frozen=True, slots=True)
class One:
    only: int


def test_a_copy_differs_in_what_was_changed_and_the_original_stays() -> None:
    pair = Pair(first=1)

    changed = replace(pair, second="c")

    assert changed == dataclasses.replace(pair, second="c")
    assert pair == Pair(first=1)
    assert hash(changed) == hash(Pair(first=1, second="c"))


def test_a_value_of_one_field_can_be_copied_too() -> None:
    assert replace(One(1), only=2) == One(2)
    assert replace(One(1)) == One(1)


def test_a_field_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError, match="third"):
        replace(Pair(first=1), third=3)


def test_a_value_that_checks_itself_is_refused() -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Checked:
        number: int

        def __post_init__(self) -> None:
            raise ValueError

    with pytest.raises(AssertionError, match="Checked checks itself"):
        replace(object.__new__(Checked), number=1)
