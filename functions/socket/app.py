"""Answer WebSocket connections. Trigger: `$connect`, `$disconnect` and every frame: `{type, session_id?}`."""

from perdure.aws.bootstrap import runtime
from perdure.aws.sockets import socket_handler

handler = socket_handler(runtime)
