"""Tell of commits, for sinks. Trigger: the table's stream, as far as it tells of sessions' records: keys only."""

from perdure.aws.bootstrap import runtime
from perdure.aws.relay import relay_handler

handler = relay_handler(runtime)
