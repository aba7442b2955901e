"""Run the measurements: `python -m bench`, or those that are named, such as `python -m bench aws cost`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import aws, cost, embedded, embedded_growth, growth, imports, latency, live
from bench.workload import machine

PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "embedded": embedded.measure,
    "embedded_growth": embedded_growth.measure,
    "aws": aws.measure,
    "cost": cost.measure,
    "growth": growth.measure,
    "latency": latency.measure,
    "imports": imports.measure,
    "live": live.measure,
}
RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Measure, print, write."""
    names = sys.argv[1:] or list(PARTS)
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f"there is no measurement {unknown[0]!r}: use {', '.join(PARTS)}", file=sys.stderr)
        return 2
    RESULTS.mkdir(exist_ok=True)
    about = machine()
    print(f"{about['machine']}, Python {about['python']}, {about['versions']}")
    for name in names:
        results = PARTS[name]()
        text = json.dumps({**about, "results": results}, indent=2)
        (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        print(f"\n## {name}")
        _print_table(results)
    return 0


def _print_table(results: dict[str, Any]) -> None:
    rows = {name: row if isinstance(row, dict) else {"value": row} for name, row in results.items()}
    for name, row in rows.items():
        print(f"{name}")
        for figure, value in row.items():
            shown = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
            print(f"    {figure:24} {shown}")


if __name__ == "__main__":
    sys.exit(main())
