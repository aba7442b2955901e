"""The examples of a page of the documentation, as one program."""

from __future__ import annotations

import re
from typing import Any


def examples_of(page: str) -> dict[str, Any]:
    """Return what the Python examples of a page define, one after another.

    One that awaits something outside a function is a line to show and no part of the program.
    """
    defined: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        if not re.search(r"^await ", block, re.MULTILINE):
            exec(compile(block, "page", "exec"), defined)
    return defined
