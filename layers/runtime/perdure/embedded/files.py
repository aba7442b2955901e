"""The files that an open database stands in. Once one of them is gone, a commit may end with this process."""

from __future__ import annotations

import os
from pathlib import Path

from perdure.errors import DatabaseUnusableError


class OpenFiles:
    """The database, its log, and the lock that keeps others away, as they were when it was opened.

    SQLite and the kernel go on with files that nobody can open any more, and say nothing.
    """

    def __init__(self, database: Path) -> None:
        """Take note of them, once the log has begun and the lock is held."""
        self._file = _places(str(database))
        self._all = _places(str(database), f"{database}-wal", f"{database}-lock")

    def check(self, durable: bool) -> None:
        """Refuse to write when one is gone.

        Args:
            durable: Whether the commit waits for the disk. Only then all are looked for: that takes its time, too.

        Raises:
            DatabaseUnusableError: It was deleted, or another is in its place.
        """
        for path, place in (self._all if durable else self._file).items():
            if _place(path) != place:
                raise DatabaseUnusableError(
                    f"{path} was deleted or replaced while the database was open: nothing more is written. "
                    "End this process, put the file back if you can, and start again"
                )

    def are_there(self) -> bool:
        """Whether all of them are what they were."""
        return all(_place(path) == place for path, place in self._all.items())


def _places(*paths: str) -> dict[str, tuple[int, int]]:
    return {path: place for path in paths if (place := _place(path)) is not None}


def _place(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - before each transaction, and pathlib's takes twice as long
    except OSError:
        return None
    return found.st_dev, found.st_ino
