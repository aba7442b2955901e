"""Server-sent events out of bytes that are cut anywhere."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.models.sse import EventTooLargeError, SseReader

STREAM = 'event: x\r\ndata: {"a": "é🚀"}\r\n\r\n: keep-alive\n\ndata:two\ndata: lines\nid: 7\n\nretry: 5\n\ndata\n\n'
EVENTS = ['{"a": "é🚀"}', "two\nlines", ""]


def read(*pieces: bytes) -> list[str]:
    reader = SseReader()
    return [event for piece in pieces for event in reader.feed(piece)] + reader.finish()


@given(st.lists(st.integers(0, len(STREAM.encode()))))
def test_events_are_the_same_wherever_the_bytes_are_cut(cuts: list[int]) -> None:
    raw = STREAM.encode()
    places = [0, *sorted(cuts), len(raw)]

    pieces = [raw[start:end] for start, end in pairwise(places)]

    assert read(*pieces) == EVENTS


def test_an_event_is_given_with_its_blank_line_and_no_later() -> None:
    reader = SseReader()

    assert reader.feed(b"data: a\n") == []
    assert reader.feed(b"\n") == ["a"]


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
def test_a_last_event_without_its_blank_line_is_still_given(ending: bytes) -> None:
    assert read(b"data: [DONE]" + ending) == ["[DONE]"]


def test_bytes_that_are_no_utf8_do_not_end_the_stream() -> None:
    assert read(b"data: a\xffb\n\n") == ["a\ufffdb"]


@pytest.mark.parametrize("pieces", [[b"data: 45678901"], [b"data: 4\n", b"data: 5\n"]])
def test_an_event_over_the_limit_is_refused(pieces: list[bytes]) -> None:
    reader = SseReader(max_event_bytes=13)

    with pytest.raises(EventTooLargeError):
        [reader.feed(piece) for piece in pieces]


def test_an_event_at_the_limit_is_read() -> None:
    assert SseReader(max_event_bytes=13).feed(b"data: 4567890") == []
