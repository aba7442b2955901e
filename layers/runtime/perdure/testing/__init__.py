"""What tests of Perdure, ours and our users, are built with.

| module | for |
|---|---|
| `clock` | `VirtualClock`: time that a test moves, or that jumps ahead whenever nothing else can happen |
| `tools` | `tool_context`, `StepsInMemory`: call a tool without a runtime |
| `fixtures` | `open_stage`: all ports in one process; a test runs the steps one by one |
| `assertions` | `run_of`: called, succeeded, not called, completed; what went on instead |
| `history` | `step_history`, `shape`: the steps of a turn, read from its events |
| `gates` | `FileGate`, `InvocationLog`: stop another process at an exact point, count what its tools really did |
| `processes` | `WorkerProcess`: a killable worker; `poll_until`, `pending`, `decide`, `finished`: patience that ends |
| `worker` | the program that a `WorkerProcess` runs |
| `barriers` | `Race`: port calls of several workers, in an order that a test chooses |
| `conformance` | a pytest plugin: what the ports promise, for anybody's store, queue and timers |
| `simulation` | the whole runtime in virtual time, with faults at every call; `python -m perdure.testing.simulation` |
| `providers` | a model provider over HTTP, with faults |
| `recordings` | record what a model answered, and replay it |
| `moto`, `counting`, `lambda_harness`, `virtual_time` | AWS in one process: its calls counted, time moved by a test |
| `permissions` | what each Lambda function does on AWS, held against what its role allows |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.testing.tools import tool_context

__all__ = ["tool_context"]


def __getattr__(name: str) -> Any:
    if name != "tool_context":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from perdure.testing.tools import tool_context

    return tool_context
