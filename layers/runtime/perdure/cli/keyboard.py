"""What a person types, line by line, and their Ctrl-C, beside everything else that goes on."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import io
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self, TextIO

_READ_BYTES = 65_536


class Keyboard:
    """Standard input. Use it as a context manager on the main thread: meanwhile SIGINT and SIGTERM come here.

    Lines are read on a thread of their own and only when somebody wants one. It is a daemon, because nothing ends a
    read that waits for a person; and it reads the descriptor, because the interpreter can't end while a thread holds
    the lock of `sys.stdin`.

    Attributes:
        interactive: Whether a person may be typing, as opposed to a pipe or a file.
        interrupts: Each Ctrl-C.
        leaving: Set when the process was asked to end (SIGTERM).
    """

    def __init__(self, stream: TextIO | None) -> None:
        self.interactive = stream is not None and stream.isatty()
        self.interrupts: asyncio.Queue[None] = asyncio.Queue()
        self.leaving = asyncio.Event()
        self._lines = _lines(stream)
        self._wanted = threading.Semaphore(0)
        self._next: asyncio.Future[str | None] | None = None
        self._over = stream is None
        self._closed = False

    def line(self) -> asyncio.Future[str | None]:
        """Return the next line without its end, or None at the end of the input.

        The same future is returned until `take` was called, so a line is not lost by whoever stops waiting for it.
        """
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            if self._over:
                self._next.set_result(None)
            else:
                self._wanted.release()
        return self._next

    def take(self) -> str | None:
        """Return the line that has come."""
        assert self._next is not None, "nobody asked for a line"
        line = self._next.result()
        self._next = None
        self._over = line is None
        return line

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._handled: list[signal.Signals] = []
        callbacks = {signal.SIGINT: lambda: self.interrupts.put_nowait(None), signal.SIGTERM: self.leaving.set}
        for number, callback in callbacks.items():
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread
                loop.add_signal_handler(number, callback)
                self._handled.append(number)
        threading.Thread(target=self._read, args=(loop,), name="perdure-keyboard", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        for number in self._handled:
            loop.remove_signal_handler(number)
        self._closed = True
        self._wanted.release()

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            while True:
                self._wanted.acquire()
                if self._closed:
                    return
                loop.call_soon_threadsafe(self._deliver, next(self._lines, None))

    def _deliver(self, line: str | None) -> None:
        if self._next is not None and not self._next.done():
            self._next.set_result(line)


def _lines(stream: TextIO | None) -> Iterator[str]:
    if stream is None:
        return
    try:
        descriptor = stream.fileno()
    except io.UnsupportedOperation:  # something in memory
        yield from (line.rstrip("\n") for line in stream)
        return
    yield from _lines_of(lambda: os.read(descriptor, _READ_BYTES), stream.encoding)


def _lines_of(read: Callable[[], bytes], encoding: str) -> Iterator[str]:
    """Yield lines as they come. Bytes that are no text become U+FFFD: a message holds characters only."""
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    text = ""
    while True:
        try:
            data = read()
        except OSError:  # the terminal is gone
            data = b""
        text += decoder.decode(data, final=not data)
        *whole, text = text.split("\n")
        yield from (line.removesuffix("\r") for line in whole)
        if not data:
            if text:
                yield text
            return
