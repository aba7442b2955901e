"""Redeem a ticket. Trigger: the authorizer of the WebSocket API's `$connect`, with `?ticket=`."""

from perdure.aws.bootstrap import runtime
from perdure.aws.sockets import authorize_handler

handler = authorize_handler(runtime)
