"""Checkpoints: what a running tool leaves for its next attempt (spec TOOL-11)."""

from __future__ import annotations

from perdure.core.limits import MAX_CHECKPOINT_BYTES
from perdure.errors import InvalidRequestError


def check_checkpoint(text: str) -> None:
    """Refuse a text that can't be a checkpoint.

    Raises:
        InvalidRequestError: It is larger than `MAX_CHECKPOINT_BYTES`, no valid Unicode (`invalid_text`), or no text.
    """
    if not isinstance(text, str):
        raise InvalidRequestError(f"a checkpoint is a text, not {type(text).__name__}: write the value as JSON first")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidRequestError(
            "a checkpoint is valid Unicode: this one has a lone surrogate", code="invalid_text"
        ) from error
    if size > MAX_CHECKPOINT_BYTES:
        raise InvalidRequestError(
            f"the checkpoint has {size} bytes, and {MAX_CHECKPOINT_BYTES} are the most there may be: keep the data "
            "elsewhere and only say where"
        )
