"""Import times: fresh processes with warm bytecode, the best of five, taken in turns (design §9).

CPU time beside the clock's, because a busy machine stretches the clock. The bytecode is in a folder of its own: a
`PYTHONDONTWRITEBYTECODE` in the environment would have each run compile everything again, which more than doubles it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RUNS = 5
ROOT = Path(__file__).parent.parent
AS_BUILT = tuple(str(ROOT / folder) for folder in ("functions/run_model", "layers/agents", "layers/runtime"))
"""Where a container of `run_model` finds what is ours."""


@dataclass(frozen=True)
class Case:
    """What is timed, and what is imported before that. `bytecode=False`: as where nobody has compiled it."""

    timed: str
    before: str = "pass"
    bytecode: bool = True


_AGENTS = "from perdure.aws.bootstrap import load_agents; load_agents('agents:agents')"

CASES = {
    "perdure": Case("import perdure"),
    "perdure.open": Case("from perdure import open"),
    "boto3 + pydantic": Case("import boto3, pydantic"),
    "run_model, after boto3 + pydantic": Case("import app", before="import boto3, pydantic"),
    "the example's agents, after run_model": Case(_AGENTS, before="import boto3, pydantic, app"),
    "all of it": Case(f"import boto3, pydantic, app; {_AGENTS}"),
    "all of it, without bytecode": Case(f"import boto3, pydantic, app; {_AGENTS}", bytecode=False),
}
_TIMER = """
import time
{before}
cpu, clock = time.process_time(), time.perf_counter()
{timed}
print((time.process_time() - cpu) * 1000, (time.perf_counter() - clock) * 1000)
"""


def measure() -> dict[str, Any]:
    """Return milliseconds by what is imported: CPU time and the clock's, each the best of all runs."""
    with tempfile.TemporaryDirectory() as folder:
        rounds = [{name: _run(case, Path(folder)) for name, case in CASES.items()} for _ in range(RUNS + 1)]
    return {
        name: {
            "cpu_ms": round(min(times[name][0] for times in rounds[1:]), 1),  # the first round compiles
            "wall_ms": round(min(times[name][1] for times in rounds[1:]), 1),
        }
        for name in CASES
    }


def _run(case: Case, folder: Path) -> tuple[float, float]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {
        "PYTHONPATH": os.pathsep.join(AS_BUILT),
        "PYTHONPYCACHEPREFIX": str(folder / ("warm" if case.bytecode else "none")),
    }
    if not case.bytecode:
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    program = _TIMER.format(before=case.before, timed=case.timed)
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    cpu, clock = done.stdout.split()
    return float(cpu), float(clock)
