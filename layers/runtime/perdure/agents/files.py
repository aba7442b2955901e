"""Files are references: what stands behind one is looked up for each step and never stored (spec MODEL-26)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from perdure.agents.step import StepContext, answered
from perdure.core.entries import FileRef
from perdure.core.history import HistoryItem, ModelItem, UserItem
from perdure.errors import UnresolvedFileError
from perdure.models.base import FileData, GeneratedFile

logger = logging.getLogger(__name__)

FileResolver = Callable[[FileRef, StepContext], FileData | Awaitable[FileData | None] | None]
"""Gives what stands behind a reference, or None when nothing does. The reference came from a user: a resolver may only
look where that session may."""

StoreFile = Callable[[GeneratedFile, StepContext], FileRef | Awaitable[FileRef]]
"""Keeps a file that a model made and says by which reference. It may be asked twice for one file after a crash."""

Unresolved = Literal["omit", "placeholder", "error"]
UNRESOLVED: tuple[Unresolved, ...] = ("omit", "placeholder", "error")


async def resolved_files(
    messages: Sequence[HistoryItem], resolver: FileResolver | None, unresolved: Unresolved, step: StepContext
) -> tuple[tuple[HistoryItem, ...], dict[str, FileData]]:
    """Return a conversation in which every file is known, and what each is.

    What a model made is never given back: no wire takes files of an assistant, so it counts as unresolved and is at
    most a placeholder.

    Raises:
        UnresolvedFileError: A user's file has nothing behind it, and the agent wants an error.
    """
    # Runs over the whole conversation at each step, so one without files has to be told from the others quickly.
    with_files = [item for item in messages if item.files]
    if not with_files:
        return tuple(messages), {}
    asked = {file.reference: file for item in with_files if isinstance(item, UserItem) for file in item.files}
    found: dict[str, FileData] = {}
    if asked and resolver is not None:
        answers = await asyncio.gather(*(answered(resolver(file, step)) for file in asked.values()))
        found = {name: data for name, data in zip(asked, answers, strict=True) if data is not None}
    missing = next((name for name in asked if name not in found), None)
    if missing is not None and unresolved == "error":
        raise UnresolvedFileError(f"file {missing!r} is not there any more, and this agent needs it")
    return tuple(_shown(item, found, placeholder=unresolved == "placeholder") for item in messages), found


async def stored_files(
    files: Iterable[GeneratedFile], store: StoreFile | None, step: StepContext
) -> tuple[FileRef, ...]:
    """Return the references of what a model made. Without a hook nothing is kept, and the log says so."""
    kept: list[FileRef] = []
    for file in files:
        if store is None:
            logger.warning("a generated file was dropped: the agent has no store_file")
        else:
            kept.append(await answered(store(file, step)))
    return tuple(kept)


def _shown(item: HistoryItem, found: Mapping[str, FileData], *, placeholder: bool) -> HistoryItem:
    if not isinstance(item, UserItem | ModelItem) or not item.files:
        return item
    known = tuple(file for file in item.files if isinstance(item, UserItem) and file.reference in found)
    unknown = [file for file in item.files if file not in known] if placeholder else []
    text = "\n".join([*([item.text] if item.text else []), *(_placeholder(file) for file in unknown)])
    return replace(item, text=text, files=known)


def _placeholder(file: FileRef) -> str:
    """Return what stands for a file: its name and kind, never its reference, which may be an address."""
    return f"[file not shown: {file.name or 'unnamed'}{f', {file.media_type}' if file.media_type else ''}]"
