"""Redeem a ticket. Trigger: the authorizer of the WebSocket API's `$connect`, with `?ticket=`."""

from perdure.aws.authorizers import authorize_handler
from perdure.aws.bootstrap import runtime

handler = authorize_handler(runtime)
