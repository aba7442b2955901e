"""Run one tool call that may run again. Trigger: the tool-calls queue, one message per attempt."""

from perdure.aws.bootstrap import runtime
from perdure.aws.handlers import step_handler
from perdure.steps.call_tool import call_tool

handler = step_handler(call_tool, runtime)
