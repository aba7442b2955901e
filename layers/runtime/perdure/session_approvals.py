"""Signed approvals of one session, for trusted code in the process of the runtime (spec APPR-10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from perdure.session_controls import with_key

if TYPE_CHECKING:
    from perdure.service import Caller, Service

JsonObject = dict[str, Any]


class ApprovalApi(Protocol):
    """Approvals as signed parts, for one caller."""

    async def approval_request(self, session_id: str, interrupt_id: str) -> JsonObject: ...

    async def approval_response(
        self,
        session_id: str,
        part: JsonObject,
        *,
        approved: bool,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject: ...


class BoundApprovals:
    """The same of the service of this process, bound to one caller: an `ApprovalApi`."""

    _service: Service
    _caller: Caller

    async def approval_request(self, session_id: str, interrupt_id: str) -> JsonObject:
        return await self._service.approval_request(self._caller, session_id, interrupt_id)

    async def approval_response(self, session_id: str, part: JsonObject, **arguments: Any) -> JsonObject:
        return await self._service.approval_response(self._caller, session_id, part, **arguments)


class SessionApprovals:
    """Approvals that travel as parts of messages. Trusted code only: over HTTP these are a `ForbiddenError`."""

    session_id: str
    _approvals: ApprovalApi
    _key: Callable[[str | None], str]

    async def approval_request(self, interrupt_id: str) -> JsonObject:
        """Return an open approval as a signed part of a message (docs/concepts/control.md).

        It can be shown and sent anywhere: whoever has it can change nothing of it, and decides nothing by having it.
        Needs the `approval_secret` of `perdure.open`.
        """
        return await self._approvals.approval_request(self.session_id, interrupt_id)

    async def approval_response(
        self, part: JsonObject, approved: bool, message: str | None = None, *, idempotency_key: str | None = None
    ) -> JsonObject:
        """Decide on what a signed part asks for, as `resolve` does. Returns `{"result": "resolved"}`.

        Args:
            part: As `approval_request` gave it, or the same by way of JSON.
            message: A word to the model, with either decision.

        Raises:
            UnauthorizedError: The part was made up or changed.
            InvalidRequestError: It is no such part, or one of another session.
            RequestConflictError: `not_pending`, `deadline_passed`, `arguments_changed`, `agent_missing`.
        """
        key = self._key(idempotency_key)
        deciding = self._approvals.approval_response(
            self.session_id, part, approved=approved, message=message, idempotency_key=key
        )
        return await with_key(key, deciding)
