"""Logs as lines of JSON, as the managed runtimes write them: for a function that is a web server and has no runtime."""

from __future__ import annotations

import json
import logging
import os
import sys

from perdure.core.codec import format_time, from_millis

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

LEVEL_VARIABLE = "AWS_LAMBDA_LOG_LEVEL"
"""What Lambda sets from a function's `ApplicationLogLevel`."""


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, message, and the fields that were given beside it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line."""
        line = {
            "timestamp": format_time(from_millis(int(record.created * 1000))),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_as_lambda_does() -> None:
    """Write logs to standard output, from the level on that the function is set to."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonLines())
    level = {"TRACE": "DEBUG", "WARN": "WARNING", "FATAL": "CRITICAL"}
    wanted = os.environ.get(LEVEL_VARIABLE, "INFO")
    logging.basicConfig(level=level.get(wanted, wanted), handlers=[handler], force=True)
