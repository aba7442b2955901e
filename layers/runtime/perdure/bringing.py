"""What trusted code in the process of the runtime brings to calls that wait for it. No route leads here."""

from __future__ import annotations

from typing import Any

from perdure.agents.execution import output_text
from perdure.agents.waiting import json_value
from perdure.answering import was_asked_for
from perdure.checks import Caller, check_name, check_unicode, claims, json_bytes, session_key
from perdure.core.commands import Command
from perdure.core.limits import MAX_TOOL_OUTPUT_BYTES
from perdure.core.wait_commands import EventArrived, ResultBrought
from perdure.errors import ConfigurationError, InvalidRequestError, NotFoundError, RequestConflictError, TooLargeError
from perdure.operations import Operations
from perdure.ports import SessionKey
from perdure.steps.durable import MAX_NAME

JsonObject = dict[str, Any]


class BringingOperations(Operations):
    """The operations that end waits from outside; no caller over a network has them."""

    async def send_event(
        self,
        caller: Caller,
        session_id: str,
        tool_call_id: str,
        name: str,
        value: Any = None,
        *,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Bring a tool the event of a name, with any JSON value. One that comes early is kept for it.

        Returns `{"result": "recorded"}`.

        Raises:
            NotFoundError: `wait_not_found`: there never was such a call.
            RequestConflictError: `not_pending`: it is over, had this event before, or takes none.
        """
        key = session_key(caller, session_id)
        check_name(name, "the name of an event", MAX_NAME)
        try:
            plain = json_value(value, f"the value of event {name!r}")
        except ConfigurationError as error:
            raise InvalidRequestError(error.message) from None
        said = {"operation": "send_event", "tool_call_id": tool_call_id, "name": name, "value": plain}
        _check_size(len(json_bytes(said, "the value of an event")), "this event")
        command = EventArrived(
            call_id=tool_call_id, name=name, actor=caller.actor, value=plain, receipts=claims(idempotency_key, said)
        )
        return await self._bring(caller, key, tool_call_id, command)

    async def bring_result(
        self,
        caller: Caller,
        session_id: str,
        tool_call_id: str,
        tool_name: str,
        output: Any,
        *,
        succeeded: bool = True,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Bring the result of a call that its provider runs, or that comes later (spec TOOL-19).

        Returns `{"result": "recorded"}`; errors as of `send_event`, `not_pending` also for another tool's result.
        """
        key = session_key(caller, session_id)
        text = output_text(tool_name, output)
        check_unicode(text, "the output")
        _check_size(len(text.encode()), "this result")
        said = {"operation": "bring_result", "tool_call_id": tool_call_id, "tool_name": tool_name}
        command = ResultBrought(
            call_id=tool_call_id,
            tool_name=tool_name,
            actor=caller.actor,
            output=text,
            succeeded=succeeded,
            receipts=claims(idempotency_key, said | {"output": text, "succeeded": succeeded}),
        )
        return await self._bring(caller, key, tool_call_id, command)

    async def _bring(self, caller: Caller, key: SessionKey, call_id: str, command: Command) -> JsonObject:
        try:
            return (await self._execute(caller, key, command)).reply
        except NotFoundError as error:
            if error.code != "interrupt_not_found":
                raise
            if await was_asked_for(self._ports.store, key, call_id):
                raise RequestConflictError(
                    f"call {call_id!r} is over: it takes nothing any more", code="not_pending"
                ) from None
            raise NotFoundError(f"there is no call {call_id!r}", code="wait_not_found") from None


def _check_size(size: int, what: str) -> None:
    if size > MAX_TOOL_OUTPUT_BYTES:
        raise TooLargeError(f"{what} is {size} bytes, and {MAX_TOOL_OUTPUT_BYTES} are the most there may be")
