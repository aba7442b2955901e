"""`perdure dev` as a newcomer starts it: without a key, and with agents of their own (spec DEV-01)."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import httpx
import pytest

import perdure
from perdure.testing.processes import ChildProcess, finished
from perdure.webhooks import signature

pytestmark = pytest.mark.processes

AGENTS = '''
from perdure import AgentDefinition, function_tool
from perdure.models import OpenAIChatModel


@function_tool(effect="read")
async def lookup_order(order_id: str) -> dict:
    """Look up an order."""
    return {"order_id": order_id, "status": "on its way"}


agent = AgentDefinition(name="mine", model=OpenAIChatModel("some-model"), tools=[lookup_order])
'''

NO_KEY = {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": "", "PERDURE_AGENTS": "", "PERDURE_DB": ""}


def dev(folder: Path, *options: str, **environment: str) -> ChildProcess:
    """Return a `perdure dev` that runs in a folder outside the repository, on a free port."""
    command = (sys.executable, "-m", "perdure", "dev", "--port", "0", *options)
    return ChildProcess(*command, cwd=folder, environment=NO_KEY | environment)


async def test_one_command_starts_everything_and_needs_no_key(tmp_path: Path) -> None:
    server = dev(tmp_path)
    try:
        address = (await server.start()).split()[1]
        async with perdure.connect(address) as client, httpx.AsyncClient(base_url=address) as browser:
            page = await browser.get("/")
            session = client.session("s-1")
            await session.send("Where is order 7?")
            snapshot = await finished(session)
    finally:
        await server.kill()

    assert page.status_code == 200
    assert "<html" in page.text
    assert [message["role"] for message in snapshot["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert (tmp_path / ".perdure" / "sessions.db").exists()


async def test_agents_from_a_folder_of_the_users_talk_to_the_server_that_the_environment_names(tmp_path: Path) -> None:
    (tmp_path / "my_agents.py").write_text(AGENTS, encoding="utf-8")
    provider = ChildProcess(sys.executable, "-m", "perdure.testing.providers", cwd=tmp_path)
    server: ChildProcess | None = None
    try:
        base_url = (await provider.start()).split()[1]
        server = dev(tmp_path, "--agents", "my_agents:agent", OPENAI_BASE_URL=base_url, OPENAI_API_KEY="test")
        address = (await server.start()).split()[1]
        async with perdure.connect(address) as client:
            session = client.session("s-1")
            await session.send("Please lookup order 7")
            snapshot = await finished(session)
    finally:
        await provider.kill()
        if server is not None:
            await server.kill()

    assert snapshot["agent"] == "mine"
    assert [(call["tool_name"], call["arguments"]) for call in snapshot["tool_calls"]] == [
        ("lookup_order", {"order_id": "7"})
    ]
    assert "on its way" in snapshot["messages"][-1]["parts"][0]["text"]


HOOKED = """
from perdure import AgentDefinition
from perdure.models import ScriptedModel
from perdure.webhooks import HookMessage, Webhook

agent = AgentDefinition(name="mine", model=ScriptedModel(lambda request: "noted"))
webhooks = [Webhook(name="shop", secret_env="SHOP", handler=lambda event: HookMessage("order-7", event["text"]))]
"""


async def test_the_server_takes_the_events_of_webhooks_beside_the_agents(tmp_path: Path) -> None:
    (tmp_path / "hooked.py").write_text(HOOKED, encoding="utf-8")
    secret, body, at = "a secret that nobody else knows", b'{"text": "the parcel is lost"}', int(time.time())
    headers = {
        "content-type": "application/json",
        "webhook-id": "evt-1",
        "webhook-timestamp": str(at),
        "webhook-signature": signature(secret.encode(), "evt-1", at, body),
    }
    server = dev(tmp_path, "--agents", "hooked:agent", SHOP=secret)
    try:
        address = (await server.start()).split()[1]
        async with perdure.connect(address) as client, httpx.AsyncClient(base_url=address) as shop:
            taken = await shop.post("/v1/hooks/shop", content=body, headers=headers)
            forged = await shop.post("/v1/hooks/shop", content=body + b" ", headers=headers)
            snapshot = await finished(client.session("order-7"))
    finally:
        await server.kill()

    assert (taken.status_code, forged.status_code) == (202, 401)
    assert [message["role"] for message in snapshot["messages"]] == ["user", "assistant"]
