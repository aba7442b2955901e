"""`perdure sessions` and `perdure show`, beside a runtime that works and without one; and what a command ends with."""

from __future__ import annotations

import asyncio
import functools
import http.server
import io
import socket
import sys
import threading
from pathlib import Path
from typing import ClassVar

import pytest

from perdure.cli import main
from perdure.cli.inspect import all_events
from perdure.embedded.runtime import open_runtime
from perdure.testing.processes import finished, pending
from tests.unit.cli import talkers


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


async def test_a_session_can_be_looked_at_while_another_program_works_on_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = str(tmp_path / "s.db")
    async with open_runtime(database, agents=[talkers.agent]) as runtime:
        await runtime.session("s-1").send("wipe disk")
        await pending(runtime.session("s-1"))

        listed = await asyncio.to_thread(run, capsys, "sessions", "--db", database)
        shown = await asyncio.to_thread(run, capsys, "show", "s-1", "--db", database)

    assert listed[0] == shown[0] == 0
    assert listed[1].split()[0] == "s-1"
    assert "running_tools (approval)" in listed[1]
    assert "waits for an approval of wipe (call-2-0)" in shown[1]
    assert "approval: A person has to approve or reject wipe. [call-2-0]\n" in shown[1]
    assert '  arguments: {"what": "disk"}\n  ended by a person who may approve\n' in shown[1]
    assert "  reject: POST /v1/sessions/s-1/interrupts/call-2-0 " in shown[1]
    assert "blocked" not in shown[1]  # whoever looks into the file knows no agents, and says nothing of them
    assert talkers.wiped == []


async def test_the_title_of_a_session_stands_in_the_list_and_beside_its_id(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = str(tmp_path / "s.db")
    async with open_runtime(database, agents=[talkers.agent]) as runtime:
        session = runtime.session("s-1")
        await session.send("hello")
        await finished(session, turns=1)
        await session.rename("A word of welcome")

        listed = await asyncio.to_thread(run, capsys, "sessions", "--db", database)
        shown = await asyncio.to_thread(run, capsys, "show", "s-1", "--db", database)

    assert listed[1].endswith("A word of welcome\n")
    assert "session s-1 (A word of welcome) · agent " in shown[1]


async def test_a_database_that_a_server_uses_is_told_with_the_way_to_talk_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    database = str(tmp_path / "s.db")
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    async with open_runtime(database, agents=[talkers.agent]):
        code, _, complaint = await asyncio.to_thread(
            run, capsys, "chat", "--db", database, "--agents", "tests.unit.cli.talkers:agent"
        )

    assert code == 2
    assert "is in use by process" in complaint
    assert "`--url`" in complaint


async def test_a_long_history_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = str(tmp_path / "s.db")
    async with open_runtime(database, agents=[talkers.agent]) as runtime:
        session = runtime.session("s-1")
        for turn in range(1, 6):
            await session.send(f"message {turn}")
            await finished(session, turns=turn)

        # The page size is lowered, so that a history of several pages is made in no time.
        monkeypatch.setattr(session, "event_page", functools.partial(session.event_page, limit=7))
        events = await all_events(session)

    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert [event["type"] for event in events].count("turn_completed") == 5


def test_before_the_first_session_the_way_to_one_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_DB", raising=False)

    code, output, _ = run(capsys, "sessions")

    assert (code, output) == (0, "no sessions yet: `perdure chat` starts one\n")
    assert list(tmp_path.iterdir()) == []


def test_a_session_that_was_never_written_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = str(tmp_path / "s.db")
    asyncio.run(opened(database))

    code, output, complaint = run(capsys, "show", "s-9", "--db", database)

    assert (code, output) == (1, "")
    assert "session s-9 was never written" in complaint


async def opened(database: str) -> None:
    async with open_runtime(database, agents=[talkers.agent]):
        pass


def test_a_server_that_does_not_answer_is_a_failure_and_no_mistake_of_the_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens here
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"

        code, _, complaint = run(capsys, "sessions", "--url", url)

    assert code == 1
    assert complaint.startswith(f"perdure: {url} gave no answer")
    assert "check that the server runs there" in complaint


class _Deployment(http.server.BaseHTTPRequestHandler):
    tokens: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.tokens.append(self.headers["authorization"])
        body = b'{"sessions": []}'
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize(("given", "sent"), [("t-1", "Bearer t-1"), ("", None)])
def test_a_deployed_stack_is_shown_the_token_of_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, given: str, sent: str | None
) -> None:
    monkeypatch.setenv("PERDURE_TOKEN", given)
    _Deployment.tokens.clear()
    with http.server.HTTPServer(("127.0.0.1", 0), _Deployment) as server:
        answering = threading.Thread(target=server.handle_request)
        answering.start()
        code, _, _ = run(capsys, "sessions", "--url", f"http://127.0.0.1:{server.server_port}")
        answering.join(timeout=10)

    assert code == 0
    assert _Deployment.tokens == [sent]


def test_a_url_that_is_none_is_a_mistake_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, complaint = run(capsys, "sessions", "--url", "somewhere")

    assert code == 2
    assert "it starts with http:// or https://" in complaint


def test_a_terminal_that_knows_fewer_characters_gets_escapes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    database = str(tmp_path / "s.db")
    asyncio.run(said("größe", database))
    monkeypatch.setattr(sys, "stdout", narrow)

    code = main(["show", "s-1", "--db", database])

    narrow.flush()
    assert code == 0
    assert b"you: gr\\xf6\\xdfe" in narrow.buffer.getvalue()


async def said(text: str, database: str) -> None:
    async with open_runtime(database, agents=[talkers.agent]) as runtime:
        await runtime.session("s-1").send(text)
        await finished(runtime.session("s-1"))
