"""Verify a token or redeem a ticket. Trigger: the authorizer of the stream API, before each stream."""

from perdure.aws.authorizers import authorize_stream_handler
from perdure.aws.bootstrap import runtime

handler = authorize_stream_handler(runtime)
