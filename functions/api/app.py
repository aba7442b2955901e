"""Answer the HTTP API. Trigger: every request to it, in payload format 2.0."""

from perdure.api.lambda_host import Places, api_handler
from perdure.aws.bootstrap import runtime
from perdure.aws.sockets import ticket_issuer

handler = api_handler(
    lambda: runtime().service,
    tenant_claim=runtime().settings.tenant_claim,
    tickets=ticket_issuer(runtime),
    run=lambda work: runtime().run(work),
    places=lambda: Places(stream_url=runtime().settings.stream_url, socket_url=runtime().settings.socket_url),
)
