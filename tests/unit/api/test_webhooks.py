"""Signed webhooks: an event becomes one message, and nobody without the secret changes anything (spec HOOK-01..04)."""

import base64
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure.api import result_shapes
from perdure.api.lambda_host import api_handler
from perdure.embedded.runtime import EmbeddedRuntime
from perdure.errors import ConfigurationError
from perdure.webhooks import HookMessage, Webhook, signature, verify
from tests.unit.api.builders import JSON, Api, Desk, code, read
from tests.unit.api.test_openapi import fits

SECRET = b"a secret that nobody else knows"
SHOP = "HOOK_SECRET_OF_THE_SHOP"


def order(event: dict[str, Any]) -> HookMessage | None:
    if event.get("kind") == "ping":
        return None
    return HookMessage(f"order-{event['order']}", event["text"], message_id=event.get("id"))


SHOP_HOOK = Webhook(name="shop", secret_env=SHOP, handler=order)
EVENT = {"order": 7, "text": "the parcel is lost"}


@pytest.fixture
async def api(tmp_path: Path, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Api]:
    monkeypatch.setenv(SHOP, SECRET.decode())
    async with EmbeddedRuntime(tmp_path / "s.db", desk.agents(), grace_seconds=0, webhooks=[SHOP_HOOK]) as runtime:
        yield Api(runtime.service, caller=None)


async def sent(
    api: Api,
    event: Any,
    *,
    event_id: str = "evt-1",
    secret: bytes = SECRET,
    late: timedelta = timedelta(0),
    name: str = "shop",
    **changes: str,
) -> tuple[int, Any]:
    """Send an event as its sender would; `changes` replace headers."""
    body = event if isinstance(event, bytes) else json.dumps(event).encode()
    at = int((datetime.now(UTC) - late).timestamp())
    headers = {
        **JSON,
        "webhook-id": event_id,
        "webhook-timestamp": str(at),
        "webhook-signature": signature(secret, event_id, at, body),
    }
    headers |= {f"webhook-{header}": value for header, value in changes.items()}
    return read(await api.send("POST", f"/v1/hooks/{name}", headers=headers, body=body))


async def sessions(api: Api) -> list[str]:
    _, page = await Api(api.service).get("/v1/sessions")
    return [row["session_id"] for row in page["sessions"]]


async def test_a_signed_event_becomes_a_message_that_its_owner_sees(api: Api) -> None:
    status, receipt = await sent(api, EVENT)

    assert (status, receipt["duplicate"], receipt["turn_id"]) == (202, False, "turn-1")
    fits(result_shapes.HookReceipt, receipt)
    _, page = await Api(api.service).get("/v1/sessions/order-7/messages")
    assert page["messages"][0]["message_id"] == receipt["message_id"]
    assert page["messages"][0]["parts"] == [{"type": "text", "text": "the parcel is lost"}]


@pytest.mark.parametrize("event", [EVENT, EVENT | {"id": "parcel-7-lost"}])
async def test_an_event_that_is_sent_again_is_the_same_message(api: Api, event: dict[str, Any]) -> None:
    _, first = await sent(api, event)
    _, again = await sent(api, event, late=timedelta(seconds=30))

    assert again == {**first, "duplicate": True}
    assert first["message_id"] == event.get("id", "webhook:shop:evt-1")


async def test_events_of_one_thing_meet_by_the_id_that_the_handler_makes(api: Api) -> None:
    _, first = await sent(api, EVENT | {"id": "parcel-7-lost"}, event_id="evt-1")
    _, again = await sent(api, EVENT | {"id": "parcel-7-lost"}, event_id="evt-2")

    assert (again["message_id"], again["duplicate"]) == (first["message_id"], True)


async def test_an_event_that_concerns_nobody_is_taken_and_ignored(api: Api) -> None:
    assert await sent(api, {"kind": "ping"}) == (202, {"ignored": True})
    assert await sessions(api) == []


@pytest.mark.parametrize(
    "how",
    [
        {"secret": b"a secret that somebody guessed!"},
        {"late": timedelta(seconds=301)},
        {"late": timedelta(seconds=-303)},
        {"signature": ""},
        {"signature": "v1,AAAA"},
        {"signature": "v1,\xff"},
        {"id": "evt-2"},
        {"id": ""},
        {"timestamp": "now"},
        {"timestamp": ""},
        {"timestamp": "9" * 40},
    ],
)
async def test_an_event_that_is_not_signed_just_now_changes_nothing(api: Api, how: dict[str, Any]) -> None:
    assert code(await sent(api, EVENT, **how)) == (401, "unauthorized")
    assert await sessions(api) == []


async def test_a_changed_body_does_not_fit_its_signature(api: Api) -> None:
    at = int(datetime.now(UTC).timestamp())
    good = signature(SECRET, "evt-1", at, json.dumps(EVENT).encode())

    assert code(await sent(api, EVENT | {"order": 8}, signature=good, timestamp=str(at))) == (401, "unauthorized")
    assert await sessions(api) == []


async def test_one_of_several_signatures_is_enough_while_a_secret_is_changed(api: Api) -> None:
    at = int(datetime.now(UTC).timestamp())
    body = json.dumps(EVENT).encode()
    both = (
        f"{signature(b'the secret that was in use before', 'evt-1', at, body)} {signature(SECRET, 'evt-1', at, body)}"
    )

    assert (await sent(api, EVENT, signature=both, timestamp=str(at)))[0] == 202


async def test_an_event_of_nearly_five_minutes_ago_is_taken(api: Api) -> None:
    assert (await sent(api, EVENT, late=timedelta(seconds=290)))[0] == 202


@pytest.mark.parametrize("body", [b"[]", b"{", b"\xff"])
async def test_a_signed_event_that_is_no_json_object_is_refused(api: Api, body: bytes) -> None:
    assert code(await sent(api, body)) == (400, "invalid_request")
    assert await sessions(api) == []


async def test_what_a_handler_raises_is_the_servers_fault(api: Api) -> None:
    assert code(await sent(api, {"no": "order"})) == (500, "internal")


async def test_an_unknown_webhook_is_not_found(api: Api) -> None:
    assert code(await sent(api, EVENT, name="warehouse")) == (404, "not_found")


async def test_a_large_event_is_refused_before_anything_else(api: Api) -> None:
    assert code(await sent(api, b" " * (1024 * 1024 + 1))) == (413, "too_large")


def test_a_secret_may_be_written_as_standard_webhooks_writes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHOP, "whsec_" + base64.b64encode(SECRET).decode())

    assert SHOP_HOOK.secret() == SECRET


def test_on_aws_an_event_needs_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHOP, SECRET.decode())
    taken: list[Any] = []

    class Hooks:
        def verify_hook(self, name: str, headers: Any, body: bytes) -> tuple[str, str]:
            return name, verify(SECRET, headers, body, datetime.now(UTC))

        async def receive_hook(self, webhook: str, event_id: str, event: Any) -> Any:
            taken.append((webhook, event_id, event))
            return {"ignored": True}

    service: Any = Hooks()
    handler = api_handler(lambda: service)
    at, body = int(datetime.now(UTC).timestamp()), json.dumps(EVENT)

    def answer(secret: bytes) -> int:
        event = {
            "version": "2.0",
            "rawPath": "/v1/hooks/shop",
            "headers": {
                **JSON,
                "webhook-id": "evt-1",
                "webhook-timestamp": str(at),
                "webhook-signature": signature(secret, "evt-1", at, body.encode()),
            },
            "requestContext": {"http": {"method": "POST", "path": "/v1/hooks/shop"}, "stage": "$default"},
            "body": body,
        }
        return int(handler(event, None)["statusCode"])

    assert answer(SECRET) == 202
    assert answer(b"a secret that somebody guessed!") == 401
    assert taken == [("shop", "evt-1", EVENT)]


def test_a_signature_is_the_one_of_standard_webhooks() -> None:
    """The example of the specification's README ("Signature scheme")."""
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")

    signed = signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')

    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("secret", [None, "", "too short", "whsec_", "whsec_!!!"])
async def test_a_server_that_could_verify_nothing_does_not_start(
    tmp_path: Path, desk: Desk, monkeypatch: pytest.MonkeyPatch, secret: str | None
) -> None:
    monkeypatch.delenv(SHOP, raising=False)
    if secret is not None:
        monkeypatch.setenv(SHOP, secret)

    with pytest.raises(ConfigurationError, match=SHOP):
        EmbeddedRuntime(tmp_path / "s.db", desk.agents(), webhooks=[SHOP_HOOK])


@pytest.mark.parametrize("name", ["", "a/b", "a b", "x" * 65])
def test_a_webhook_has_a_name_that_can_be_part_of_an_address(name: str) -> None:
    with pytest.raises(ConfigurationError):
        Webhook(name=name, secret_env=SHOP, handler=order)
