"""Every sample event, handed to the handler that was built: artifacts only, apart from moto and the machine code."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tests.build.cloudformation import ROOT, Template
from tests.build.test_artifacts import environment, stand_ins
from tests.handlers.test_events import FUNCTIONS

__all__ = ["environment", "stand_ins"]

pytestmark = pytest.mark.build

ANSWERED: dict[str, Any] = {"batchItemFailures": []}


@pytest.fixture(scope="module")
def fed(built: Path, stand_ins: Path, environment: dict[str, str]) -> dict[str, Any]:
    layers = [str(built / name / "python") for name in ("RuntimeLayer", "DependenciesLayer", "AgentsLayer")]
    moto = sysconfig.get_paths()["purelib"]
    code = f"import sys; sys.path[:0] = {[str(stand_ins), *layers]!r}; sys.path.append({moto!r}); "
    script = ROOT / "tests" / "build" / "feed_events.py"
    code += f"sys.argv = ['feed', {str(built)!r}, {str(ROOT / 'events')!r}]; "
    code += f"exec(compile({script.read_text(encoding='utf-8')!r}, {script.name!r}, 'exec'))"
    settings = {name: value for name, value in environment.items() if name != "OPENAI_BASE_URL"}  # no model server
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}

    # -S and -P: only what is named above is on the path.
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-B", "-c", code],
        env=settings | keys,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_what_ran_is_what_was_built(fed: dict[str, Any], built: Path) -> None:
    assert {name: path for name, path in fed["came_from"].items() if not path.startswith(str(built))} == {}


def test_every_event_was_fed_to_its_own_function(fed: dict[str, Any], template: Template) -> None:
    assert set(fed["answers"]) == set(FUNCTIONS)


def test_every_message_was_taken_and_every_request_answered(fed: dict[str, Any]) -> None:
    answers = fed["answers"]
    steps = ("run-model", "call-tool", "call-single-attempt-tool", "poll-tool-task", "cancel-tool-task")
    others = ("fire-timer", "record-dead-letter", "deliver-notices")

    assert [answers[name] for name in (*steps, *others)] == [ANSWERED] * 8
    assert {name: answer["statusCode"] for name, answer in answers.items() if name.startswith("api-")} == {
        "api-health": 200,
        "api-send-input": 202,
        "api-read-session": 200,
        "api-resolve-interrupt": 404,
        "api-socket-ticket": 200,
    }
    assert answers["sweep"] == {"sessions": 0}
    assert answers["relay-commits"] == {"messages": 0}, "the agents that are built have no sinks"
    assert answers["authorize-stream"] == {"errorMessage": "Unauthorized"}
    assert answers["stream-events"]["statusCode"] == 401, "the token of the example has ended"
    assert answers["socket-authorize"]["policyDocument"]["Statement"][0]["Effect"] == "Deny"
    assert answers["socket-attach"] == {"statusCode": 200}
    assert json.loads(answers["socket-ping"]["body"]) == {"type": "pong"}
    assert [answers[f"socket-{name}"] for name in ("connect", "disconnect")] == [{"statusCode": 200}] * 2


def test_the_events_of_the_conversation_made_that_conversation(fed: dict[str, Any]) -> None:
    body = json.loads(fed["answers"]["api-read-session"]["body"])

    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool"]
