"""What a call's earlier attempts and the people it asked left in the log for its next attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure.agents.waiting import Answer
from perdure.core.entries import CallFact, Entry
from perdure.core.head import Call
from perdure.ports import LogSlice, Ports, SessionKey
from perdure.steps.commit import despite_outages

JsonObject = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class CallFacts:
    """The facts of one call.

    Attributes:
        arguments: Those that a person approved in place of the model's. None: the model's hold.
        answers: What became of its questions, oldest first.
        continuation: What it kept with its latest question, or its task with the latest look.
        steps, sleeps, events: By their names.
        task_id: Handle of its remote work.
        interval_seconds: Time between two looks at it.
    """

    arguments: JsonObject | None = None
    answers: list[Answer] = field(default_factory=list)
    continuation: Any = None
    steps: dict[str, Any] = field(default_factory=dict)
    sleeps: dict[str, Any] = field(default_factory=dict)
    events: dict[str, JsonObject] = field(default_factory=dict)
    task_id: str = ""
    interval_seconds: float = 10.0


async def facts_of(
    ports: Ports, key: SessionKey, call_id: str, versions: Iterable[int], at_hand: Sequence[Entry] = ()
) -> CallFacts:
    """Read the facts of a call from the entries of these versions."""
    wanted = sorted(set(versions))
    found = {entry.version: entry for entry in at_hand}
    missing = [version for version in wanted if version not in found]
    for page in await asyncio.gather(*(_read(ports, key, version) for version in missing)):
        found |= {entry.version: entry for entry in page.entries}
    facts, questions = CallFacts(), dict[str, str]()
    for version in wanted:
        if version not in found:
            raise LookupError(f"the log of session {key.session_id} has no version {version}")
        for fact in found[version].facts:
            if fact.call_id == call_id:
                _take(facts, questions, fact)
    return facts


async def _read(ports: Ports, key: SessionKey, version: int) -> LogSlice:
    """Read one entry. An outage that passes costs a wait and no attempt."""
    return await despite_outages(ports, lambda: ports.store.read(key, first=version, last=version))


def versions_of(call: Call) -> tuple[int, ...]:
    """Return the entries that hold a call's facts."""
    task = call.task
    if task is None:
        return call.records
    return tuple(v for v in (*call.records, task.started_version, task.version, task.resolution) if v)


def _take(facts: CallFacts, questions: dict[str, str], fact: CallFact) -> None:
    value = fact.value
    if fact.kind == "arguments":
        facts.arguments = value
    elif fact.kind == "question":
        questions[fact.name] = value["question"]
        facts.continuation = value.get("continuation")
    elif fact.kind == "answer":
        facts.answers.append(Answer(interrupt_id=fact.name, question=questions.get(fact.name, ""), **value))
    elif fact.kind == "step":
        facts.steps[fact.name] = value
    elif fact.kind == "sleep":
        facts.sleeps[fact.name] = value
    elif fact.kind == "event":
        facts.events[fact.name] = value
    elif fact.kind == "task":
        facts.task_id = value.get("task_id") or facts.task_id
        facts.interval_seconds = value.get("interval_seconds") or facts.interval_seconds
        facts.continuation = value.get("continuation")
