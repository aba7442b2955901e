"""Hands the sample events to the built handlers, in the order of one conversation, on an AWS in this process.

Run with the artifacts in front of the path; everything that they hold comes from them. Prints one JSON object: where
modules came from, and what each event was answered. Arguments: folder of the artifacts, folder of the events.
"""

import importlib.util
import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from perdure.aws import bootstrap
from perdure.testing.moto import aws_in_process
from perdure.testing.web_adapter import adapted

ORDER = {
    "api-health": "ApiFunction",
    "api-send-input": "ApiFunction",
    "run-model": "RunModelFunction",
    "call-tool": "CallToolFunction",
    "call-single-attempt-tool": "CallSingleAttemptToolFunction",
    "poll-tool-task": "PollToolTaskFunction",
    "cancel-tool-task": "CancelToolTaskFunction",
    "fire-timer": "FireTimerFunction",
    "record-dead-letter": "RecordDeadLetterFunction",
    "relay-commits": "RelayCommitsFunction",
    "deliver-notices": "DeliverNoticesFunction",
    "sweep": "SweepFunction",
    "api-read-session": "ApiFunction",
    "api-resolve-interrupt": "ApiFunction",
    "api-socket-ticket": "ApiFunction",
    "authorize-stream": "AuthorizeStreamFunction",
    "stream-events": "StreamFunction",
    "socket-authorize": "AuthorizeFunction",
    "socket-connect": "SocketFunction",
    "socket-attach": "SocketFunction",
    "socket-ping": "SocketFunction",
    "socket-disconnect": "SocketFunction",
}

built, events = Path(sys.argv[1]), Path(sys.argv[2])
handlers: dict[str, Any] = {}


def handler_of(function: str) -> Any:
    if function not in handlers:
        spec = importlib.util.spec_from_file_location(f"app_of_{function}", built / function / "app.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        handlers[function] = adapted(module.app, bootstrap.runtime) if hasattr(module, "app") else module.handler
    return handlers[function]


answers = {}
with aws_in_process() as aws:
    os.environ.update(aws.environment(), NOTICES_QUEUE_URL=aws.queue_urls["notices"])
    bootstrap.runtime().clients = aws.clients  # moto's are made for its own regions and endpoints
    for name, function in ORDER.items():
        event = json.loads((events / f"{name}.json").read_text(encoding="utf-8"))
        context = SimpleNamespace(
            get_remaining_time_in_millis=lambda: 29_000 + 31_000,
            function_name=function,
            memory_limit_in_mb=1024,
            invoked_function_arn=f"arn:aws:lambda:us-east-1:123456789012:function:{function}",
            ends_at=datetime.now(UTC) + timedelta(seconds=900),
            aws_request_id="00000000-0000-4000-8000-000000000000",
        )
        try:
            answers[name] = handler_of(function)(event, context)
        except Exception as error:  # what Lambda would tell as the function's error
            answers[name] = {"errorMessage": str(error)}
        if "pieces" in answers[name]:
            answers[name]["pieces"] = [piece.decode() for piece in answers[name]["pieces"]]

came_from = {name: sys.modules[name].__file__ for name in ("perdure", "pydantic", "boto3", "botocore", "agents")}
print(json.dumps({"answers": answers, "came_from": came_from}))
