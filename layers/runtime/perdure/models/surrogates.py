"""Valid Unicode out of text that arrives in pieces.

JSON may carry a character outside the basic plane as two escapes, and a provider may put them into two pieces. Each
half alone is no character, and no store or socket takes it (field case F023).
"""

from __future__ import annotations

REPLACEMENT = "\ufffd"


def mended(text: str) -> str:
    """Return the text with pairs of surrogates joined and every lone one replaced by U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class SurrogateJoiner:
    """Turns pieces into valid Unicode, holding back the first half of a pair until the second arrives."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return what can be shown so far, possibly nothing."""
        text = self._held + piece
        self._held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        return mended(text)

    def finish(self) -> str:
        """Return what is left at the end: U+FFFD for half a pair, else nothing."""
        left, self._held = self._held, ""
        return REPLACEMENT if left else ""
