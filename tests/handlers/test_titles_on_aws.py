"""Titles on the deployment: the function that calls models writes them, from the same queue."""

from __future__ import annotations

from perdure.agents.definition import AgentRegistry
from perdure.models.scripted import ScriptedModel
from perdure.testing.lambda_harness import LambdaHarness
from perdure.testing.moto import aws_in_process
from tests.build.cloudformation import ROOT
from tests.handlers.agents import SESSION, send, snapshot
from tests.unit.steps.builders import an_agent


def test_a_title_is_written_by_the_function_that_calls_models() -> None:
    with aws_in_process() as aws:
        agent = an_agent(title_model=ScriptedModel(lambda _: "About order 7"))
        harness = LambdaHarness(aws, AgentRegistry([agent]), ROOT / "functions")
        send(harness, "Where is order 7?")
        harness.settle()
        functions = [done.function for done in harness.invocations if done.function == "run_model"]

        assert snapshot(harness)["title"] == "About order 7"
        assert len(functions) == 2
        reply = harness.gateway.http("PUT", f"{SESSION}/title", {"title": "Mine"})
        assert (reply.status, reply.body) == (200, {"result": "recorded"})
        assert snapshot(harness)["title"] == "Mine"
