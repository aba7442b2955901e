"""Identifiers and hashes."""

import pytest

from perdure.core.ids import canonical_json, content_hash, is_session_id, key_hash, made_by, version_of


def test_an_id_names_the_commit_that_made_it() -> None:
    assert made_by("call", 12, 3) == "call-12-3"
    assert version_of("call-12-3") == 12
    assert version_of(made_by("message", 10**11, 69)) == 10**11


@pytest.mark.parametrize(
    "other",
    [
        "",
        "call",
        "call-12",
        "call-0-1",
        "call-012-1",
        "call-1-01",
        "Call-1-1",
        "call-1-1 ",
        "call-1-1\n",
        "-1-1",
        "call-\u0661-1",
    ],
)
def test_an_id_of_somebody_else_names_none(other: str) -> None:
    assert version_of(other) is None


@pytest.mark.parametrize("good", ["a", "case-42", "A.b_c:d-9", "x" * 128])
def test_a_session_id_may_be(good: str) -> None:
    assert is_session_id(good)


@pytest.mark.parametrize("bad", ["", "x" * 129, "a b", "a/b", "a#b", "ä", "a\n", "\x00", "..\\"])
def test_a_session_id_may_not_be(bad: str) -> None:
    assert not is_session_id(bad)


def test_equal_content_has_one_hash_however_it_was_put() -> None:
    # SESS-12, APPR-06
    assert content_hash({"b": [1, "ä"], "a": None}) == content_hash({"a": None, "b": [1, "ä"]})
    assert canonical_json({"b": 1, "a": "ä"}) == '{"a":"ä","b":1}'


@pytest.mark.parametrize("other", [{"a": "1"}, {"a": True}, {"a": [1]}, {"a": 1, "b": None}, {}])
def test_other_content_has_another_hash(other: object) -> None:
    assert content_hash(other) != content_hash({"a": 1})


def test_a_hash_takes_any_text() -> None:
    assert len(content_hash("\ud83d\x00")) == len(key_hash("\ud83d\x00")) == 64
    assert key_hash("a") != key_hash("b")
