"""Make a failed turn of a message that was given up. Trigger: the dead-letter queues of steps, one message each."""

from perdure.aws.bootstrap import runtime
from perdure.aws.handlers import dead_letter_handler
from perdure.steps.recover import record_dead_letter

handler = dead_letter_handler(record_dead_letter, runtime)
