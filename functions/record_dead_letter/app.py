"""Make a failed turn of a message that was given up; a timer fires after all. Trigger: the dead-letter queues."""

from perdure.aws.bootstrap import runtime
from perdure.aws.handlers import dead_letter_handler
from perdure.steps.recover import record_dead_letter
from perdure.steps.waking import fire_timer

handler = dead_letter_handler(record_dead_letter, runtime, fire=fire_timer)
