"""Run one call of a tool that runs at most once. Trigger: the single-attempt-tool-calls queue, one message per call."""

from perdure.aws.bootstrap import runtime
from perdure.aws.handlers import step_handler
from perdure.steps.call_tool import call_single_attempt_tool

handler = step_handler(call_single_attempt_tool, runtime)
