"""Look after sessions whose work is overdue. Trigger: a rule, every minute; the message is not looked at."""

from perdure.aws.bootstrap import runtime
from perdure.aws.handlers import sweep_handler
from perdure.steps.recover import sweep

handler = sweep_handler(sweep, runtime)
