"""`perdure` names what users write agents with, and loads it when it is used."""

import subprocess
import sys

import pytest

import perdure


@pytest.mark.parametrize(
    "name",
    [
        *("AgentDefinition", "InboxSettings", "ReconnectPolicy", "ToolContext", "ToolExecutionError", "ToolPolicy"),
        *("Actor", "Caller", "function_tool"),
        *("ToolInputRequested", "ToolTask", "TaskPending", "DidNotHappenError", "EventTimeoutError", "UnsettledError"),
        *("Answer", "Occurrence", "ScheduleRetryError", "ScheduleEndedError"),
    ],
)
def test_what_an_agent_is_written_with_is_there(name: str) -> None:
    assert getattr(perdure, name).__name__ == name


def test_every_export_has_a_home() -> None:
    assert set(perdure._HOMES) | {"__version__"} == set(perdure.__all__)
    assert set(perdure.__all__) <= set(dir(perdure))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = perdure.nothing


def test_pydantic_is_loaded_by_the_first_tool_and_not_before() -> None:
    script = """
import sys, perdure
perdure.AgentDefinition, perdure.ToolPolicy
print("pydantic" in sys.modules)
x = perdure.function_tool(name="ping")(lambda: "")
print("pydantic" in sys.modules)
"""

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["False", "True"]
