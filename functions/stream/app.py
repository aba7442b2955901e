"""Stream a session. Trigger: the stream API, through the Lambda Web Adapter, which starts `run.sh` and that this."""

from perdure.aws.bootstrap import runtime
from perdure.aws.stream_app import create_app

app = create_app(runtime)

if __name__ == "__main__":
    from perdure.aws.log_lines import log_as_lambda_does
    from perdure.aws.stream_app import serve

    log_as_lambda_does()
    _ = runtime().deps  # what is missing is told now, and not at the first request
    serve(app)
