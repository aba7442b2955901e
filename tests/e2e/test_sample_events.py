"""The sample events of `events/`, invoked on the deployed functions: what `sam local invoke` does with Docker."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.build.cloudformation import Template, read_template
from tests.e2e.emulator import ROOT
from tests.e2e.world import World
from tests.handlers.test_events import FUNCTIONS

FIRST = ("api-health", "api-send-input")
"""What begins the conversation that the other events are about."""

STEPS = ("run-model", "call-tool", "call-single-attempt-tool", "poll-tool-task", "cancel-tool-task")
BATCHES = (*STEPS, "fire-timer", "record-dead-letter", "deliver-notices")
STATUSES = {
    "api-health": 200,
    "api-send-input": 202,
    "api-read-session": 200,
    "api-socket-ticket": 200,
}


def invoked(world: World, event: str) -> Any:
    """Invoke a function with its sample event, as `aws lambda invoke` does, and return its answer."""
    template = Template(read_template())  # the built one has other folders
    function = next(name for name in template.functions if template.folder(name) == FUNCTIONS[event])
    payload = (ROOT / "events" / f"{event}.json").read_bytes()
    reply = world.stack.client("lambda").invoke(FunctionName=world.stack.ids[function], Payload=payload)
    answer = json.loads(reply["Payload"].read())
    if event != "authorize-stream":  # it refuses by an error, because API Gateway makes a 401 of that
        assert "FunctionError" not in reply, (event, answer)
    return answer


async def test_every_sample_event_is_taken_by_the_function_that_it_is_for(world: World) -> None:
    # The stream function is a web server behind an adapter that the emulator does not have: test_streams.py runs it.
    order = sorted(set(FUNCTIONS) - {"stream-events"}, key=lambda event: (event not in FIRST, event))
    answers = {event: await asyncio.to_thread(invoked, world, event) for event in order}

    assert {event: answers[event]["statusCode"] for event in STATUSES} == STATUSES
    assert [answers[event] for event in BATCHES] == [{"batchItemFailures": []}] * len(BATCHES)
    assert answers["api-resolve-interrupt"]["statusCode"] in (200, 404, 409), "its interrupt is an example"
    assert answers["authorize-stream"]["errorMessage"] == "Unauthorized", "its ticket was never issued"
    refused = answers["socket-authorize"]["policyDocument"]["Statement"][0]["Effect"]
    assert refused == "Deny", "its ticket was never issued"
    assert json.loads(answers["socket-ping"]["body"]) == {"type": "pong"}
    assert answers["socket-disconnect"]["statusCode"] == 200
    assert answers["relay-commits"] == {"messages": 1}
    assert answers["sweep"]["sessions"] >= 0
