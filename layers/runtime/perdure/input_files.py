"""The files that go with a user's message, checked at the edge."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from perdure.core.entries import FileRef
from perdure.errors import InvalidRequestError

MAX_FILES = 20
"""Files of one message. Our own choice: more than a person attaches by hand, and an entry stays small."""

MAX_REFERENCE = 1024
"""Length of a reference, in characters: that of the longest S3 key."""

MAX_NAME = 255
"""Length of a file's name, in characters: what file systems take."""

_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,127}/[a-z0-9!#$&^_.+-]{1,127}")
_FIELDS = {"reference": MAX_REFERENCE, "media_type": MAX_NAME, "name": MAX_NAME}


def checked_files(files: Sequence[Mapping[str, Any]]) -> tuple[FileRef, ...]:
    """Return the files of a message.

    Raises:
        InvalidRequestError: They are too many, or one is not `{reference, media_type?, name?}`.
    """
    if len(files) > MAX_FILES:
        raise InvalidRequestError(f"a message takes {MAX_FILES} files, not {len(files)}: send more messages")
    return tuple(_checked(file) for file in files)


def _checked(file: Mapping[str, Any]) -> FileRef:
    values = {name: value for name, value in file.items() if value is not None}
    if "reference" not in values or not values.keys() <= _FIELDS.keys():
        raise InvalidRequestError("a file is {reference, media_type?, name?}")
    for name, value in values.items():
        if not isinstance(value, str) or not 1 <= len(value) <= _FIELDS[name] or not value.isprintable():
            raise InvalidRequestError(f"the {name} of a file must have 1 to {_FIELDS[name]} printable characters")
    media_type = values.get("media_type")
    if media_type is not None and not _MEDIA_TYPE.fullmatch(media_type):
        raise InvalidRequestError(f"{media_type!r} is no media type, such as image/png, in lower case")
    return FileRef(**values)
