"""A `perdure dev` for tests, in a folder outside the repository, with agents and a provider of the folder's own."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perdure.testing.conversation import converse
from perdure.testing.processes import ChildProcess, free_port
from perdure.testing.provider_plans import Stream

AGENTS = '''
from pathlib import Path

from perdure import AgentDefinition, ToolContext, function_tool
from perdure.models import OpenAIChatModel


@function_tool(effect="read")
async def lookup_order(order_id: str) -> dict:
    """Look up an order."""
    return {"order_id": order_id, "amount": 129.9}


@function_tool(effect="non_idempotent_write")
def refund_order(order_id: str, amount: float, context: ToolContext) -> str:
    """Refund an order."""
    with Path("refunds.txt").open("a") as books:
        books.write(f"{order_id} {amount} {context.idempotency_key}\\n")
    return f"refunded {amount}"


agent = AgentDefinition(name="mine", model=OpenAIChatModel("some-model"), tools=[lookup_order, refund_order])
'''


def slowly(body: dict[str, Any]) -> Stream:
    """Answer like the provider program, with a short wait before each piece."""
    return replace(converse(body), delay_seconds=0.01)


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    code: int | None
    output: str
    complaint: str


class DevServer(ChildProcess):
    """A server that comes back at the same address with the same database."""

    def __init__(self, folder: Path, *options: str, port: int | None = None, **environment: str) -> None:
        self.port = free_port() if port is None else port
        self.url = f"http://127.0.0.1:{self.port}"
        self.refunds = folder / "refunds.txt"
        (folder / "my_agents.py").write_text(AGENTS, encoding="utf-8")
        super().__init__(
            *(sys.executable, "-m", "perdure", "dev", "--agents", "my_agents:agent", "--db", "sessions.db"),
            *("--port", str(self.port), *options),
            cwd=folder,
            environment={"OPENAI_API_KEY": "", **environment},
        )

    def count_refunds(self) -> int:
        """Return how often money was really paid back."""
        return len(self.refunds.read_text().splitlines()) if self.refunds.exists() else 0

    async def restart(self) -> None:
        """Kill it and start it again."""
        await self.kill()
        await self.start()

    async def run_to_its_end(self) -> Ended:
        """Run it as a program that should give up by itself."""
        process = await asyncio.create_subprocess_exec(
            *self.command, cwd=self.cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            async with asyncio.timeout(60):
                output, complaint = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        return Ended(process.returncode, output.decode(), complaint.decode())
