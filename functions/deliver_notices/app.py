"""Deliver events to the application's sinks. Trigger: the notices queue, one message for a session that changed."""

from perdure.aws.bootstrap import runtime
from perdure.aws.handlers import notices_handler

handler = notices_handler(runtime)
