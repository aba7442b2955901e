"""The commands of `perdure chat`, typed at a terminal while a turn runs, waits, or has failed."""

import asyncio
from pathlib import Path

import pytest

from perdure.cli import main
from perdure.cli.commands import command_of
from tests.unit.cli import talkers
from tests.unit.cli.terminal import Person, at_a_terminal


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


async def slow_turn(person: Person) -> None:
    """Have a turn run that streams its first words and then waits for the gate."""
    await person.sees("> ")
    person.types("slowly")
    await person.sees("agent: you said")


async def does(person: Person, line: str, answer: str) -> None:
    person.types(line)
    await person.sees(answer)


@pytest.mark.parametrize("text", ["/usr/bin is full", "/steering", "/", "hello /stop", "// stop", "/Stop"])
def test_text_with_a_slash_that_is_no_command_is_a_message(text: str) -> None:
    """Spec TUI-02."""
    assert command_of(text) is None


def test_the_words_behind_a_command_are_its_own() -> None:
    assert command_of("  /edit 2 a new  text ") == ("edit", "2 a new  text")
    assert command_of("/stop") == ("stop", "")


async def test_a_message_typed_while_a_turn_runs_waits_and_is_changed_and_taken_back(
    monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await slow_turn(person)
        await does(person, "first", "(queued)")
        await does(person, "second", "(queued)")
        await does(person, "/edit 1 third", "(changed)")
        await does(person, "/inbox", "  1. third\n  2. second\n")
        await does(person, "/recall 2", "(taken back: second)")
        await does(person, "/recall 9", "not accepted: ")
        await does(person, "/edit 1", "/edit needs the number")

        talkers.gate.opened.set()

        await person.sees("agent: you said: third\n> ")
        assert "you said: second" not in person.screen


async def test_a_turn_is_steered(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("wipe disk")
        await person.sees("[y]es, [n]o, or no with a reason: ")

        person.types("/steer never mind, hello")

        await person.sees("(steered)")
        await person.sees("agent: you said: never mind, hello\n> ")
        assert talkers.wiped == []


async def test_a_message_stops_the_turn_and_what_was_seen_is_kept(
    monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await slow_turn(person)

        person.types("/now hello")

        await person.sees("(interrupted: what you saw is kept)")
        await person.sees("agent: you said: hello\n> ")


async def test_what_waits_is_put_in_another_order_and_delivered_in_another_way(
    monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await slow_turn(person)
        for text in ("first", "second", "third"):
            await does(person, text, "(queued)")
        await does(person, "/move 3 1", "(moved)")
        await does(person, "/move 2 9", "(moved)")
        await does(person, "/inbox", "  1. third\n  2. second\n  3. first\n")
        await does(person, "/deliver 2 passive", "(it goes with the next message)")
        await does(person, "/inbox", "  1. third\n  2. first\n  3. second (passive)\n")
        await does(person, "/move 1", "/move needs the number")
        await does(person, "/deliver 1", "/deliver needs the number")
        await does(person, "/deliver 1 shout", "not accepted: ")

        await does(person, "/deliver 2 now", "(stopping, for this)")

        await person.sees("agent: you said: first")
        await person.sees("agent: you said: third\n> ")


async def test_a_held_message_is_delivered_in_another_way(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("break")
        await person.sees("held behind")
        await does(person, "hello", "(queued; held")
        await does(person, "/deliver 1 passive", "(it goes with the next message)\n> ")

        person.types("/deliver 1 now")

        await person.sees("agent: you said: hello\n> ")


@pytest.mark.parametrize(
    ("how", "said", "inbox"),
    [
        ("interrupt", "(stopping; this keeps its place)", "first"),
        ("supersede", "(stopping, for this; no later prompt has the answer)", "instead"),
    ],
)
async def test_a_message_stops_the_turn_and_goes_before_or_behind_what_waits(
    monkeypatch: pytest.MonkeyPatch, database: Path, how: str, said: str, inbox: str
) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await slow_turn(person)
        await does(person, "first", "(queued)")
        await does(person, "/passive by the way", "(it goes with the next message)")

        await does(person, f"/{how} instead", said)

        await person.sees(f"agent: you said: {inbox}")
        await person.sees("> ")


async def test_what_is_injected_says_what_becomes_of_it(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await slow_turn(person)

        await does(person, "/inject be brief", "(it joins the turn at its next step)")
        talkers.gate.opened.set()

        await person.sees("agent: you said: be brief\n> ")


async def test_a_failed_turn_holds_what_comes_until_it_is_retried(
    monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("break")
        await person.sees("the turn failed: provider: no such model")
        await person.sees("(held behind the failed turn: /retry runs it again, /dismiss gives it up)\n> ")
        await does(person, "hello", "(queued; held behind the failed turn: /retry runs it again, /dismiss gives it up)")
        talkers.mended.append("break")

        person.types("/retry")

        await person.sees("agent: you said: break")
        await person.sees("agent: you said: hello\n> ")


async def test_a_failed_turn_is_dismissed(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        await does(person, "/dismiss", "(nothing is held back)")
        person.types("break")
        await person.sees("held behind")
        await does(person, "hello", "(queued; held")

        await does(person, "/dismiss", "(let go; the next message goes on)")

        await person.sees("agent: you said: hello\n> ")


async def test_a_stop_at_the_prompt_lets_a_failed_turn_go_and_shows_what_goes_on(
    monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("break")
        await person.sees("held behind")
        await does(person, "hello", "(queued; held")

        await does(person, "/stop", "(let go; the next message goes on)")

        await person.sees("agent: you said: hello\n> ")
        await does(person, "/stop", "(nothing runs)")


async def test_who_comes_back_to_a_blocked_session_is_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("fail")
        await person.sees("the turn failed: ")
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("(the model's account has no credit left: mend that and send anything, /retry, or /dismiss")


async def test_a_long_wait_for_the_model_is_told_and_cut_short(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("wait")
        await person.sees("(no whole answer: rate_limited; asking again in 25 s, at ")
        await person.sees("UTC: /retry asks now, /stop gives up)")
        talkers.mended.append("wait")

        person.types("/retry")

        await person.sees("agent: you said: wait\n> ")


async def test_giving_up_a_wait_ends_the_turn(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("wait")
        await person.sees("/stop gives up)")

        person.types("/stop")

        await person.sees("(stopped)\n> ")


async def test_a_paused_session_takes_messages_and_begins_them_when_it_is_resumed(
    monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("hi")
        await person.sees("agent: you said: hi\n> ")
        await does(person, "/pause", "(paused: what runs finishes, nothing new begins until /resume)")
        await does(person, "hello", "(queued; paused: /resume lets it go on)")

        person.types("/resume")

        await person.sees("agent: you said: hello\n> ")


async def test_settings_are_shown_and_replaced(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("hi")
        await person.sees("agent: you said: hi\n> ")
        await does(person, "/settings", "({})")
        await does(
            person,
            '/settings {"approval_mode": "deny_all"}',
            "(set, from the next turn on; `approval_mode` from the next call on)",
        )
        await does(person, "/settings", '({"approval_mode": "deny_all"})')
        await does(person, "/settings [1]", "(settings are a JSON object")
        await does(person, "/settings {", "(this is no JSON: ")
        await does(person, '/settings {"approval_mode": "maybe"}', "not accepted: ")


async def test_help_lists_every_command(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        await does(person, "/help", "/quit")
        await does(person, "/steer", "(/steer needs something behind it: /help)")


async def test_a_command_that_there_is_not_decides_no_approval(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("wipe disk")
        await person.sees("[y]es, [n]o, or no with a reason: ")

        await does(person, "/aprove", "(there is no command /aprove: /help)")
        await person.sees("[y]es, [n]o, or no with a reason: ")
        person.types("y")

        await person.sees("agent: the tool said: wiped\n> ")


async def test_a_session_is_given_a_title_which_every_list_shows(
    monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        await does(person, "/title too early", "not accepted: ")
        await does(person, "hello", "agent: you said: hello\n> ")
        await does(person, "/title", "(no title yet: /title TEXT gives one)")
        await does(person, "/title  My  first one", "(called My first one)")
        await does(person, "/title", "(My first one)")
        await does(person, "/status", "session s-1 (My first one) · ")
        await does(person, f"/title {'x' * 201}", "not accepted: the title has 201 characters")
    await asyncio.to_thread(main, ["sessions", "--db", str(database)])
    assert person.screen.endswith("  My first one\n")
    await asyncio.to_thread(main, ["show", "s-1", "--db", str(database)])
    shown = person.screen.partition("\ntimeline\n")[2]

    assert "called My first one, by " in shown
    assert "session s-1 (My first one) · " in shown
