"""Fire one timer. Trigger: the timers queue, to which delays and schedules send ids only."""

from perdure.aws.bootstrap import runtime
from perdure.aws.handlers import timer_handler
from perdure.steps.waking import fire_timer

handler = timer_handler(fire_timer, runtime)
