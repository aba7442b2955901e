"""Ask remote work to stop, once. Trigger: the task-cancellations queue, one message per try."""

from perdure.aws.bootstrap import runtime
from perdure.aws.handlers import step_handler
from perdure.steps.tasks import cancel_tool_task

handler = step_handler(cancel_tool_task, runtime)
