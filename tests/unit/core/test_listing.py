"""What a search in the session list finds."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.core.listing import SessionFilter

ROW: dict[str, Any] = {
    "session_id": "Case-42",
    "agent": "support",
    "status": "running_tools",
    "preview": "Wo ist meine Straße?",
    "title": "Lost parcel",
    "waiting_for": [{"kind": "approval"}, {"kind": "timer"}],
}
QUIET = {"session_id": "s-2", "agent": "other", "status": "waiting_for_user_message", "preview": "done"}


@pytest.mark.parametrize("query", ["case-4", "STRASSE", " meine ", "lost PARCEL"])
def test_a_text_is_found_in_id_title_and_preview_in_any_case(query: str) -> None:
    assert SessionFilter(query=query).matches(ROW)
    assert not SessionFilter(query=query).matches(QUIET)


@pytest.mark.parametrize(
    ("wanted", "row", "quiet"),
    [
        (SessionFilter(), True, True),
        (SessionFilter(waiting_for="approval"), True, False),
        (SessionFilter(waiting_for="timer"), True, False),
        (SessionFilter(waiting_for="question"), False, False),
        (SessionFilter(waiting_for="any"), True, False),
        (SessionFilter(status="active"), True, False),
        (SessionFilter(status="running_tools"), True, False),
        (SessionFilter(status="running_model"), False, False),
        (SessionFilter(status="waiting_for_user_message"), False, True),
        (SessionFilter(agent="support"), True, False),
        (SessionFilter(agent="supp"), False, False),
        (SessionFilter(query="case", agent="other"), False, False),
        (SessionFilter(query="case", waiting_for="any", status="active", agent="support"), True, False),
    ],
)
def test_all_that_is_asked_for_has_to_hold(wanted: SessionFilter, row: bool, quiet: bool) -> None:
    assert (wanted.matches(ROW), wanted.matches(QUIET)) == (row, quiet)
