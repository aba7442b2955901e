"""What only trusted code in the process of the runtime does: import a history. No route leads here (spec HOOK-02)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.checks import Caller, check_message_id, check_text, claims, session_key
from perdure.core.control_commands import SeededMessage, SeedHistory
from perdure.core.entries import ReceiptClaim
from perdure.core.ids import content_hash, key_hash
from perdure.errors import InvalidRequestError, TooLargeError
from perdure.operations import Operations

JsonObject = dict[str, Any]

MAX_SEED_MESSAGES = 1000
"""Messages of an imported history. Our own choice: what a session of D keeps by default (spec A.5)."""

MAX_SEED_BYTES = 4 * 1024 * 1024
"""Text of an imported history, in bytes of UTF-8. Our own choice: that of the largest page of messages."""

ROLES = ("user", "assistant")
_FIELDS = {"role", "text", "message_id"}


class TrustedOperations(Operations):
    """The operations that no caller over a network has."""

    async def seed(
        self,
        caller: Caller,
        session_id: str,
        messages: Sequence[JsonObject],
        *,
        agent: str | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Import a history into a session that has none, once (spec STORE-14). No model is called.

        Returns `{"result": "recorded", message_count, duplicate}`; the same history again is a duplicate.

        Args:
            messages: Each `{"role": "user" | "assistant", "text": …, "message_id"?: …}`; all have an id, or none.

        Raises:
            RequestConflictError: `already_started`: the session has messages; `idempotency_mismatch`: it was given
                another history.
        """
        key = session_key(caller, session_id)
        self._check_agent(agent)
        seeded = _checked(messages)
        content: JsonObject = {"operation": "seed", "agent": agent, "messages": list(messages)}
        receipts = claims(idempotency_key, content)
        receipts += (ReceiptClaim(key_hash=key_hash("seed"), content_hash=content_hash(content)),)
        command = SeedHistory(
            actor=caller.actor,
            default_agent=self._deps.agents.default.name,
            agent=agent,
            messages=seeded,
            receipts=receipts,
        )
        executed = await self._execute(caller, key, command)
        return executed.reply | {"duplicate": executed.duplicate}


def _checked(messages: Sequence[JsonObject]) -> tuple[SeededMessage, ...]:
    if not 1 <= len(messages) <= MAX_SEED_MESSAGES:
        raise InvalidRequestError(f"a history has 1 to {MAX_SEED_MESSAGES} messages, not {len(messages)}")
    seeded = tuple(_message(number, message) for number, message in enumerate(messages, start=1))
    size = sum(len(message.text.encode()) for message in seeded)
    if size > MAX_SEED_BYTES:
        raise TooLargeError(f"this history is {size} bytes of text, and {MAX_SEED_BYTES} are the most there may be")
    return seeded


def _message(number: int, message: JsonObject) -> SeededMessage:
    named = message.get("message_id")
    is_one = isinstance(message.get("text"), str) and (named is None or isinstance(named, str))
    if not is_one or message.get("role") not in ROLES or not message.keys() <= _FIELDS:
        raise InvalidRequestError(f"message {number} is not {{role: user or assistant, text, message_id?}}")
    check_text(message["text"], f"the text of message {number}")
    if named is not None:
        check_message_id(named)
    return SeededMessage(role=message["role"], text=message["text"], message_id=named)
