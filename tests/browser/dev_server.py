"""A real `perdure dev` process that a test may kill and start again on its port and file, with an agent it directs."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

# The example agent without a key. Files beside it say, at any moment, where its text stops and how its provider fails.
AGENTS = '''
import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from perdure import function_tool
from perdure.agents.demo_model import reply
from perdure.agents.example import support_agent
from perdure.core.usage import CallUsage
from perdure.errors import ModelCallError
from perdure.models import Reply, ScriptedModel, call, tool_results, user_texts
from waiting_tools import TOOLS, asked_for

HERE = Path(__file__).parent

EVERYTHING = """# Order

It costs **129.90** euros, see [the order](https://shop.example/7).

| what | how many |
|------|---------:|
| boots | 2 |

- sent
- [x] paid

> Thank *you*.

```py
print('<b>')
```

<img src=x onerror=alert(1)> [no](javascript:alert(1))"""


class Directed(ScriptedModel):
    def credential_version(self):
        return (HERE / "credential").read_text()

    async def stream(self, request):
        text = ""
        async for item in super().stream(request):
            yield item
            text += getattr(item, "text", "")
            while (mark := (HERE / "hold").read_text()) and mark in text:
                await asyncio.sleep(0.01)


USED = CallUsage(
    input_tokens=1200, cached_input_tokens=1000, output_tokens=80, reasoning_tokens=30, cost="0.0021", currency="USD"
)


def directed(request):
    said = answer(request)
    return replace(Reply(text=said) if isinstance(said, str) else said, usage=USED)


def answer(request):
    fault = json.loads((HERE / "fault").read_text())
    if fault:
        raise ModelCallError(**fault)
    if user_texts(request)[-1] == "Write everything.":
        return EVERYTHING
    if user_texts(request)[-1] == "Export the orders.":
        return "Exported." if tool_results(request) else Reply(calls=(call("export_orders"),))
    return asked_for(user_texts(request)[-1], tool_results(request)) or reply(request)


@function_tool(effect="read")
def export_orders() -> str:
    """Export all orders."""
    return "".join(f"order {number:06d}\\n" for number in range(60_000))


PIECE = timedelta(milliseconds=20)
models = {name: Directed(directed, delay=PIECE, model=at) for name, at in [("large", "l-1"), ("small", "s-1")]}
support = support_agent(models["large"])
agent = replace(support, models=models, tools=[*support.tools, export_orders, *TOOLS])
titles = ScriptedModel(lambda request: "Greetings at night", model="titles")
agents = [agent, replace(agent, name="night-shift", title_model=titles)]
'''


class DevServer:
    """`perdure dev` over one file in `folder`. The first start takes a free port, later ones take the same."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self.url = ""
        self.books = folder / "shop.jsonl"
        self.database = folder / "sessions.db"
        (folder / "directed_support.py").write_text(AGENTS, encoding="utf-8")
        shutil.copy(Path(__file__).with_name("waiting_tools.py"), folder)
        self.reset()

    def reset(self) -> None:
        """Let the agent answer as in the beginning."""
        self.hold("")
        self.fail(None)
        self.credential("first")
        self.task("pending")
        self.books.unlink(missing_ok=True)

    def hold(self, text: str) -> None:
        """Let each answer stop where this text is complete, until another text, or none, is held."""
        self._put("hold", text)

    def fail(self, kind: str | None, **more: Any) -> None:
        """Let each call of the model fail from now on (a kind of `ModelCallError`), or no longer."""
        told = {"message": "the provider was told to fail", "kind": kind, "retryable": False} | more
        self._put("fault", json.dumps(told if kind else None))

    def credential(self, version: str) -> None:
        """Give the model another credential."""
        self._put("credential", version)

    def task(self, told: str) -> None:
        """Let remote work be `pending`, ask (`asks`), or be done."""
        self._put("task", told)

    def told(self, name: str) -> str:
        """Return what one of these files says now: tools write into them, too."""
        return (self._folder / name).read_text(encoding="utf-8")

    def _put(self, name: str, text: str) -> None:
        new = self._folder / f"{name}.new"
        new.write_text(text, encoding="utf-8")
        new.replace(self._folder / name)  # whole at every moment

    def start(self) -> None:
        """Start, if it does not run, and return when it listens."""
        if self._process is not None:
            return
        port = self.url.rpartition(":")[2] or "0"
        command = ["-m", "perdure", "dev", "--agents", "directed_support:agents", "--db", "sessions.db", "--port", port]
        with (self._folder / "stderr.log").open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, *command],
                cwd=self._folder,
                env={**os.environ, "PERDURE_SHOP_FILE": str(self.books), "PYTHONUNBUFFERED": "1"},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("ready "):
                self.url = line.split()[1]
                return
        raise AssertionError(f"`perdure dev` ended before it was ready:\n{self.stderr()}")

    def kill(self) -> None:
        """End it as a power cut would: SIGKILL, nothing is cleaned up."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(timeout=10)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def stderr(self) -> str:
        """Return what all its processes wrote to standard error so far."""
        return (self._folder / "stderr.log").read_text(encoding="utf-8")
