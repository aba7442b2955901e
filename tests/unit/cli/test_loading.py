"""Finding the agents that a command line names, and saying what is wrong with them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.cli.loading import database_file, load_agents, load_sinks, load_webhooks
from perdure.errors import ConfigurationError

ONE = "from perdure import AgentDefinition\nfrom perdure.models import ScriptedModel\n"
AGENT = "AgentDefinition(name='a', model=ScriptedModel(lambda _: 'hi'))"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize("found", [AGENT, f"[{AGENT}]", f"({AGENT},)"], ids=["one", "list", "tuple"])
def test_a_module_holds_one_agent_or_several(folder: Path, found: str) -> None:
    (folder / "held.py").write_text(f"{ONE}found = {found}\n")

    assert [agent.name for agent in load_agents("held:found")] == ["a"]


def test_a_module_may_be_in_a_package(folder: Path) -> None:
    (folder / "shop").mkdir()
    (folder / "shop" / "held.py").write_text(f"{ONE}found = {AGENT}\n")

    assert [agent.name for agent in load_agents("shop.held:found")] == ["a"]


BROKEN = {
    "no-such-module": ("", "elsewhere:found", "there is no module 'elsewhere'; it is looked for in the working dir"),
    "no-such-package": ("", "elsewhere.held:found", "there is no module 'elsewhere'"),
    "something-it-needs": ("import not_there", "held:found", "held needs a module 'not_there', which is not there"),
    "syntax": ("\n\nx = (", "held:found", "held.py, line 3)"),
    "it-raises": ("\nint('x')", "held:found", "failed: ValueError: invalid literal for int() with base 10: 'x'"),
    "where-it-raises": ("\nint('x')", "held:found", "held.py, line 2)"),
    "it-exits": ("raise SystemExit(3)", "held:found", "ended the program (exit code 3)"),
    "no-such-name": ("", "held:found", "module held has no 'found'"),
    "something-else": ("found = 7", "held:found", "must be an AgentDefinition or a list of them, not 7"),
    "text": ("found = 'agent'", "held:found", "must be an AgentDefinition or a list of them"),
    "no-colon": ("", "held", "must be MODULE:NAME"),
    "no-name": ("", "held:", "must be MODULE:NAME"),
    "no-module": ("", ":found", "must be MODULE:NAME"),
}


@pytest.mark.parametrize(("source", "spec", "complaint"), BROKEN.values(), ids=BROKEN)
def test_what_is_wrong_with_the_agents_is_told(folder: Path, source: str, spec: str, complaint: str) -> None:
    (folder / "held.py").write_text(source)

    with pytest.raises(ConfigurationError) as caught:
        load_agents(spec)

    assert repr(spec) in caught.value.message
    assert complaint in caught.value.message


def test_webhooks_stand_beside_the_agents(folder: Path) -> None:
    hook = "from perdure.webhooks import Webhook\nwebhooks = [Webhook(name='shop', secret_env='S', handler=dict)]\n"
    (folder / "hooked.py").write_text(hook)
    (folder / "plain.py").write_text("")
    (folder / "wrong.py").write_text("webhooks = ['shop']\n")

    assert [webhook.name for webhook in load_webhooks("hooked:found")] == ["shop"]
    assert load_webhooks("plain:found") == []
    with pytest.raises(ConfigurationError, match="must be a list of Webhook"):
        load_webhooks("wrong:found")


def test_sinks_stand_beside_the_agents(folder: Path) -> None:
    (folder / "sunk.py").write_text("from perdure import EventSink\nsinks = [EventSink('audit', print)]\n")
    (folder / "unsunk.py").write_text("sinks = [print]\n")

    assert [sink.name for sink in load_sinks("sunk:found")] == ["audit"]
    with pytest.raises(ConfigurationError, match="must be a list of EventSink"):
        load_sinks("unsunk:found")


def test_the_folder_of_the_default_database_is_made_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert database_file(".perdure/sessions.db") == ".perdure/sessions.db"
    assert database_file("elsewhere/sessions.db") == "elsewhere/sessions.db"

    assert [path.name for path in tmp_path.iterdir()] == [".perdure"]
