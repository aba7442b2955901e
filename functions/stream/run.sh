#!/bin/sh
# The Lambda Web Adapter starts this in place of the runtime, which would have put the layers on the path.
PYTHONPATH="$LAMBDA_TASK_ROOT:/opt/python${PYTHONPATH:+:$PYTHONPATH}" exec python3 -m app
