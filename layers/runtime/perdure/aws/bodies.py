"""Large entries: the whole entry in an item or an S3 object of its own, written before the commit that points at it.

Names end in a hash of the content, so a body that is already there is the same one: a command that lost its race
and decided again gets another body, and a repeated write changes nothing. What a lost race leaves behind has no
pointer and goes when the session is purged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from perdure.aws import keys
from perdure.aws.clients import ATTEMPTS, in_thread
from perdure.aws.items import StoredEntry, byte_size, packed, unpacked
from perdure.aws.limits import MAX_BODY_ITEM_BYTES, MAX_INLINE_ENTRY_BYTES, MAX_OBJECT_BYTES
from perdure.aws.table import Table
from perdure.errors import ConfigurationError, ItemTooLargeError, StoreUnavailableError

_DIGEST_CHARACTERS = 32


class Bodies:
    """Puts entries where they fit.

    Args:
        s3: Gives the S3 client when one is needed, because most containers never do.
        bucket: None: there is no bucket, and an entry that needs one is an error.
    """

    def __init__(self, table: Table, s3: Callable[[], Any], bucket: str | None) -> None:
        self._table = table
        self._s3 = s3
        self._bucket = bucket

    async def offload(self, partition: str, stored: StoredEntry) -> StoredEntry:
        """Return the entry as tail and log will hold it; a large one has its body written first.

        Raises:
            ItemTooLargeError: It is over `MAX_OBJECT_BYTES`. Nothing was written.
        """
        size = byte_size(stored.text)
        if size <= MAX_INLINE_ENTRY_BYTES:
            return stored
        if size > MAX_OBJECT_BYTES:
            raise ItemTooLargeError(
                f"commit {stored.commit_id} adds {size} bytes, of {MAX_OBJECT_BYTES}: nothing was written; "
                "send less at a time"
            )
        digest = keys.sha256(stored.text)[:_DIGEST_CHARACTERS]
        if size <= MAX_BODY_ITEM_BYTES:
            sort_key = keys.body_key(stored.commit_id, digest)
            await self._table.put_once({"pk": partition, "sk": sort_key, "body": packed(stored.text)})
            return stored.stub({"item": sort_key})
        name = f"{keys.object_prefix(partition)}bodies/{stored.commit_id}-{digest}"
        await self._put_object(name, stored.text)
        return stored.stub({"object": name})

    async def fetch(self, partition: str, body: Mapping[str, str]) -> str:
        """Return the JSON of an entry whose body is elsewhere."""
        if "object" in body:
            return await self._get_object(body["object"])
        for strong in (False, True):
            item = await self._table.get(partition, body["item"], strong=strong)
            if item is not None:
                return unpacked(item, "body")
        raise StoreUnavailableError(f"body {body['item']} of an entry is not there; was the session purged meanwhile?")

    async def _put_object(self, name: str, written: str) -> None:
        from perdure.aws.errors import CONDITION_FAILED

        # None means that it is there already, and then it is the same.
        await self._call(
            "put_object",
            unless=CONDITION_FAILED,
            Key=name,
            Body=written.encode("utf-8"),
            ContentType="application/json",
            IfNoneMatch="*",
        )

    async def _get_object(self, name: str) -> str:
        from perdure.aws.errors import MISSING

        content: bytes | None = await self._call("get_object", unless=MISSING, Key=name)
        if content is None:
            raise StoreUnavailableError(f"object {name} of an entry is not there; was the session purged meanwhile?")
        return content.decode("utf-8")

    async def _call(self, method: str, *, unless: frozenset[str], **parameters: Any) -> Any:
        """Return the answer, or None when it is one of the `unless` codes."""
        from botocore.exceptions import BotoCoreError, ClientError

        from perdure.aws.errors import code_of, translated

        if self._bucket is None:
            raise ConfigurationError(
                f"an entry is larger than {MAX_BODY_ITEM_BYTES} bytes and there is no bucket for it: set BUCKET_NAME"
            )
        try:
            return await in_thread(
                _call_and_read, function=getattr(self._s3(), method), Bucket=self._bucket, **parameters
            )
        except (BotoCoreError, ClientError) as error:
            if code_of(error) in unless:
                return None
            raise translated(error, f"{method} {parameters['Key']}") from error


def _call_and_read(function: Callable[..., Any], **parameters: Any) -> Any:
    """Make a call and read the body of its answer. The SDK repeats a request, but not a reading that was cut."""
    from botocore.exceptions import BotoCoreError

    for left in reversed(range(ATTEMPTS)):
        answer = function(**parameters)
        if "Body" not in answer:
            break
        try:
            return answer["Body"].read()
        except BotoCoreError:
            if not left:
                raise
    return answer
