"""Events of an application's own: what they may be called, and that no type of ours can be taken for one."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.api.payload_shapes import PAYLOADS
from perdure.core.own_events import MAX_OWN_EVENT_BYTES, RESERVED_PREFIXES, check_own_event
from perdure.errors import InvalidRequestError

PACKAGE = Path(perdure.__file__).parent


@pytest.mark.parametrize(
    ("event_type", "payload", "code"),
    [
        ("stage", {}, "invalid_request"),
        (".stage", {}, "invalid_request"),
        ("myapp.", {}, "invalid_request"),
        ("MyApp.Stage", {}, "invalid_request"),
        ("myapp.stage\n", {}, "invalid_request"),
        ("myapp." + "s" * 95, {}, "invalid_request"),
        (7, {}, "invalid_request"),
        *((f"{prefix}.stage", {}, "invalid_request") for prefix in sorted(RESERVED_PREFIXES)),
        ("myapp.stage", ["no", "object"], "invalid_request"),
        ("myapp.stage", {"text": "\ud800"}, "invalid_text"),
        ("myapp.stage", {"text": "x" * (MAX_OWN_EVENT_BYTES - 10)}, "too_large"),
        ("myapp.stage", {"text": "\u00e9" * (MAX_OWN_EVENT_BYTES // 2)}, "too_large"),
    ],
)
def test_what_can_not_be_an_event_of_an_application_is_refused(event_type: Any, payload: Any, code: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        check_own_event(event_type, payload)

    assert refused.value.code == code


@pytest.mark.parametrize("event_type", ["myapp.stage", "tools.stage", "a.b.c_2", "myapp." + "s" * 94])
def test_a_prefix_and_a_dot_make_a_type(event_type: str) -> None:
    check_own_event(event_type, {"text": "x" * (MAX_OWN_EVENT_BYTES - 11)})


def types_in(file: Path) -> set[str]:
    """Return the types of events that a module makes: the texts handed to `event`, `say` and `LiveEvent`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "type")]
        if name in ("event", "say", "LiveEvent", "Event"):
            texts = [each for value in given for each in ast.walk(value)]
            found |= {t.value for t in texts if isinstance(t, ast.Constant) and isinstance(t.value, str)}
    return {text for text in found if "." in text and " " not in text}


def test_every_prefix_of_ours_is_reserved() -> None:
    modules = [file for file in PACKAGE.rglob("*.py") if file.relative_to(PACKAGE).parts[0] not in ("testing", "cli")]
    made = set().union(*map(types_in, modules))
    named = {event_type for event_type in PAYLOADS if "." in event_type}

    assert {"tool.output", "session.closed", "inbox.joined"} <= made
    assert {event_type.partition(".")[0] for event_type in made | named} <= RESERVED_PREFIXES
