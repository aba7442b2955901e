"""Finding what a command line names: agents in a Python module, and a place for the database."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from perdure.agents.definition import AgentDefinition
from perdure.cli import DEFAULT_DATABASE
from perdure.errors import ConfigurationError
from perdure.sinks import EventSink
from perdure.webhooks import Webhook

T = TypeVar("T")


def load_agents(spec: str) -> list[AgentDefinition]:
    """Return the agents that `module:attribute` names: one `AgentDefinition`, or a list of them.

    Raises:
        ConfigurationError: There is no such module or attribute, or it holds something else.
    """
    module_name, separator, attribute = spec.partition(":")
    if not separator or not module_name or not attribute:
        raise ConfigurationError(f"--agents {spec!r} must be MODULE:NAME, such as 'support.agents:agents'")
    module = _import(module_name, spec)
    found = getattr(module, attribute, None)
    if found is None:
        raise ConfigurationError(f"--agents {spec!r}: module {module_name} has no {attribute!r}")
    agents = [found] if isinstance(found, AgentDefinition) else found
    if not isinstance(agents, Sequence) or not all(isinstance(agent, AgentDefinition) for agent in agents):
        raise ConfigurationError(f"--agents {spec!r} must be an AgentDefinition or a list of them, not {found!r:.80}")
    return list(agents)


def load_webhooks(spec: str) -> list[Webhook]:
    """Return the list `webhooks` that stands beside the agents in their module; none when there is none.

    Raises:
        ConfigurationError: It is something else.
    """
    return _beside("webhooks", Webhook, spec)


def load_sinks(spec: str) -> list[EventSink]:
    """Return the list `sinks` that stands beside the agents in their module; none when there is none.

    Raises:
        ConfigurationError: It is something else.
    """
    return _beside("sinks", EventSink, spec)


def _beside(name: str, kind: type[T], spec: str) -> list[T]:
    found = getattr(_import(spec.partition(":")[0], spec), name, [])
    if not isinstance(found, Sequence) or not all(isinstance(each, kind) for each in found):
        raise ConfigurationError(
            f"`{name}` beside --agents {spec!r} must be a list of {kind.__name__}, not {found!r:.80}"
        )
    return list(found)


def _import(name: str, spec: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ConfigurationError:
        raise
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name == missing or name.startswith(f"{missing}."):
            raise ConfigurationError(
                f"--agents {spec!r}: there is no module {missing!r}; it is looked for in the working directory "
                "and among the installed packages"
            ) from error
        raise ConfigurationError(
            f"--agents {spec!r}: {name} needs a module {missing!r}, which is not there: install it{_place(error, name)}"
        ) from error
    except SyntaxError as error:
        raise ConfigurationError(
            f"--agents {spec!r}: {error.msg} ({error.filename}, line {error.lineno}): mend that line"
        ) from error
    except SystemExit as error:
        raise ConfigurationError(
            f"--agents {spec!r}: importing {name} ended the program (exit code {error.code!r}): keep that behind "
            f"`if __name__ == '__main__'`{_place(error, name)}"
        ) from error
    except Exception as error:
        raise ConfigurationError(
            f"--agents {spec!r}: importing {name} failed: {type(error).__name__}: {error}{_place(error, name)}"
        ) from error


def _place(error: BaseException, module: str) -> str:
    """Return where in the module's own file an error came up, if it did there."""
    path = module.replace(".", "/")
    own = (f"/{path}.py", f"/{path}/__init__.py")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.endswith(own)]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


def tell_of_demo(agents: Sequence[AgentDefinition]) -> None:
    """Say on standard error that no real model answers, if so."""
    from perdure.agents.example import is_demo

    if any(is_demo(agent) for agent in agents):
        print("no model key is set: the example agent uses the scripted demo model", file=sys.stderr, flush=True)


def database_file(name: str) -> str:
    """Return the database's path; the folder of the default one is made."""
    if name == DEFAULT_DATABASE:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
    return name


def is_still_to_be_made(name: str) -> bool:
    """Whether this is the default database, and nothing has been started on it yet."""
    return name == DEFAULT_DATABASE and not Path(name).exists()
