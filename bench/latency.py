"""What T1 and T2 take on AWS beyond model and tool time: the real handlers on a clock that charges for every call.

Nothing here is a measurement of AWS. Each call and hop takes what `perdure.testing.latency` says, drawn anew in every
run with the run's own seed; Python's own time is not counted, and nothing starts cold.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import statistics
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from bench.workload import SLOW_TOOL_SECONDS, agent, user_text
from perdure.agents.definition import AgentRegistry
from perdure.testing.latency import HOP, HTTP_API, INVOKE, TRANSACTION, Figure, LatencyModel, TimedCall, critical_path
from perdure.testing.moto import aws_in_process
from perdure.testing.overlapping import OverlappingHarness
from perdure.testing.simulation.wire import shorten

FUNCTIONS = Path(__file__).parent.parent / "functions"

RUNS = int(os.environ.get("PERDURE_BENCH_RUNS", "200"))
"""Measured turns of each kind, rounded up to whole sessions."""

TURNS_PER_SESSION = 8
"""Measured turns of one session; a first one, which makes the session, is left out."""

BUDGETS_MS = {
    "T1": {"handler_start_to_final_commit": 140, "client_to_pushed_answer": 185},
    "T1 hot": {"handler_start_to_final_commit": 75, "client_to_pushed_answer": 125},
}
"""Medians (design §9)."""

KINDS = {"T1": "read", "T2": "parallel"}
TOOL_SECONDS = {"T1": 0.0, "T2": SLOW_TOOL_SECONDS}


@dataclass(frozen=True, slots=True)
class TimedTurn:
    """One turn, in seconds of overhead: model and tool time are taken off.

    Attributes:
        to_commit: From the start of the API's handler to the answer of the last commit.
        to_push: From the client's request to the frame that tells of the last commit.
        calls: AWS calls that were made.
        commits: Updates of HEAD, those included that lost a race.
        lost: Those that lost.
        path: What had to be waited for until the last commit, in seconds by call; what computing takes is nothing.
    """

    to_commit: float
    to_push: float
    calls: int
    commits: int
    lost: int
    path: Counter[str]


@dataclass(frozen=True, slots=True)
class Variant:
    """What is run: a kind of turn, and what a commit costs (None: one conditional write)."""

    turn: str
    commits: Figure | None = None
    hot: bool = False

    @property
    def name(self) -> str:
        name = f"{self.turn} hot" if self.hot else self.turn
        return name if self.commits is None else f"{name}, each commit a transaction"


VARIANTS = tuple(
    Variant(turn, commits, hot=hot) for turn in ("T1", "T2") for hot in (False, True) for commits in (None, TRANSACTION)
)


def measure() -> dict[str, Any]:
    """Run all variants: sessions side by side in as many processes as there are cores."""
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "bench")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "bench")
    results: dict[str, Any] = {}
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        for variant in VARIANTS:
            sessions = range(math.ceil(RUNS / TURNS_PER_SESSION))
            turns = chain.from_iterable(pool.map(turns_of_session, repeat(variant), sessions))
            results[variant.name] = _summary(list(turns))
    for name, budgets in BUDGETS_MS.items():
        results[name]["budgets_p50_ms"] = budgets
    return results


def turns_of_session(variant: Variant, number: int) -> list[TimedTurn]:
    """Run a session's turns in a deployment of their own, each turn with its own seed."""
    with deployment(LatencyModel(commits=variant.commits), hot=variant.hot) as harness:
        session = f"s-{number}"
        harness.watch(session)
        harness.send(session, user_text(1), key="m-1")
        return [
            _turn(harness, variant, session, turn, seed=number * TURNS_PER_SESSION + turn)
            for turn in range(2, TURNS_PER_SESSION + 2)
        ]


@contextmanager
def deployment(model: LatencyModel, *, hot: bool = False) -> Iterator[OverlappingHarness]:
    """A deployment with the workload's agent whose calls take what the model says."""
    with aws_in_process() as aws:
        harness = OverlappingHarness(aws, AgentRegistry([agent(hot=hot)]), FUNCTIONS, latency=model)
        clients = aws.clients
        for client in (clients.dynamodb, clients.sqs, clients.s3, clients.scheduler, clients.connections):
            model.attach(client)
        shorten(clients.dynamodb)
        shorten(clients.sqs)
        try:
            yield harness
        finally:
            harness.close()


def _turn(harness: OverlappingHarness, variant: Variant, session: str, turn: int, *, seed: int) -> TimedTurn:
    harness.latency.reseed(seed)
    to_handler = harness.latency.draw(HTTP_API) + harness.latency.draw(INVOKE)
    began = harness.loop.time()
    harness.send(session, user_text(turn, KINDS[variant.turn]), key=f"m-{turn}")
    return _timed(harness.latency.calls, began, to_handler, TOOL_SECONDS[variant.turn])


def _timed(calls: list[TimedCall], began: float, to_handler: float, tools: float) -> TimedTurn:
    commits = [call for call in calls if (call.operation, call.kind) == ("dynamodb.UpdateItem", "HEAD")]
    last = max((call for call in commits if not call.failed), key=lambda call: call.ended)
    committed = last.ended
    # The last one has the last commit's events, even if a pump that was at work saw them before their committer did.
    pushed = max(call.ended for call in calls if call.operation.endswith("PostToConnection"))
    return TimedTurn(
        to_commit=committed - began - tools,
        to_push=to_handler + pushed - began - tools,
        calls=sum(call.operation != HOP for call in calls),
        commits=len(commits),
        lost=sum(call.failed for call in commits),
        path=_path(calls, last),
    )


def _path(calls: list[TimedCall], last: TimedCall) -> Counter[str]:
    path: Counter[str] = Counter()
    for call in critical_path(calls, last, waits=(SLOW_TOOL_SECONDS,)):
        path[f"{call.operation} {call.kind}".strip()] += call.ended - call.began  # type: ignore[assignment]
    return path


def _summary(turns: list[TimedTurn]) -> dict[str, Any]:
    return {
        "runs": len(turns),
        "handler_start_to_final_commit_ms": _percentiles([turn.to_commit for turn in turns]),
        "client_to_pushed_answer_ms": _percentiles([turn.to_push for turn in turns]),
        "aws_calls": statistics.mean(turn.calls for turn in turns),
        "commits_tried": statistics.mean(turn.commits for turn in turns),
        "commits_that_lost_a_race": statistics.mean(turn.lost for turn in turns),
        "critical_path_mean_ms": _means([turn.path for turn in turns]),
    }


def _means(paths: list[Counter[str]]) -> dict[str, float]:
    whole = sum(paths, Counter[str]())
    return {name: round(seconds / len(paths) * 1000, 1) for name, seconds in whole.most_common()}


def _percentiles(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return {"p50": round(cuts[49] * 1000, 1), "p95": round(cuts[94] * 1000, 1), "p99": round(cuts[98] * 1000, 1)}
