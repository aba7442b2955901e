"""Reading lines beside everything else that goes on."""

from __future__ import annotations

import asyncio
import os

import pytest

from perdure.cli.keyboard import Keyboard

TYPED = {
    "two-lines": ([b"one\ntwo\n"], ["one", "two", None]),
    "no-end": ([b"one"], ["one", None]),
    "windows": ([b"one\r\n"], ["one", None]),
    "an-empty-line": ([b"\n"], ["", None]),
    "nothing": ([], [None]),
    "wide": (["größe 日本 👩‍🚀\n".encode()], ["größe 日本 👩‍🚀", None]),
    "no-text": ([b"a\xff\n"], ["a�", None]),
    "other-separators": (["a\u2028b\x0bc\x85\n".encode()], ["a\u2028b\x0bc\x85", None]),
}


@pytest.mark.parametrize(("pieces", "lines"), TYPED.values(), ids=TYPED)
async def test_lines_are_read_as_they_were_typed(pieces: list[bytes], lines: list[str | None]) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"".join(pieces))
    os.close(writing)
    read: list[str | None] = []

    with open(reading, encoding="utf-8") as stream, Keyboard(stream) as keyboard:  # noqa: PTH123, ASYNC230
        while None not in read:
            await keyboard.line()
            read.append(keyboard.take())

    assert read == lines


async def test_a_character_may_come_in_two_pieces() -> None:
    reading, writing = os.pipe()
    with open(reading, encoding="utf-8") as stream, Keyboard(stream) as keyboard:  # noqa: PTH123, ASYNC230
        coming = keyboard.line()
        os.write(writing, "ö".encode()[:1])
        await asyncio.sleep(0.05)
        os.write(writing, "ö".encode()[1:] + b"\n")

        assert await coming == "ö"
        os.close(writing)


async def test_a_line_is_not_lost_by_who_stops_waiting_for_it() -> None:
    reading, writing = os.pipe()
    with open(reading, encoding="utf-8") as stream, Keyboard(stream) as keyboard:  # noqa: PTH123, ASYNC230
        await asyncio.wait({keyboard.line()}, timeout=0)

        os.write(writing, b"one\n")
        os.close(writing)

        assert await keyboard.line() == "one"
        assert keyboard.take() == "one"
        assert await keyboard.line() is None


async def test_without_any_input_it_is_at_its_end() -> None:
    with Keyboard(None) as keyboard:
        assert await keyboard.line() is None
        assert not keyboard.interactive
