"""Tool calls of a chat-completions stream, put together from their fragments.

By the book the first fragment has index, id and name, and the others only the index. Compatible servers leave the
index out, give every call index 0, repeat ids, or send no id at all (field cases F008, F010); two calls are never made
into one here, because then one of them would silently not run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

JsonObject = dict[str, Any]


@dataclass(slots=True)
class CallDraft:
    """A call as far as it has arrived. `extra` are fields beside those of the protocol."""

    index: int | None
    id: str
    name: str
    pieces: list[str] = field(default_factory=list)
    extra: JsonObject = field(default_factory=dict)

    @property
    def arguments_text(self) -> str:
        """The arguments so far."""
        return "".join(self.pieces)

    def take(self, fragment: CallDraft) -> None:
        """Add what a later fragment of this call says."""
        self.pieces += fragment.pieces
        self.name = self.name or fragment.name
        self.id = self.id or fragment.id
        self.extra |= fragment.extra

    @property
    def is_whole(self) -> bool:
        """Whether the arguments so far are a complete JSON text."""
        try:
            json.loads(self.arguments_text)
        except ValueError:
            return False
        return True


class CallAssembler:
    """Joins fragments to calls, in the order in which the calls began."""

    def __init__(self) -> None:
        self.calls: list[CallDraft] = []

    def add(self, fragments: list[JsonObject], *, whole: bool = False) -> list[tuple[int, str]]:
        """Take the fragments of one chunk, and return to which calls, from 0, they added which text.

        Args:
            whole: Each is a complete call, as in an answer without streaming.

        Raises:
            ValueError: A fragment is not what the protocol says, or belongs to no call.
        """
        begun: list[CallDraft] = []
        added: list[tuple[int, str]] = []
        for fragment in fragments:
            function = fragment.get("function") or {}
            index = fragment.get("index")
            read = CallDraft(
                index=index if isinstance(index, int) else None,
                id=_text(fragment.get("id"), "id"),
                name=_text(function.get("name"), "name"),
                pieces=[_arguments(function.get("arguments"))],
                extra={name: value for name, value in fragment.items() if name not in _KNOWN},
            )
            continued = None if whole else self._continued(read, begun)
            if continued is not None:
                continued.take(read)
            elif read.name or read.id:
                begun.append(read)
                self.calls.append(read)
            elif read.arguments_text:
                raise ValueError("arguments belong to no tool call")
            else:
                continue
            target = continued or read
            added.append((next(i for i, call in enumerate(self.calls) if call is target), read.arguments_text))
        return added

    def _continued(self, read: CallDraft, begun: list[CallDraft]) -> CallDraft | None:
        """Return the call that a fragment goes on with, or None when it begins one."""
        if not self.calls:
            return None
        if not read.name:
            return self._unnamed(read)
        target = self._named_before(read)
        if target is None or not target.name:
            return target
        if any(call is target for call in begun):
            return None  # no server cuts one call into two fragments of one chunk
        if read.index is None and not target.arguments_text:
            # The same id again without an index: two calls without arguments, or one whose arguments begin now.
            return target if read.arguments_text else None
        return None if target.is_whole and read.arguments_text else target

    def _unnamed(self, read: CallDraft) -> CallDraft | None:
        if read.index is not None:
            same = [call for call in self.calls if call.index == read.index]
            # Whatever its id: some servers make up a new one for every fragment.
            return same[-1] if same else (None if read.id else self.calls[-1])
        if read.id:
            return next((call for call in reversed(self.calls) if call.id == read.id), None)
        return self.calls[-1]

    def _named_before(self, read: CallDraft) -> CallDraft | None:
        """Return the call that a named fragment may be a part of: the same index, and no other id."""
        if read.index is None:
            last = self.calls[-1]
            if not last.name and read.id in ("", last.id):
                return last
            return next((call for call in reversed(self.calls) if read.id and call.id == read.id), None)
        same = [call for call in self.calls if call.index == read.index]
        if not same or (read.id and same[-1].id and read.id != same[-1].id):
            return None
        return same[-1]


_KNOWN = frozenset({"function", "id", "index", "type"})


def _text(value: object, what: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"the {what} of a tool call is no text")  # noqa: TRY004 - the caller expects one class
    return value


def _arguments(value: object) -> str:
    # Some servers send the object itself instead of its text.
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else _text(value, "arguments")
