"""The README's code and the example are run: a newcomer's first minutes have to be right."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perdure.testing.processes import ChildProcess
from perdure.testing.providers import FaultProvider, answer, wants

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Return the README's blocks of code of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


async def run_as_written(source: str, names: dict[str, Any]) -> None:
    """Run code that awaits at its top level, as one would paste it into `python -m asyncio`."""
    code = compile(source, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    await eval(code, names)


async def test_the_program_of_the_readme_looks_up_asks_and_refunds_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source,) = blocks("python")
    refunds: list[tuple[str, float]] = []

    async def find(order_id: str) -> dict[str, str]:
        return {"order_id": order_id}

    def refund(order_id: str, amount: float, idempotency_key: str) -> str:
        refunds.append((order_id, amount))
        return "refunded"

    names = {"orders": SimpleNamespace(find=find), "payments": SimpleNamespace(refund=refund), "__name__": "readme"}
    monkeypatch.chdir(tmp_path)
    script = [
        answer(calls=[wants("lookup_order", {"order_id": "7"}, "c-1")]),
        answer(calls=[wants("refund_order", {"order_id": "7", "amount": 12.5}, "c-2")]),
        answer("That is done."),
    ]
    async with FaultProvider(script) as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)

        await run_as_written(source, names)

        assert len(provider.requests) == 3
    assert refunds == [("7", 12.5)]


@pytest.mark.processes
async def test_the_example_runs_as_a_program() -> None:
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, str(ROOT / "examples" / "quickstart.py")), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await program.communicate()

    assert program.returncode == 0
    assert "Done: refunded 129.90 for order 7" in output.decode()


@pytest.mark.processes
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
async def test_the_requests_of_the_readme_end_in_a_refund(tmp_path: Path) -> None:
    (requests,) = [block for block in blocks("sh") if "curl" in block]
    no_key = {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": "", "PERDURE_AGENTS": "", "PERDURE_DB": ""}
    server = ChildProcess(sys.executable, "-m", "perdure", "dev", "--port", "0", cwd=tmp_path, environment=no_key)
    async with server_at(server) as url:
        # As typed, but silent about its progress, an answer a line, and the stream is left after some seconds.
        typed = requests.replace("http://127.0.0.1:8787", url).replace("curl -N", "curl -N -m 3").replace("curl", CURL)
        shell = await asyncio.create_subprocess_exec("sh", "-c", typed, stdout=asyncio.subprocess.PIPE)
        output, _ = await shell.communicate()
    answers = [json.loads(line) for line in output.decode().splitlines() if line.startswith("{")]
    streamed = re.findall(r"^event: (.*)$", output.decode(), re.MULTILINE)
    receipt, page, snapshot, decided, sent, stopped, paused = answers

    assert receipt["turn_id"] == "turn-1"
    assert {"turn_started", "text_delta", "tool_call_finished", "interrupt_raised"} <= set(streamed)
    assert page["events"][-1]["type"] == "interrupt_raised"
    assert [interrupt["tool_name"] for interrupt in snapshot["pending_interrupts"]] == ["refund_order"]
    assert decided == {"result": "resolved"}
    assert sent["delivered_as"] in ("steer", "queue")  # the turn may be over
    assert stopped["result"] in ("recorded", "idle")  # so may the next one
    assert paused == {"result": "recorded"}


CURL = r"curl -s -w '\n'"


class server_at:  # noqa: N801 - reads as what it is
    """Run a server for a while, and give its address."""

    def __init__(self, server: ChildProcess) -> None:
        self._server = server

    async def __aenter__(self) -> str:
        return (await self._server.start()).split()[1]

    async def __aexit__(self, *_: object) -> None:
        await self._server.kill()


def test_every_command_of_the_readme_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    shell = "\n".join(blocks("sh"))

    for target in re.findall(r"make ([a-z]+)", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for command in re.findall(r"perdure ([a-z]+)", shell):
        assert command in ("dev", "demo", "chat", "sessions", "show")


NAMED = set(re.findall(r"(?:docs|examples|layers)/[\w/.-]+\.\w+", README))


@pytest.mark.parametrize("page", sorted(NAMED))
def test_every_file_that_the_readme_names_is_there(page: str) -> None:
    assert (ROOT / page).exists()
