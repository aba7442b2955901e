"""Finding what a command line names: agents in a Python module, and a place for the database."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

from perdure.agents.definition import AgentDefinition
from perdure.cli import DEFAULT_DATABASE
from perdure.errors import ConfigurationError


def load_agents(spec: str) -> list[AgentDefinition]:
    """Return the agents that `module:attribute` names: one `AgentDefinition`, or a list of them.

    Raises:
        ConfigurationError: There is no such module or attribute, or it holds something else.
    """
    module_name, separator, attribute = spec.partition(":")
    if not separator or not module_name or not attribute:
        raise ConfigurationError(f"--agents {spec!r} must be MODULE:NAME, such as 'support.agents:agents'")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"--agents {spec!r}: there is no module {error.name!r}; it is looked for in the working directory "
            "and among the installed packages"
        ) from error
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(f"--agents {spec!r}: importing {module_name} failed: {error!r}") from error
    found = getattr(module, attribute, None)
    if found is None:
        raise ConfigurationError(f"--agents {spec!r}: module {module_name} has no {attribute!r}")
    agents = [found] if isinstance(found, AgentDefinition) else found
    if not isinstance(agents, Sequence) or not all(isinstance(agent, AgentDefinition) for agent in agents):
        raise ConfigurationError(f"--agents {spec!r} must be an AgentDefinition or a list of them, not {found!r:.80}")
    return list(agents)


def database_file(name: str) -> str:
    """Return the database's path; the folder of the default one is made."""
    if name == DEFAULT_DATABASE:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
    return name
