"""What a T1 turn costs on AWS: counted calls, units, messages and requests times list prices of us-east-1.

Fees are what the turn itself is billed for: units, queues, requests. What depends on the application is apart: the time
that functions run (which is mostly the model's), live progress and pushes to viewers. Free tiers are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench import aws

TURNS = 1_000_000

WRITE_UNIT = 0.625 / 1e6
"""USD per DynamoDB write request unit, on demand, since November 2024 (third-party page of 2025-07)."""

READ_UNIT = 0.125 / 1e6
"""USD per DynamoDB read request unit, on demand (same page)."""

QUEUE_REQUEST = 0.40 / 1e6
"""USD per SQS request of up to 64 KB, standard queue (third-party pages of 2026-03 and 2026-06)."""

FAIR_QUEUE_REQUEST = 0.10 / 1e6
"""USD more for a request with a message group on a standard queue (same pages)."""

REQUESTS_A_MESSAGE = 3
"""Send, receive and delete: Lambda's poller takes single messages here (batch size 1)."""

LAMBDA_REQUEST = 0.20 / 1e6
"""USD per invocation (third-party page of 2026-05)."""

LAMBDA_GB_SECOND = 0.0000133334
"""USD per GB-second on arm64, about 20% less than the 0.0000166667 of x86 (same page)."""

HTTP_API_REQUEST = 1.00 / 1e6
"""USD per request of an HTTP API, in units of 512 KB (third-party pages of 2026)."""

SOCKET_MESSAGE = 1.00 / 1e6
"""USD per WebSocket message of up to 32 KB, callbacks included (same pages)."""

MEMORY_GB = 1.0
"""Memory of the functions that a turn runs, as in `template.yaml`; a test keeps them equal."""

BUDGET = 27.0
"""USD of fees per million T1 turns."""

HOT_BUDGET = 21.0
"""The same with the hot turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What a turn used, as counted by `bench.aws`."""

    write_units: float
    write_units_of: dict[str, float]
    progress_write_units: float
    read_units: float
    messages: int
    invocations: int
    admissions: int = 1

    @classmethod
    def of(cls, row: dict[str, Any]) -> Counted:
        """Read a row of `bench.aws`."""
        return cls(
            write_units=row["write_units"],
            write_units_of=row["write_units_of"],
            progress_write_units=row["progress_write_units"],
            read_units=row["read_units"],
            messages=row["sqs_sends"],
            invocations=sum(row["invocations"].values()),
        )


def fees(counted: Counted) -> dict[str, float]:
    """Return USD per million turns, by where it goes."""
    queue_price = REQUESTS_A_MESSAGE * (QUEUE_REQUEST + FAIR_QUEUE_REQUEST)
    each = {
        "dynamodb_writes": counted.write_units * WRITE_UNIT,
        "dynamodb_reads": counted.read_units * READ_UNIT,
        "queues": counted.messages * queue_price,
        "lambda_requests": counted.invocations * LAMBDA_REQUEST,
        "http_api_requests": counted.admissions * HTTP_API_REQUEST,
    }
    return {name: round(price * TURNS, 3) for name, price in each.items()}


def writes(counted: Counted) -> dict[str, float]:
    """Return USD per million turns for write units, by kind of item."""
    return {name: round(units * WRITE_UNIT * TURNS, 3) for name, units in counted.write_units_of.items()}


def apart(counted: Counted) -> dict[str, float]:
    """Return USD per million turns of what is not among the fees."""
    return {
        "progress_writes": round(counted.progress_write_units * WRITE_UNIT * TURNS, 3),
        "each_push_to_each_viewer": round(SOCKET_MESSAGE * TURNS, 3),
        "each_request_of_a_viewer_that_reads": round((HTTP_API_REQUEST + LAMBDA_REQUEST) * TURNS, 3),
        "each_second_that_a_function_runs": round(MEMORY_GB * LAMBDA_GB_SECOND * TURNS, 3),
    }


def table(counted: Counted, *, budget: float = BUDGET) -> dict[str, Any]:
    """Return what a turn costs and where it goes."""
    parts = fees(counted)
    total = round(sum(parts.values()), 3)
    return {
        "fees_usd_per_million_turns": total,
        "fees_usd_per_thousand_turns": round(total / 1000, 6),
        "budget_usd_per_million_turns": budget,
        "within_budget": total <= budget,
        "where_it_goes": parts,
        "writes_by_kind": writes(counted),
        "apart_usd_per_million": apart(counted),
    }


def measure() -> dict[str, Any]:
    """Price the turns that `bench.aws` counts."""
    return {
        name: table(Counted.of(row), budget=HOT_BUDGET if name.startswith("hot_") else BUDGET)
        for name, row in aws.measure().items()
    }
