"""Run one model step, or have a title written. Trigger: the model-steps queue, one message per attempt: ids only."""

from perdure.aws.bootstrap import runtime
from perdure.aws.handlers import step_handler
from perdure.steps.base import HotTurn
from perdure.steps.run_model import run_model

handler = step_handler(run_model, runtime, hot=HotTurn(), others={"write_title": "perdure.steps.write_title"})
