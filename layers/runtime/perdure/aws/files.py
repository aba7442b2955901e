"""Files of a session in S3: a resolver and a store for `AgentDefinition` (spec MODEL-26).

A session's files have keys under the session's own prefix, so no reference leads to a file of another one.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any

from perdure.agents.step import StepContext
from perdure.aws import keys
from perdure.aws.clients import Clients, in_thread
from perdure.core.entries import FileRef
from perdure.errors import ConfigurationError
from perdure.models.base import FileData, GeneratedFile
from perdure.ports import SessionKey

MAX_FILE_BYTES = 20 * 1024 * 1024
"""Largest file that is sent along, in bytes; a larger one counts as not there. Our own choice: it bounds memory and the
request."""

ADDRESS_LASTS = timedelta(minutes=15)
"""How long an address of an image works. Our own choice: the longest attempt of a model step."""

_REFERENCE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_DIGEST_CHARACTERS = 32


class S3Files:
    """Looks files up in a bucket, and keeps those that models make.

        files = S3Files("my-bucket")
        AgentDefinition(..., file_resolver=files.resolve, store_file=files.store)

    An application uploads under `key_of(tenant, session_id, reference)`, with a content type. Images go to the provider
    as an address that works for a short time and is never stored; everything else goes as its bytes. A new address
    for every step costs the provider's prompt cache; `inline=True` sends images as bytes, too.

    Args:
        bucket: Functions of model steps need `s3:GetObject` on it, and `s3:PutObject` to store.
        clients: Default: made from the environment.
    """

    def __init__(self, bucket: str, *, inline: bool = False, clients: Clients | None = None) -> None:
        self._bucket = bucket
        self._inline = inline
        self._clients = clients or Clients()

    @staticmethod
    def key_of(tenant: str, session_id: str, reference: str) -> str:
        """Return the key of a session's file.

        Raises:
            ValueError: The reference is none: names of letters, digits and `._-` that begin with none of the dots,
                with `/` between.
        """
        if not _REFERENCE.fullmatch(reference):
            raise ValueError(f"{reference!r} is no reference of a file: use names of [A-Za-z0-9._-], and / between")
        partition = keys.partition_key(SessionKey(tenant, session_id))
        return f"{keys.object_prefix(partition)}files/{reference}"

    async def resolve(self, file: FileRef, step: StepContext) -> FileData | None:
        """Return what stands behind a reference; None when nothing does, or too much.

        Raises:
            PerdureError: No answer came, or the function may not read the bucket.
        """
        try:
            key = self.key_of(step.tenant, step.session_id, file.reference)
        except ValueError:
            return None
        s3 = self._clients.s3
        head = await self._call(s3.head_object, Key=key)
        if head is None or head["ContentLength"] > MAX_FILE_BYTES:
            return None
        media_type = file.media_type or head.get("ContentType") or "application/octet-stream"
        if media_type.startswith("image/") and not self._inline:
            wanted = {"Bucket": self._bucket, "Key": key}
            seconds = int(ADDRESS_LASTS.total_seconds())
            url = await in_thread(
                s3.generate_presigned_url, ClientMethod="get_object", Params=wanted, ExpiresIn=seconds
            )
            return FileData(media_type=media_type, url=url)
        data = await self._call(partial(_read, s3), Key=key)
        return None if data is None else FileData(media_type=media_type, data=data)

    async def store(self, file: GeneratedFile, step: StepContext) -> FileRef:
        """Keep a file that a model made, under a name that its content gives it: twice the same is once.

        Raises:
            ConfigurationError: The provider gave an address instead of the file.
            PerdureError: No answer came, or the function may not write to the bucket.
        """
        if file.data is None:
            raise ConfigurationError("a generated file came as an address: fetch it in a store_file of your own")
        ending = mimetypes.guess_extension(file.media_type) or ""
        reference = f"generated/{sha256(file.data).hexdigest()[:_DIGEST_CHARACTERS]}{ending}"
        key = self.key_of(step.tenant, step.session_id, reference)
        await self._call(self._clients.s3.put_object, Key=key, Body=file.data, ContentType=file.media_type)
        return FileRef(reference=reference, media_type=file.media_type, name=file.name)

    async def _call(self, function: Callable[..., Any], **parameters: Any) -> Any:
        """Return the answer; None when there is no such object."""
        from botocore.exceptions import BotoCoreError, ClientError

        from perdure.aws.errors import MISSING, code_of, translated

        try:
            return await in_thread(function, Bucket=self._bucket, **parameters)
        except (BotoCoreError, ClientError) as error:
            if code_of(error) in MISSING:
                return None
            raise translated(error, "read or write a file of a session") from error


def _read(s3: Any, **parameters: Any) -> bytes:
    content: bytes = s3.get_object(**parameters)["Body"].read()
    return content
