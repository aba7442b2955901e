"""A running tool's hand on its own session (spec TOOL-12): messages and schedules, each once for each call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from perdure.agents.built_ins import MAX_SCHEDULE_ID
from perdure.checks import check_metadata, check_name, check_text, json_bytes
from perdure.core.codec import format_time
from perdure.core.commands import SendInput, UserCommand
from perdure.core.entries import Actor, ReceiptClaim
from perdure.core.ids import content_hash, key_hash
from perdure.core.schedule_commands import CancelSchedule, SetSchedule
from perdure.errors import InvalidRequestError, RequestError, ToolExecutionError
from perdure.steps.attempt import Attempt
from perdure.steps.commit import execute
from perdure.steps.durable import MAX_NAME

JsonObject = dict[str, Any]


class StepSession:
    """`SessionHandle` of one attempt. What it does twice under one name is done once."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    async def append(self, text: str, *, name: str = "message", delivery: str = "queue") -> JsonObject:
        """See `SessionHandle.append`."""
        with _told_to_the_model():
            check_text(text, "text")
            check_name(name, "name", MAX_NAME)
        message_id = f"{self._attempt.step_id}:{name}"
        content = {"operation": "tool", "text": text, "delivery": delivery}
        claim = ReceiptClaim(key_hash=key_hash(f"message:{message_id}"), content_hash=content_hash(content))
        command = SendInput(
            text=text,
            actor=self._actor,
            default_agent=self._attempt.head.agent or "",
            message_id=message_id,
            delivery=delivery,
            source="agent",
            receipts=(claim,),
        )
        return await self._carry_out(command)

    async def schedule(
        self,
        text: str,
        *,
        when: Mapping[str, Any],
        schedule_id: str | None = None,
        metadata: JsonObject | None = None,
        replace: bool = False,
    ) -> JsonObject:
        """See `SessionHandle.schedule`."""
        name = schedule_id or self._attempt.step_id
        with _told_to_the_model():
            check_text(text, "text")
            check_name(name, "schedule_id", MAX_SCHEDULE_ID)
            if ":" in name:  # occurrences are `schedule:<id>:<number>`, and must not look like another's
                raise InvalidRequestError(f"schedule_id {name!r} holds a colon: choose another form")
            check_metadata(metadata)
            json_bytes(dict(when), "when")
        content = {"operation": "tool", "text": text, "when": dict(when), "metadata": metadata}
        # One that has occurred by now is gone from HEAD, and a retried tool must not set it again.
        claim = ReceiptClaim(
            key_hash=key_hash(f"schedule:{self._attempt.step_id}:{name}"), content_hash=content_hash(content)
        )
        command = SetSchedule(
            schedule_id=name,
            text=text,
            when=dict(when),
            actor=self._actor,
            metadata=metadata,
            replaces=replace,
            receipts=(claim,),
        )
        return await self._carry_out(command)

    async def cancel_schedule(self, schedule_id: str) -> JsonObject:
        """See `SessionHandle.cancel_schedule`."""
        # A retried tool, whose first cancelling is done, is told the same again.
        claim = ReceiptClaim(
            key_hash=key_hash(f"cancel:{self._attempt.step_id}:{schedule_id}"), content_hash=content_hash(schedule_id)
        )
        return await self._carry_out(CancelSchedule(schedule_id=schedule_id, actor=self._actor, receipts=(claim,)))

    async def schedules(self) -> list[JsonObject]:
        """See `SessionHandle.schedules`."""
        ports, key = self._attempt.ports, self._attempt.key
        shown = []
        for each in (await ports.store.load(key)).head.schedules:
            entries = (await ports.store.read(key, first=each.version, last=each.version)).entries
            specs = [spec for entry in entries for spec in entry.schedules if spec.schedule_id == each.schedule_id]
            row: JsonObject = {"schedule_id": each.schedule_id, "next_at": format_time(each.due_at)}
            shown.append(row | ({"text": specs[0].text, "when": specs[0].when} if specs else {}))
        return shown

    @property
    def _actor(self) -> Actor:
        owner = self._attempt.head.owner
        return owner if owner is not None else Actor(issuer="perdure", subject="agent")

    async def _carry_out(self, command: UserCommand) -> JsonObject:
        """Carry a command out. What is refused will be refused again, so the model is told (spec WAIT-06)."""
        with _told_to_the_model():
            executed = await execute(self._attempt.ports, self._attempt.key, command)
        return {name: value for name, value in executed.reply.items() if name != "version"}


@contextmanager
def _told_to_the_model() -> Iterator[None]:
    """Let the model read what was refused: it would be refused again."""
    try:
        yield
    except RequestError as error:
        raise ToolExecutionError(error.message) from error
