"""What a `Session` can do to a session besides talking to it: the same over HTTP, but for what is trusted code's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from perdure.errors import StoreUnavailableError

if TYPE_CHECKING:
    from perdure.service import Caller, Service

JsonObject = dict[str, Any]


class ControlApi(Protocol):
    """The controls of one caller, in this process or over HTTP. They return the bodies of surface §4."""

    async def start(
        self,
        session_id: str,
        *,
        agent: str | None = None,
        settings: JsonObject | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject: ...

    async def stop(
        self,
        session_id: str,
        *,
        turn_id: str | None = None,
        message_id: str | None = None,
        step_execution_id: str | None = None,
        frontier: str | None = None,
        disposition: str = "keep",
        idempotency_key: str | None = None,
    ) -> JsonObject: ...

    async def retry(self, session_id: str, *, retry_id: str, idempotency_key: str | None = None) -> JsonObject: ...

    async def set_title(self, session_id: str, title: str, *, idempotency_key: str | None = None) -> JsonObject: ...

    async def pause(self, session_id: str, *, idempotency_key: str | None = None) -> JsonObject: ...

    async def resume(self, session_id: str, *, idempotency_key: str | None = None) -> JsonObject: ...

    async def update_settings(
        self, session_id: str, settings: JsonObject, *, idempotency_key: str | None = None
    ) -> JsonObject: ...

    async def edit(
        self, session_id: str, message_id: str, *, text: str, idempotency_key: str | None = None
    ) -> JsonObject: ...

    async def move(
        self,
        session_id: str,
        message_id: str,
        *,
        before: str | None = None,
        after: str | None = None,
        position: str | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject: ...

    async def remove(self, session_id: str, message_id: str, *, idempotency_key: str | None = None) -> JsonObject: ...

    async def deliver(
        self, session_id: str, message_id: str, *, delivery: str, idempotency_key: str | None = None
    ) -> JsonObject: ...

    async def close_session(
        self, session_id: str, *, closed: bool = True, idempotency_key: str | None = None
    ) -> JsonObject: ...

    async def seed(
        self,
        session_id: str,
        messages: Sequence[JsonObject],
        *,
        agent: str | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject: ...


class BoundControls:
    """The controls of the service of this process, bound to one caller: a `ControlApi`."""

    def __init__(self, service: Service, caller: Caller) -> None:
        self._service = service
        self._caller = caller

    async def start(self, session_id: str, **arguments: Any) -> JsonObject:
        return await self._service.start(self._caller, session_id, **arguments)

    async def stop(self, session_id: str, **arguments: Any) -> JsonObject:
        return await self._service.stop(self._caller, session_id, **arguments)

    async def retry(self, session_id: str, **arguments: Any) -> JsonObject:
        return await self._service.retry(self._caller, session_id, **arguments)

    async def set_title(self, session_id: str, title: str, **arguments: Any) -> JsonObject:
        return await self._service.set_title(self._caller, session_id, title, **arguments)

    async def pause(self, session_id: str, **arguments: Any) -> JsonObject:
        return await self._service.pause(self._caller, session_id, **arguments)

    async def resume(self, session_id: str, **arguments: Any) -> JsonObject:
        return await self._service.resume(self._caller, session_id, **arguments)

    async def update_settings(self, session_id: str, settings: JsonObject, **arguments: Any) -> JsonObject:
        return await self._service.update_settings(self._caller, session_id, settings, **arguments)

    async def edit(self, session_id: str, message_id: str, **arguments: Any) -> JsonObject:
        return await self._service.edit(self._caller, session_id, message_id, **arguments)

    async def move(self, session_id: str, message_id: str, **arguments: Any) -> JsonObject:
        return await self._service.move(self._caller, session_id, message_id, **arguments)

    async def remove(self, session_id: str, message_id: str, **arguments: Any) -> JsonObject:
        return await self._service.remove(self._caller, session_id, message_id, **arguments)

    async def deliver(self, session_id: str, message_id: str, **arguments: Any) -> JsonObject:
        return await self._service.deliver(self._caller, session_id, message_id, **arguments)

    async def close_session(self, session_id: str, **arguments: Any) -> JsonObject:
        return await self._service.close_session(self._caller, session_id, **arguments)

    async def seed(self, session_id: str, messages: Sequence[JsonObject], **arguments: Any) -> JsonObject:
        return await self._service.seed(self._caller, session_id, messages, **arguments)


class SessionControls:
    """The controls of one session. docs/concepts/control.md tells what each of them does to what runs."""

    def __init__(self, api: ControlApi, session_id: str, new_key: Callable[[], str]) -> None:
        self.session_id = session_id
        self._controls = api
        self._new_key = new_key

    async def stop(
        self,
        turn_id: str | None = None,
        frontier: str | None = None,
        disposition: str = "keep",
        *,
        message_id: str | None = None,
        step_execution_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Stop a turn. Returns `{"result": …}` (surface §4). Leaving or closing a stream never stops anything.

        At most one of `turn_id`, `message_id` and `step_execution_id`; none: the running turn, whichever it is. When no
        turn runs, a failed one that holds the inbox is dismissed.

        Args:
            message_id: The turn of this message; one that still waits is taken back.
            step_execution_id: The turn, while this model step or tool call of it runs.
            frontier: Cursor of the last event that was shown: text behind it is cut, effects never are.
            disposition: `keep`: what was shown stays in the transcript. `discard`: no later prompt has it.
        """
        key = self._key(idempotency_key)
        return await with_key(
            key,
            self._controls.stop(
                self.session_id,
                turn_id=turn_id,
                message_id=message_id,
                step_execution_id=step_execution_id,
                frontier=frontier,
                disposition=disposition,
                idempotency_key=key,
            ),
        )

    async def retry(self, retry_id: str | None = None, *, idempotency_key: str | None = None) -> JsonObject:
        """Run the failed model step of the latest turn again, or wait no longer for a reconnect.

        Returns `{"result": "recorded", "turn_id"?}`; for a `retry_id` that was used before `already_recorded`.

        Args:
            retry_id: Which click this is, at most 128 characters; a new one is made when absent.
        """
        key = self._key(idempotency_key)
        chosen = self._new_key() if retry_id is None else retry_id
        return await with_key(key, self._controls.retry(self.session_id, retry_id=chosen, idempotency_key=key))

    async def rename(self, title: str, *, idempotency_key: str | None = None) -> JsonObject:
        """Give the session a title of 1 to 200 characters; it stays. Returns `{"result": …}`."""
        key = self._key(idempotency_key)
        return await with_key(key, self._controls.set_title(self.session_id, title, idempotency_key=key))

    async def pause(self, *, idempotency_key: str | None = None) -> JsonObject:
        """Let nothing new begin: model steps, tools, turns. What runs finishes. Returns `{"result": …}`."""
        key = self._key(idempotency_key)
        return await with_key(key, self._controls.pause(self.session_id, idempotency_key=key))

    async def resume(self, *, idempotency_key: str | None = None) -> JsonObject:
        """Let everything that is ready begin again. Returns `{"result": …}`."""
        key = self._key(idempotency_key)
        return await with_key(key, self._controls.resume(self.session_id, idempotency_key=key))

    async def update_settings(self, settings: JsonObject, *, idempotency_key: str | None = None) -> JsonObject:
        """Replace the session's settings whole; `{}` clears them. At most 16 KiB of JSON, never secrets.

        The running turn keeps those that it began with, but for `approval_mode`.
        """
        key = self._key(idempotency_key)
        return await with_key(key, self._controls.update_settings(self.session_id, settings, idempotency_key=key))

    async def edit(self, message_id: str, text: str, *, idempotency_key: str | None = None) -> JsonObject:
        """Change the text of a message that waits. Returns `{"result": "recorded"}`."""
        key = self._key(idempotency_key)
        return await with_key(key, self._controls.edit(self.session_id, message_id, text=text, idempotency_key=key))

    async def move(
        self,
        message_id: str,
        *,
        before: str | None = None,
        after: str | None = None,
        position: str | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Change the place of a message that waits: before or after another one, or `first` or `last` of its class."""
        key = self._key(idempotency_key)
        return await with_key(
            key,
            self._controls.move(
                self.session_id, message_id, before=before, after=after, position=position, idempotency_key=key
            ),
        )

    async def remove(self, message_id: str, *, idempotency_key: str | None = None) -> JsonObject:
        """Take a waiting message back. Returns `{"result": "removed", message_id, text, metadata?, files?}`."""
        key = self._key(idempotency_key)
        return await with_key(key, self._controls.remove(self.session_id, message_id, idempotency_key=key))

    async def deliver(self, message_id: str, delivery: str, *, idempotency_key: str | None = None) -> JsonObject:
        """Deliver a waiting message in another way. Returns `{message_id, delivered_as, turn_id?}`."""
        key = self._key(idempotency_key)
        return await with_key(
            key, self._controls.deliver(self.session_id, message_id, delivery=delivery, idempotency_key=key)
        )

    # --- trusted code only: over HTTP these are a `ForbiddenError` ---------------------------------------------------

    async def close(self, *, idempotency_key: str | None = None) -> JsonObject:
        """Let the session take no more messages; a send is `session_closed`. What runs and waits goes on."""
        key = self._key(idempotency_key)
        return await with_key(key, self._controls.close_session(self.session_id, closed=True, idempotency_key=key))

    async def reopen(self, *, idempotency_key: str | None = None) -> JsonObject:
        """Let a closed session take messages again."""
        key = self._key(idempotency_key)
        return await with_key(key, self._controls.close_session(self.session_id, closed=False, idempotency_key=key))

    async def seed(
        self, messages: Sequence[JsonObject], *, agent: str | None = None, idempotency_key: str | None = None
    ) -> JsonObject:
        """Import a history into a session that has none, once; no model is called.

        Returns `{"result": "recorded", message_count, duplicate}`.

        Args:
            messages: Each `{"role": "user" | "assistant", "text": …, "message_id"?: …}`; all have an id, or none.
            agent: None: the first agent.
        """
        return await self._controls.seed(self.session_id, messages, agent=agent, idempotency_key=idempotency_key)

    def _key(self, given: str | None) -> str:
        return self._new_key() if given is None else given


async def with_key(key: str, command: Awaitable[JsonObject]) -> JsonObject:
    """Carry out a command; when its answer is lost, the error tells with which key it may be repeated."""
    try:
        return await command
    except StoreUnavailableError as error:
        error.idempotency_key = key
        raise
