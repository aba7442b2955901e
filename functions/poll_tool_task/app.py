"""Look once at the remote work of a call. Trigger: the task-polls queue, one message per look."""

from perdure.aws.bootstrap import runtime
from perdure.aws.handlers import step_handler
from perdure.steps.tasks import poll_tool_task

handler = step_handler(poll_tool_task, runtime)
