"""Files on the chat-completions wire: what a message may hold, and what an answer may bring."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any

from perdure.errors import ModelCallError
from perdure.models.base import FileData, GeneratedFile

JsonObject = dict[str, Any]

_AUDIO = {"audio/mpeg": "mp3", "audio/mp3": "mp3", "audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav"}


def file_part(file: FileData, name: str | None) -> JsonObject:
    """Return a file as a part of a user's message.

    Raises:
        ModelCallError: `invalid`: only images may be given by address here.
    """
    if file.text is not None:
        return {"type": "text", "text": file.text}
    if file.media_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": file.url or _data_url(file)}}
    if file.url is not None:
        raise ModelCallError(
            f"chat completions take no {file.media_type} by its address: let the file resolver give its data",
            kind="invalid",
            retryable=False,
        )
    if (audio := _AUDIO.get(file.media_type)) is not None:
        return {"type": "input_audio", "input_audio": {"data": _base64(file), "format": audio}}
    return {"type": "file", "file": {"filename": name or "file", "file_data": _data_url(file)}}


def generated_files(images: Iterable[JsonObject]) -> list[GeneratedFile]:
    """Return the images of an answer, as servers send them that make some.

    Raises:
        ValueError: One is not what these servers send.
    """
    return [_generated(image) for image in images]


def _generated(image: JsonObject) -> GeneratedFile:
    holder = image.get("image_url")
    address = holder.get("url") if isinstance(holder, dict) else None
    if not isinstance(address, str):
        raise ValueError("an image has no address")  # noqa: TRY004 - one class for bad data
    if not address.startswith("data:"):
        return GeneratedFile(media_type="image/*", url=address)
    head, _, body = address.removeprefix("data:").partition(",")
    media_type, _, encoding = head.partition(";")
    if encoding != "base64":
        raise ValueError("an image is not in base64")
    try:
        return GeneratedFile(media_type=media_type or "image/png", data=base64.b64decode(body, validate=True))
    except binascii.Error as error:
        raise ValueError("an image is not in base64") from error


def _data_url(file: FileData) -> str:
    return f"data:{file.media_type};base64,{_base64(file)}"


def _base64(file: FileData) -> str:
    return base64.b64encode(file.data or b"").decode()
