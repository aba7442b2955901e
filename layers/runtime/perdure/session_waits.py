"""What a `Session` can do about what the session waits for: the same over HTTP, but for what is trusted code's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from perdure.session_controls import with_key

if TYPE_CHECKING:
    from perdure.service import Caller, Service

JsonObject = dict[str, Any]


class WaitApi(Protocol):
    """What people and trusted code do about waits, for one caller. They return the bodies of surface §4."""

    async def resolve_interrupt(
        self,
        session_id: str,
        interrupt_id: str,
        *,
        approved: bool | None = None,
        answer: str | None = None,
        message: str | None = None,
        arguments_hash: str | None = None,
        arguments: JsonObject | None = None,
        grant: JsonObject | None = None,
        value: Any = None,
        idempotency_key: str | None = None,
    ) -> JsonObject: ...

    async def waits(self, session_id: str) -> JsonObject: ...

    async def skip_wait(self, session_id: str, wait_id: str, *, idempotency_key: str | None = None) -> JsonObject: ...

    async def change_wait(
        self, session_id: str, wait_id: str, *, until: str | datetime | None, idempotency_key: str | None = None
    ) -> JsonObject: ...

    async def cancel_wait(self, session_id: str, wait_id: str, *, idempotency_key: str | None = None) -> JsonObject: ...

    async def send_event(
        self, session_id: str, tool_call_id: str, name: str, value: Any = None, *, idempotency_key: str | None = None
    ) -> JsonObject: ...

    async def bring_result(
        self,
        session_id: str,
        tool_call_id: str,
        tool_name: str,
        output: Any,
        *,
        succeeded: bool = True,
        idempotency_key: str | None = None,
    ) -> JsonObject: ...

    async def abandon(
        self, session_id: str, *, turn_id: str, step_execution_id: str, attempt: int, version: int
    ) -> JsonObject: ...


class BoundWaits:
    """The same of the service of this process, bound to one caller: a `WaitApi`."""

    _service: Service
    _caller: Caller

    async def resolve_interrupt(self, session_id: str, interrupt_id: str, **arguments: Any) -> JsonObject:
        return await self._service.resolve_interrupt(self._caller, session_id, interrupt_id, **arguments)

    async def waits(self, session_id: str) -> JsonObject:
        return await self._service.waits(self._caller, session_id)

    async def skip_wait(self, session_id: str, wait_id: str, **arguments: Any) -> JsonObject:
        return await self._service.skip_wait(self._caller, session_id, wait_id, **arguments)

    async def change_wait(self, session_id: str, wait_id: str, **arguments: Any) -> JsonObject:
        return await self._service.change_wait(self._caller, session_id, wait_id, **arguments)

    async def cancel_wait(self, session_id: str, wait_id: str, **arguments: Any) -> JsonObject:
        return await self._service.cancel_wait(self._caller, session_id, wait_id, **arguments)

    async def send_event(
        self, session_id: str, tool_call_id: str, name: str, value: Any = None, **more: Any
    ) -> JsonObject:
        return await self._service.send_event(self._caller, session_id, tool_call_id, name, value, **more)

    async def bring_result(
        self, session_id: str, tool_call_id: str, tool_name: str, output: Any, **more: Any
    ) -> JsonObject:
        return await self._service.bring_result(self._caller, session_id, tool_call_id, tool_name, output, **more)

    async def abandon(self, session_id: str, **arguments: Any) -> JsonObject:
        return await self._service.abandon(self._caller, session_id, **arguments)


class SessionWaits:
    """Decisions, answers and waits of one session."""

    session_id: str
    _waits: WaitApi
    _key: Callable[[str | None], str]

    async def resolve(
        self,
        interrupt_id: str,
        *,
        approved: bool,
        message: str | None = None,
        arguments_hash: str | None = None,
        arguments: JsonObject | None = None,
        grant: JsonObject | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Approve or reject a tool call. Returns `{"result": "resolved"}`.

        Args:
            message: A word to the model, with either decision.
            arguments_hash: Of the arguments that were shown; a decision on others is refused.
            arguments: The approved call runs with these instead, whole. Its tool checks them first, and the model is
                told. Needs the `arguments_hash` of those that they replace.
            grant: `{"lasts_seconds", "fields"?, "max_uses"?}`: nobody is asked about calls of this tool with the same
                values in `fields`, in this session, for up to 30 days; `revoke_grant` takes it back.
        """
        key = self._key(idempotency_key)
        return await with_key(
            key,
            self._waits.resolve_interrupt(
                self.session_id,
                interrupt_id,
                approved=approved,
                message=message,
                arguments_hash=arguments_hash,
                arguments=arguments,
                grant=grant,
                idempotency_key=key,
            ),
        )

    async def give(
        self, interrupt_id: str, value: Any, message: str | None = None, *, idempotency_key: str | None = None
    ) -> JsonObject:
        """Give an application a value that it asked for. Returns `{"result": "resolved"}`.

        Args:
            value: Anything but None that JSON can write, 256 KiB at most.
        """
        key = self._key(idempotency_key)
        return await with_key(
            key,
            self._waits.resolve_interrupt(
                self.session_id, interrupt_id, value=value, message=message, idempotency_key=key
            ),
        )

    async def answer(
        self, interrupt_id: str, text: str, message: str | None = None, *, idempotency_key: str | None = None
    ) -> JsonObject:
        """Answer a question. Returns `{"result": "resolved"}`, or `queued` with a `message_id` and a `cursor`.

        That is for an answer that comes too late, where the agent's inbox takes those (`late_answers`).

        Args:
            text: One of the choices, word for word, unless the question takes free text.
            message: A word to the model besides.
        """
        key = self._key(idempotency_key)
        return await with_key(
            key,
            self._waits.resolve_interrupt(
                self.session_id, interrupt_id, answer=text, message=message, idempotency_key=key
            ),
        )

    async def decline(
        self, interrupt_id: str, message: str | None = None, *, idempotency_key: str | None = None
    ) -> JsonObject:
        """Do not answer a question: the model is told so, or `message`. Returns `{"result": "resolved"}`."""
        return await self.resolve(interrupt_id, approved=False, message=message, idempotency_key=idempotency_key)

    async def waits(self) -> list[JsonObject]:
        """Return why the session waits: `{kind, id?, since, until?, title, unblocked_by, calls}` each (surface §4)."""
        waits: list[JsonObject] = (await self._waits.waits(self.session_id))["waits"]
        return waits

    async def skip_wait(self, wait_id: str, *, idempotency_key: str | None = None) -> JsonObject:
        """Wait no longer for a time to come. Returns `{"result": "recorded"}`."""
        key = self._key(idempotency_key)
        return await with_key(key, self._waits.skip_wait(self.session_id, wait_id, idempotency_key=key))

    async def change_wait(
        self, wait_id: str, until: str | datetime | None, *, idempotency_key: str | None = None
    ) -> JsonObject:
        """Give a wait, a question or an approval another time. Returns `{"result": "recorded"}`.

        Args:
            wait_id: Id of the call that waits, or of the interrupt.
            until: At most 365 days away, with an offset; one that has passed ends it at once. None: no time at all,
                of what can do without one: a question, an approval, an event.
        """
        key = self._key(idempotency_key)
        return await with_key(key, self._waits.change_wait(self.session_id, wait_id, until=until, idempotency_key=key))

    async def cancel_wait(self, wait_id: str, *, idempotency_key: str | None = None) -> JsonObject:
        """End a wait without what it was for: the model is told, and remote work is asked to stop."""
        key = self._key(idempotency_key)
        return await with_key(key, self._waits.cancel_wait(self.session_id, wait_id, idempotency_key=key))

    # --- trusted code only: over HTTP these are a `ForbiddenError` ---------------------------------------------------

    async def send_event(
        self, tool_call_id: str, name: str, value: Any = None, *, idempotency_key: str | None = None
    ) -> JsonObject:
        """Bring a tool the event that it waits for, or will wait for (`ToolContext.wait_for_event`).

        Args:
            value: What `wait_for_event` returns: anything that JSON can write.
        """
        key = self._key(idempotency_key)
        return await with_key(
            key, self._waits.send_event(self.session_id, tool_call_id, name, value, idempotency_key=key)
        )

    async def bring_result(
        self,
        tool_call_id: str,
        tool_name: str,
        output: Any,
        succeeded: bool = True,
        *,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Bring the result of a call that its provider runs, or that comes later.

        Args:
            tool_name: That of the call: a result for another tool is refused.
            output: Text, or anything that JSON can write.
            succeeded: False: the call failed, and `output` says how.
        """
        key = self._key(idempotency_key)
        return await with_key(
            key,
            self._waits.bring_result(
                self.session_id, tool_call_id, tool_name, output, succeeded=succeeded, idempotency_key=key
            ),
        )

    async def abandon(self, *, turn_id: str, step_execution_id: str, attempt: int, version: int) -> JsonObject:
        """Give up one attempt whose worker is gone, instead of waiting until the sweep tries it again.

        Its step ends as after its last attempt. Returns `{"result": "abandoned"}`, or `settled` when its outcome was
        known after all.

        Args:
            version: The session's, as it was looked at; on another one nothing is done.

        Raises:
            RequestConflictError: `stale_revision`; `not_running`: it is not expected any more; `still_running`:
                somebody holds it, or may be about to.
        """
        return await self._waits.abandon(
            self.session_id, turn_id=turn_id, step_execution_id=step_execution_id, attempt=attempt, version=version
        )
