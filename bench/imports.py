"""Import times: fresh processes with warm bytecode, the best of five (design §9)."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

RUNS = 5
MODULES = {
    "perdure": "import perdure",
    "perdure.open": "from perdure import open",
    "run_model handler": "import perdure.aws.bootstrap, perdure.aws.handlers, perdure.steps.run_model",
    "boto3 + pydantic": "import boto3, pydantic",
}
_TIMER = "import time; begin = time.perf_counter(); {statement}; print((time.perf_counter() - begin) * 1000)"


def measure() -> dict[str, Any]:
    """Return milliseconds by what is imported."""
    return {name: _best(statement) for name, statement in MODULES.items()}


def _best(statement: str) -> float:
    program = _TIMER.format(statement=statement)
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        for _ in range(RUNS + 1)
    ]
    return round(min(float(run.stdout) for run in runs[1:]), 1)
