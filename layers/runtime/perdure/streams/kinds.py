"""The deliveries that can be kept between two processes, by their kind."""

from __future__ import annotations

from typing import Any

from perdure.streams.delivery import Attachment, Delivery


def restored(kind: str, session_id: str, state: dict[str, Any]) -> Delivery:
    """Return the delivery of a kind that stood where `state` says."""
    if kind == Attachment.kind:
        return Attachment.restored(session_id, state)
    from perdure.streams.chat import ChatAnswer

    assert kind == ChatAnswer.kind, f"there is no delivery of kind {kind!r}"
    return ChatAnswer.restored(session_id, state)
