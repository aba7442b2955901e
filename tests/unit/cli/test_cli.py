"""The command line, run in this process: talking, deciding, coming back, looking (spec DEV-04)."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.cli import main

AGENTS = '''
from pathlib import Path

from perdure import AgentDefinition, function_tool
from perdure.models import ScriptedModel
from perdure.models.scripted import Reply, call, tool_results, user_texts


@function_tool(effect="non_idempotent_write")
def wipe(what: str) -> str:
    """Wipe."""
    with Path("wiped.txt").open("a") as books:
        books.write(what + "\\n")
    return "wiped"


def reply(request):
    if results := tool_results(request):
        return f"the tool said: {results[-1].status}"
    wish = user_texts(request)[-1]
    return Reply(calls=(call("wipe", what=wish),)) if wish.startswith("wipe") else f"you said: {wish}"


agents = AgentDefinition(name="desk", model=ScriptedModel(reply), tools=[wipe])
'''

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return what runs one command in a folder with an agents module, with lines to read, and gives code and output."""
    (tmp_path / "desk_agents.py").write_text(AGENTS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "desk_agents", raising=False)
    monkeypatch.setenv("PERDURE_AGENTS", "desk_agents:agents")
    monkeypatch.setenv("PERDURE_DB", str(tmp_path / "sessions.db"))

    def command(*arguments: str, says: str = "") -> tuple[int, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(says))
        try:
            code = main(arguments)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return command


def wiped() -> list[str]:
    books = Path("wiped.txt")
    return books.read_text(encoding="utf-8").splitlines() if books.exists() else []


def test_a_conversation_is_held_in_the_terminal_and_gone_on_with_later(run: Run) -> None:
    first = run("chat", "case-1", says="hello\n/quit\n")
    second = run("chat", "case-1", says="again\n")

    assert first[0] == second[0] == 0
    assert "you said: hello" in first[1]
    assert "perdure chat case-1" in first[1]
    assert "you: hello" in second[1]
    assert second[1].index("you said: hello") < second[1].index("you said: again")


def test_a_person_approves_in_the_terminal(run: Run) -> None:
    _, output = run("chat", "case-1", says="wipe disk\ny\n")

    assert 'approve wipe {"what": "wipe disk"}?' in output
    assert "the tool said: succeeded" in output
    assert wiped() == ["wipe disk"]


def test_a_person_rejects_with_a_reason_and_nothing_runs(run: Run) -> None:
    _, output = run("chat", "case-1", says="wipe disk\nnot today\n")
    shown = run("show", "case-1")[1]

    assert "the tool said: rejected" in output
    assert "They wrote: not today" in shown
    assert wiped() == []


def test_an_approval_that_was_left_open_is_asked_for_again(run: Run) -> None:
    left = run("chat", "case-1", says="wipe disk\n")
    listed = run("sessions")[1]
    back = run("chat", "case-1", says="y\n")

    assert "left open: it waits for you" in left[1]
    assert "running_tools (approval)" in listed
    assert "the tool said: succeeded" in back[1]
    assert wiped() == ["wipe disk"]


def test_sessions_are_listed_and_one_is_shown_without_being_changed(run: Run) -> None:
    run("chat", "case-1", says="hello\n")
    run("chat", "case-2", says="goodbye\n")

    listed = run("sessions")[1].splitlines()
    shown = run("show", "case-1")
    again = run("show", "case-1")

    assert [line.split()[0] for line in listed] == ["case-2", "case-1"]
    assert "you: hello" in shown[1]
    assert "timeline" in shown[1]
    assert shown == again
    assert shown[0] == 0


def test_sessions_are_searched_by_what_they_say_wait_for_and_do(run: Run) -> None:
    run("chat", "case-1", says="Hello\n")
    run("chat", "case-2", says="wipe disk\n")

    def ids(*search: str) -> list[str]:
        code, output = run("sessions", *search)
        assert code == 0
        return [line.split()[0] for line in output.splitlines()]

    assert ids("--query", "hello") == ["case-1"]
    assert ids("--waiting-for", "approval") == ids("--status", "active") == ["case-2"]
    assert ids("--query", "case", "--status", "waiting_for_user_message") == ["case-1"]
    assert run("sessions", "--query", "goodbye") == (0, "no session is like that\n")
    assert run("sessions", "--waiting-for", "godot")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("chat", "--agents", "nowhere:agents"), "there is no module 'nowhere'"),
        (("chat", "--agents", "desk_agents"), "must be MODULE:NAME"),
        (("chat", "--agents", "desk_agents:nobody"), "has no 'nobody'"),
        (("chat", "--agents", "desk_agents:reply"), "must be an AgentDefinition or a list"),
        (("sessions",), "sessions.db"),
        (("dev", "--port", "99999"), "is no port"),
        (("fly",), "invalid choice"),
    ],
    ids=["module", "form", "attribute", "kind", "no-database", "port", "command"],
)
def test_a_wrong_command_line_is_told_what_is_wrong_and_ends_with_2(
    run: Run, arguments: tuple[str, ...], complaint: str
) -> None:
    code, output = run(*arguments)

    assert code == 2
    assert complaint in output
    assert "Traceback" not in output


def test_what_a_model_says_can_not_move_the_cursor(run: Run) -> None:
    _, output = run("chat", "case-1", says="a\x1b[2Jb\n")

    assert "\x1b" not in output
    assert "a\\x1b[2Jb" in output
