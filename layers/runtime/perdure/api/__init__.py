"""The HTTP surface: one table of routes and one `handle`, whatever host stands in front of them.

`handle` and its values are host-neutral; `lambda_host` puts them behind API Gateway, `perdure.embedded.server` behind
uvicorn. Nothing here decides anything about a session: that is the service's.
"""

from perdure.api.handle import handle
from perdure.api.messages import ApiRequest, ApiResponse, TicketIssuer

__all__ = ["ApiRequest", "ApiResponse", "TicketIssuer", "handle"]
