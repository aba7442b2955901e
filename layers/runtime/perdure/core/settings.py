"""Session settings: one JSON object, replaced whole, bound when the next turn starts (spec SET-01, SET-02)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from perdure.core.decision import Decision, Draft
from perdure.core.limits import MAX_SETTINGS_BYTES
from perdure.core.values import replace
from perdure.errors import InvalidRequestError

if TYPE_CHECKING:
    from perdure.core.control_commands import UpdateSettings

JsonObject = dict[str, Any]

APPROVAL_MODES = ("ask", "allow_all", "deny_all", "read_only", "always_ask")
"""Values of the setting `approval_mode`, which holds for the calls that come next, also of the running turn (APPR-08).

`ask`: as each tool's policy says. `allow_all`: nobody is asked. `deny_all`: what would be asked is not run.
`read_only`: only reads are run. `always_ask`: every call is asked.
"""


def check_settings(settings: JsonObject) -> None:
    """Refuse settings that can't be kept.

    Raises:
        InvalidRequestError: They are larger than 16 KiB of compact JSON, or name an approval mode that there is not.
    """
    size = len(json.dumps(settings, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode())
    if size > MAX_SETTINGS_BYTES:
        raise InvalidRequestError(
            f"settings are {size} bytes of JSON, and {MAX_SETTINGS_BYTES} are the most there may be"
        )
    mode = settings.get("approval_mode")
    if mode is not None and mode not in APPROVAL_MODES:
        raise InvalidRequestError(f"approval_mode {mode!r} is unknown: use one of {', '.join(APPROVAL_MODES)}")


def check_run_settings(settings: JsonObject) -> None:
    """Refuse what a message can't set for its own turn alone, rather than to take it and do nothing by it.

    Raises:
        InvalidRequestError: They name an approval mode, which is the session's and changes while turns run.
    """
    if "approval_mode" in settings:
        raise InvalidRequestError("approval_mode can't be set for one message: it is a setting of the session")


def take_settings(draft: Draft, settings: JsonObject) -> None:
    """Make these the session's settings."""
    check_settings(settings)
    draft.settings(settings)
    draft.head = replace(draft.head, approval_mode=settings.get("approval_mode"))


def on_update_settings(draft: Draft, command: UpdateSettings) -> Decision:
    """Replace the settings; `{}` clears them. The running turn keeps its own, but for the approval mode."""
    take_settings(draft, command.settings)
    actor = command.actor.told()
    draft.event("settings.changed", {"actor": actor})
    return draft.decision({"result": "recorded"}, command.receipts)
