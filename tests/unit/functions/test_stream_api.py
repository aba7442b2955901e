"""What holds for the stream API and its two functions in `template.yaml`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from perdure.api.routes import ROUTES
from perdure.aws.limits import MAX_STREAM
from perdure.aws.stream_app import DEFAULT_PORT, HEALTH
from tests.build.cloudformation import ROOT, Template, read_template, refs, written


@pytest.fixture(scope="module")
def template() -> Template:
    return Template(read_template())


def definition_of(template: Template) -> dict[str, Any]:
    """Return the OpenAPI document of the stream API."""
    definition: dict[str, Any] = template.resources["StreamApi"]["Properties"]["DefinitionBody"]
    return definition


def test_the_stream_api_has_every_route_that_streams_and_no_other(template: Template) -> None:
    streaming = {(route.method.lower(), route.path) for route in ROUTES if route.streams or route.stream is not None}
    paths = definition_of(template)["paths"]
    found = {(m, path) for path, methods in paths.items() for m in methods if m not in ("parameters", "options")}

    assert {(method, path.replace("{session_id}", "{}")) for method, path in found} == {
        (method, re.sub(r"\{\w+\}", "{}", path)) for method, path in streaming
    }
    assert all("options" in methods for methods in paths.values())
    for path, methods in paths.items():
        for method, operation in methods.items():
            if method == "parameters":
                continue
            integration = operation["x-amazon-apigateway-integration"]
            assert integration["responseTransferMode"] == "STREAM", path
            assert integration["timeoutInMillis"] == MAX_STREAM.total_seconds() * 1000
            assert integration["uri"]["Fn::Sub"].endswith("${StreamFunction.Arn}/response-streaming-invocations")


def test_no_parameter_changes_the_definition_of_the_stream_api(template: Template) -> None:
    """SAM deploys it anew when its text has changed: what a parameter changes in it would never arrive at the stage."""
    text = written(definition_of(template))

    assert refs(definition_of(template)) == set()
    assert "Fn::If" not in text
    assert [name for name in template.document["Parameters"] if f"${{{name}}}" in text] == []


def test_what_the_gateway_answers_itself_has_the_form_of_our_errors(template: Template) -> None:
    answers = definition_of(template)["x-amazon-apigateway-gateway-responses"]
    told = {
        name: json.loads(answer["responseTemplates"]["application/json"])["error"] for name, answer in answers.items()
    }

    assert all(set(error) == {"code", "message", "retryable"} for error in told.values())
    assert {name: (answers[name].get("statusCode"), told[name]["code"]) for name in told} == {
        "UNAUTHORIZED": (401, "unauthorized"),
        "ACCESS_DENIED": (403, "forbidden"),
        "THROTTLED": (429, "too_many_requests"),
        "MISSING_AUTHENTICATION_TOKEN": (404, "not_found"),
        "DEFAULT_4XX": (None, "invalid_request"),
        "DEFAULT_5XX": (None, "internal"),
    }
    for answer in answers.values():  # so that a page can tell a 401 from a network that is down
        assert answer["responseParameters"] == {"gatewayresponse.header.Access-Control-Allow-Origin": "'*'"}


def test_the_adapter_is_started_in_place_of_the_runtime(template: Template) -> None:
    function = template.functions["StreamFunction"]
    script = ROOT / "functions" / "stream" / function["Handler"]
    variables = function["Environment"]["Variables"]

    assert script.stat().st_mode & 0o111, "the adapter's wrapper executes it"
    assert variables["AWS_LAMBDA_EXEC_WRAPPER"] == "/opt/bootstrap"
    assert variables["AWS_LWA_INVOKE_MODE"] == "response_stream"
    assert variables["AWS_LWA_READINESS_CHECK_PATH"] == HEALTH
    assert variables["AWS_LWA_PORT"] == str(DEFAULT_PORT)
    assert function["Timeout"] == MAX_STREAM.total_seconds()
    assert template.document["Parameters"]["StreamSeconds"]["MaxValue"] == MAX_STREAM.total_seconds()


def test_nobody_opens_a_stream_without_a_token_or_a_ticket(template: Template) -> None:
    for path, methods in definition_of(template)["paths"].items():
        for method, operation in methods.items():
            if method != "parameters":
                assert operation.get("security") == (None if method == "options" else [{"caller": []}]), path
    (guard,) = definition_of(template)["components"]["securitySchemes"].values()
    authorizer = guard["x-amazon-apigateway-authorizer"]
    assert (authorizer["type"], authorizer["authorizerResultTtlInSeconds"]) == ("request", 0)
    assert "identitySource" not in authorizer, "either of the token and the ticket may be missing"
    assert "${AuthorizeStreamFunction.Arn}" in authorizer["authorizerUri"]["Fn::Sub"]


def test_no_other_function_loads_a_web_server_or_what_verifies_tokens() -> None:
    modules = ("api.lambda_host", "aws.authorizers", "aws.sockets", "aws.handlers", "aws.bootstrap", "service")
    heavy = ("starlette", "uvicorn", "h11", "jwt", "cryptography")
    script = f"import sys, {', '.join(f'perdure.{name}' for name in modules)}\n"
    script += f"print(*(name for name in {heavy!r} if name in sys.modules))"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []
