"""The schedules of a session over HTTP: a `ScheduleApi`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from perdure.http_requests import path_of, trusted

JsonObject = dict[str, Any]


class HttpSchedules(ABC):
    """The operations on schedules, on approvals ahead, and on an application's requests."""

    @abstractmethod
    async def _get(self, path: str, query: JsonObject) -> JsonObject: ...

    @abstractmethod
    async def _send(
        self, method: str, path: str, body: JsonObject | None, idempotency_key: str | None
    ) -> JsonObject: ...

    async def set_schedule(
        self,
        session_id: str,
        *,
        text: str,
        when: JsonObject,
        schedule_id: str | None = None,
        metadata: JsonObject | None = None,
        delivery: str | None = None,
        max_attempts: int = 1000,
        agent: str | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        body: JsonObject = {"text": text, "schedule_id": schedule_id, "metadata": metadata, "delivery": delivery}
        body |= {"max_attempts": max_attempts, "agent": agent} | when
        return await self._send("POST", path_of(session_id, "schedules"), body, idempotency_key)

    async def change_schedule(
        self,
        session_id: str,
        schedule_id: str,
        *,
        text: str | None = None,
        when: JsonObject | None = None,
        metadata: JsonObject | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        body: JsonObject = {"text": text, "metadata": metadata} | (when or {})
        return await self._send("PATCH", path_of(session_id, "schedules", schedule_id), body, idempotency_key)

    async def cancel_schedule(
        self, session_id: str, schedule_id: str, *, idempotency_key: str | None = None
    ) -> JsonObject:
        return await self._send("DELETE", path_of(session_id, "schedules", schedule_id), None, idempotency_key)

    async def schedules(self, session_id: str) -> JsonObject:
        return await self._get(path_of(session_id, "schedules"), {})

    async def revoke_grant(self, session_id: str, grant_id: str, *, idempotency_key: str | None = None) -> JsonObject:
        return await self._send("DELETE", path_of(session_id, "grants", grant_id), None, idempotency_key)

    async def request_value(self, *_: Any, **__: Any) -> JsonObject:
        raise trusted("ask people for a value")

    async def withdraw_request(self, *_: Any, **__: Any) -> JsonObject:
        raise trusted("withdraw a request for a value")
