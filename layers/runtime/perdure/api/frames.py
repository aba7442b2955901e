"""What a viewer says over the WebSocket, and what it is answered: the same on AWS and in the development server."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from perdure.errors import InvalidRequestError, NotFoundError, PerdureError

JsonObject = dict[str, Any]

_SESSION_ID = r"^[A-Za-z0-9._:-]{1,128}$"


class _Frame(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class Subscribe(_Frame):
    """Tell me when this session changes."""

    type: Literal["subscribe"]
    session_id: str = Field(pattern=_SESSION_ID)


class Unsubscribe(_Frame):
    """Tell me no more of this session."""

    type: Literal["unsubscribe"]
    session_id: str = Field(pattern=_SESSION_ID)


class Ping(_Frame):
    """Are you there?"""

    type: Literal["ping"]


Frame = Subscribe | Unsubscribe | Ping

_FRAMES: TypeAdapter[Subscribe | Unsubscribe | Ping] = TypeAdapter(Subscribe | Unsubscribe | Ping)

PONG: JsonObject = {"type": "pong"}


def read_frame(text: Any) -> Frame:
    """Read a viewer's frame.

    Raises:
        InvalidRequestError: It is no frame that this version knows.
    """
    try:
        return _FRAMES.validate_json(text or "")
    except ValidationError:
        raise InvalidRequestError(
            "this frame is not understood: send JSON with the type `subscribe` or `unsubscribe` and a `session_id`, "
            "or the type `ping`"
        ) from None


def no_session(session_id: str) -> NotFoundError:
    """Return what a viewer hears of a session that is not there, or not theirs."""
    return NotFoundError(f"there is no session {session_id!r}: subscribe after its first message was accepted")


def error_frame(error: PerdureError) -> JsonObject:
    """Return the answer to a frame that can't be carried out."""
    return {"type": "error", "code": error.code, "message": error.message}
