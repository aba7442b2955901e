"""Tool calls out of fragments, by the book and from servers that have not read it."""

import pytest

from perdure.models.chat_calls import CallAssembler


def fragment(arguments="", *, index=None, name=None, **fields) -> dict:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"function": function} | ({} if index is None else {"index": index}) | fields


def joined(*chunks, whole=False) -> list[tuple[str, str, str]]:
    assembler = CallAssembler()
    for fragments in chunks:
        assembler.add(fragments if isinstance(fragments, list) else [fragments], whole=whole)
    return [(call.id, call.name, call.arguments_text) for call in assembler.calls]


def test_fragments_are_joined_by_index_also_when_they_alternate() -> None:
    calls = joined(
        [fragment('{"q"', index=0, id="a", name="f"), fragment('{"q"', index=1, id="b", name="g")],
        fragment(":1}", index=1),
        fragment(":0}", index=0),
    )

    assert calls == [("a", "f", '{"q":0}'), ("b", "g", '{"q":1}')]


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([fragment("{}", id="a", name="f"), fragment("{}", id="b", name="f")], id="no index, new id"),
        pytest.param([[fragment("{}", id="a", name="f"), fragment("{}", id="a", name="f")]], id="no index, same id"),
        pytest.param(
            [fragment("{}", id="a", name="f"), fragment("{}", id="a", name="f")], id="same id, chunk by chunk"
        ),
        pytest.param([fragment("", id="a", name="f"), fragment("", id="a", name="f")], id="same id, no arguments"),
        pytest.param([fragment("{}", name="f"), fragment("{}", name="f")], id="neither index nor id"),
        pytest.param([fragment("", name="f"), fragment("", name="f")], id="neither, and no arguments"),
        pytest.param(
            [fragment("{}", index=0, id="a", name="f"), fragment("{}", index=1, id="a", name="f")], id="same id"
        ),
        pytest.param(
            [fragment("{}", index=0, id="a", name="f"), fragment("{}", index=0, id="b", name="f")], id="index 0"
        ),
        pytest.param([fragment("{}", index=0, name="f"), fragment("{}", index=0, name="f")], id="index 0, no ids"),
        pytest.param(
            [fragment("{}", index=0, id="a", name="f"), fragment("{}", index=0, id="a", name="f")], id="all same"
        ),
        pytest.param([[fragment("", index=0, name="f"), fragment("", index=0, name="f")]], id="index 0, one chunk"),
    ],
)
def test_two_calls_are_never_made_into_one(chunks: list) -> None:
    assert [(name, arguments or "{}") for _, name, arguments in joined(*chunks)] == [("f", "{}"), ("f", "{}")]


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(fragment("1}", index=0), id="by the book"),
        pytest.param(fragment("1}"), id="no index"),
        pytest.param(fragment("1}", id="a"), id="id again"),
        pytest.param(fragment("1}", index=0, id="a", name="f"), id="id and name again"),
        pytest.param(fragment("1}", id="a", name="f"), id="id and name again, no index"),
        pytest.param(fragment("1}", index=0, id="other"), id="a new id for every fragment"),
        pytest.param(fragment("1}", index=0, name="f"), id="name again"),
    ],
)
def test_a_fragment_goes_on_with_its_call(rest: dict) -> None:
    assert joined(fragment('{"q":', index=0, id="a", name="f"), rest) == [("a", "f", '{"q":1}')]


@pytest.mark.parametrize("last", [fragment("", index=0, id="a", name="f"), fragment("", index=0)])
def test_an_empty_fragment_behind_a_whole_call_begins_no_other(last: dict) -> None:
    assert joined(fragment("{}", index=0, id="a", name="f"), last) == [("a", "f", "{}")]


def test_arguments_may_begin_with_a_repeated_id_and_name() -> None:
    assert joined(fragment("", id="a", name="f"), fragment("{}", id="a", name="f")) == [("a", "f", "{}")]


def test_interleaved_fragments_without_an_index_are_told_apart_by_their_ids() -> None:
    chunks = [
        fragment("[", id="a", name="f"),
        fragment("{", id="b", name="g"),
        fragment("]", id="a"),
        fragment("}", id="b"),
    ]

    assert joined(*chunks) == [("a", "f", "[]"), ("b", "g", "{}")]


def test_a_name_may_come_after_the_id() -> None:
    assert joined(fragment(index=0, id="a"), fragment("{}", index=0, name="f")) == [("a", "f", "{}")]
    assert joined(fragment(id="a"), fragment("{}", id="a", name="f")) == [("a", "f", "{}")]


def test_elements_of_a_whole_answer_are_calls_whatever_they_hold() -> None:
    same = fragment("", id="a", name="f")

    assert joined([same, same], whole=True) == [("a", "f", ""), ("a", "f", "")]


def test_arguments_that_came_as_an_object_are_kept_as_text() -> None:
    assert joined({"id": "a", "function": {"name": "f", "arguments": {"ü": 1}}}) == [("a", "f", '{"ü": 1}')]


@pytest.mark.parametrize("bad", [{"function": {"arguments": "{}"}}, {"id": 7}, {"function": {"name": []}}])
def test_a_fragment_against_the_protocol_is_an_error(bad: dict) -> None:
    with pytest.raises(ValueError, match="tool call"):
        joined(bad)
