"""`perdure chat` and its sessions: a new one by default, others to pick, and what comes by itself (TUI-01, TUI-02)."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from perdure.cli import main
from perdure.cli.picking import lines_of_palette, palette_of, picked_command, picked_session
from perdure.embedded.runtime import open_runtime
from tests.unit.cli import talkers
from tests.unit.cli.terminal import Person, at_a_terminal
from tests.unit.cli.test_chat_terminal import a_server


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


def sessions_of(person: Person) -> list[str]:
    """Return the sessions that were begun or gone on with, in order."""
    return re.findall(r"session ((?!stays)\S+)\.(?: Type|\n)", person.screen)


async def has_talked(database: Path, *session_ids: str) -> None:
    async with open_runtime(database, agents=[talkers.agent]) as runtime:
        for session_id in session_ids:
            await runtime.session(session_id).run(f"hello from {session_id}").result()


async def test_a_conversation_is_a_new_one_unless_one_is_named(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    await has_talked(database, "old")
    for _ in range(2):
        async with at_a_terminal(monkeypatch, database, session=None) as person:
            await person.sees("> ")
            (session_id,) = sessions_of(person)
            assert re.fullmatch(r"chat-[0-9a-f]{8}", session_id)
            assert "hello" not in person.screen
            person.ends_the_input()
            assert await person.has_left() == 0
        assert f"come back with: perdure chat {session_id}" in person.screen


async def test_the_last_session_is_gone_on_with_when_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    async with at_a_terminal(monkeypatch, database, session=None, resume=True) as person:
        await person.sees("there is no session to go on with yet: this is a new one")
    await has_talked(database, "older", "newer")

    async with at_a_terminal(monkeypatch, database, session=None, resume=True) as person:
        await person.sees("you said: hello from newer")

        assert sessions_of(person) == ["newer"]


async def test_another_conversation_is_begun_and_the_old_one_stays_and_is_picked_again(
    monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    async with at_a_terminal(monkeypatch, database, session="first") as person:
        await person.sees("> ")
        person.types("one")
        await person.sees("you said: one\n> ")
        person.types("/clear")
        await person.sees("> ")
        person.types("two")
        await person.sees("you said: two\n> ")

        person.types("/resume")
        await person.sees("1. ")
        await person.sees(" (this one)  you said: two\n")
        await person.sees("2. first  you said: one\n")
        person.types("2")
        await person.sees("you: one\nagent: you said: one\n> ")

        first, second, third = sessions_of(person)
        assert (first, third) == ("first", "first")
        assert second not in ("first", "s-1")
        person.types(f"/resume {second}")
        await person.sees("you: two\n")


async def test_a_picker_searches_stays_and_refuses(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    await has_talked(database, "pear", "apple")
    async with at_a_terminal(monkeypatch, database, session="pear") as person:
        await person.sees("> ")
        person.types("/sessions APP")
        await person.sees("1. apple  you said: hello from apple\n")
        await person.sees("a number, an id, or Enter to stay here: ")
        person.types("")
        await person.sees("> ")
        person.types("/sessions plum")
        await person.sees("(there is no session like that)\n> ")
        person.types("/sessions")
        await person.sees("stay here: ")
        person.types("7")
        await person.sees("(that is neither a number of the list nor an id)\n> ")
        person.types("/sessions")
        await person.sees("stay here: ")
        person.interrupts()
        await person.sees("> ")

        assert sessions_of(person) == ["pear"]
        person.types("still here")
        await person.sees("you said: still here")


async def test_a_session_that_waits_says_for_what_in_the_list(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    async with at_a_terminal(monkeypatch, database, session="waits") as person:
        await person.sees("> ")
        person.types("wipe disk")
        await person.sees("no with a reason: ")
        person.types("/clear")
        await person.sees("> ")
        person.types("/sessions")
        await person.sees("1. waits [approval]  wipe disk\n")
        person.types("1")

        await person.sees('approve wipe {"what": "disk"}?')
        assert talkers.wiped == []


async def test_a_turn_that_somebody_else_begins_is_shown_at_an_idle_prompt(
    monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    async with a_server(database) as (url, elsewhere), at_a_terminal(monkeypatch, database, url=url) as person:
        await person.sees("> ")
        await elsewhere.send("from elsewhere")
        await person.sees("you: from elsewhere\nagent: you said: from elsewhere\n> ")

        await elsewhere.append("by a job", event_id="e-1", source="webhook")
        await person.sees("webhook: by a job\nagent: you said: by a job\n> ")
        person.types("mine")
        await person.sees("agent: you said: mine\n> ")

        assert person.screen.count("mine") == 1
        assert person.screen.count("you said: from elsewhere") == 1


async def test_an_approval_that_comes_by_itself_is_asked_for(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    async with a_server(database) as (url, elsewhere), at_a_terminal(monkeypatch, database, url=url) as person:
        await person.sees("> ")
        await elsewhere.send("wipe disk")
        await person.sees("no with a reason: ")
        person.types("y")
        await person.sees("the tool said: wiped\n> ")

        assert talkers.wiped == ["disk"]


async def test_a_message_under_a_key_of_the_persons_own_is_sent_once(
    monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("/send k-1 hello there")
        await person.sees("you said: hello there\n> ")
        person.types("/send k-1 hello there")
        await person.sees("(accepted before, as message-1-0: nothing new was sent)\n> ")
        person.types("/send k-1 something else")
        await person.sees("not accepted: ")
        person.types("/send k-2")
        await person.sees("/send needs a key of yours and a message")


async def test_interrupt_alone_stops_the_turn_that_runs(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("slowly")
        await person.sees("agent: you said")
        person.types("/interrupt")
        await person.sees("(stopped)\n> ")


async def test_the_status_says_what_the_session_does_waits_for_and_has_used(
    monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("/status")
        await person.sees("session s-1: nothing was said yet\n> ")
        person.types("hello")
        await person.sees("you said: hello\n> ")
        person.types("/status")
        await person.sees(" · waiting_for_user_message · 1 turn so far\n")
        person.types("wipe disk")
        await person.sees("no with a reason: ")
        person.types("/status")

        await person.sees("session s-1 · agent desk · running_tools · turn-2\n  waits for approval call-")
        await person.sees("2 model calls")


async def test_a_command_is_picked_from_the_palette(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("/sta\t")
        await person.sees("1. /status")
        await person.sees("Enter for none: ")
        person.types("1")
        await person.sees("nothing was said yet\n> ")
        person.types("/")
        await person.sees("Enter for none: ")
        person.types("passive")
        await person.sees("/passive ")
        person.types("by the way")
        await person.sees("(it goes with the next message")
        person.types("/")
        await person.sees("Enter for none: ")
        person.types("hello")
        await person.sees("(that is neither a number of the list nor a name in it)\n> ")
        person.types("/")
        await person.sees("Enter for none: ")
        person.types("quit")

        assert await person.has_left() == 0
        assert "you said" not in person.screen


async def test_a_palette_at_a_question_decides_nothing_unless_what_is_picked_does(
    monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("wipe disk")
        await person.sees("no with a reason: ")
        person.types("/")
        await person.sees("Enter for none: ")
        person.types("")
        await person.sees("no with a reason: ")
        person.types("/dec\t")
        await person.sees("1. /decline")
        person.types("1 not today")
        await person.sees("the tool said: ")

        assert "not today" in person.screen
        assert talkers.wiped == []


def test_a_palette_is_asked_for_with_a_slash_alone_or_a_tab_and_any_other_text_is_none() -> None:
    assert palette_of("/pa\t") == ["passive", "pause"]
    assert palette_of("/zz\t") == []
    assert palette_of(" / ") is not None
    assert [palette_of(text) for text in ("/pause", "/etc/hosts\thello", "hello\t", "/pa x\t", "")] == [None] * 5
    assert picked_command("2", ["passive", "pause"]) == picked_command("/pause", ["passive", "pause"]) == "pause"
    assert picked_command("3", ["passive", "pause"]) is None
    assert all(re.search(r"\d+\. /\S+ +\S", line) for line in lines_of_palette(palette_of("/") or []))


def test_a_number_of_the_list_means_its_session_and_any_id_itself() -> None:
    rows = [{"session_id": "a"}, {"session_id": "b"}]

    assert [picked_session(words, rows) for words in ("2", "c", "3", "0", "a b", "²")] == [
        "b",
        "c",
        None,
        None,
        None,
        None,
    ]


def through_a_pipe(monkeypatch: pytest.MonkeyPatch, database: Path, says: str, *more: str) -> int:
    monkeypatch.setattr(sys, "stdin", io.StringIO(says))
    agents = "tests.unit.cli.askers:agent"
    return main(["chat", *more, "--db", str(database), "--agents", agents])


def test_a_pipe_is_read_on_while_a_timer_runs(
    monkeypatch: pytest.MonkeyPatch, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert through_a_pipe(monkeypatch, database, "sleep\n/waits\n/skip\n", "s-1") == 0

    shown = capsys.readouterr().out
    assert "(skipped)" in shown
    assert "agent: I heard: " in shown
    assert shown.index("(waits until") < shown.index("/waits") < shown.index("(skipped)")


def test_a_session_that_can_not_be_and_two_at_once_are_refused(
    monkeypatch: pytest.MonkeyPatch, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert through_a_pipe(monkeypatch, database, "", "s-1", "--resume") == 2
    assert through_a_pipe(monkeypatch, database, "", "s/1") == 2
    assert through_a_pipe(monkeypatch, database, "hi\n", "--agent", "nobody") == 0

    captured = capsys.readouterr()
    assert "name a session, or take the last one with --resume; not both" in captured.err
    assert "agent 'nobody' is not part of this deployment: use 'asker'" in captured.out
