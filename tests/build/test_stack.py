"""The transformed template, created in moto. moto says CREATE_COMPLETE whatever happens, so what was made is looked at.

What moto's CloudFormation does not make is checked in the template itself (`tests/unit/functions/test_template.py`):
API Gateway v2, Scheduler, alarms, the bucket's policy and public access block, TTL, layers, policies by `!If`.
"""

from __future__ import annotations

import io
import json
import subprocess
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from perdure.api.routes import ROUTES
from tests.build.cloudformation import ROOT, Template

pytestmark = pytest.mark.build

REGION = "us-east-1"
UNKNOWN_TO_MOTO = {
    "AWS::ApiGateway::Deployment",
    "AWS::ApiGateway::RestApi",  # it is known, but not every integration of its definition
    "AWS::ApiGateway::Stage",
    "AWS::ApiGatewayV2::Api",
    "AWS::ApiGatewayV2::Authorizer",
    "AWS::ApiGatewayV2::Integration",
    "AWS::ApiGatewayV2::Route",
    "AWS::ApiGatewayV2::RouteResponse",
    "AWS::ApiGatewayV2::Stage",
    "AWS::CloudWatch::Alarm",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::Logs::MetricFilter",
    "AWS::S3::BucketPolicy",
    "AWS::Scheduler::ScheduleGroup",
}
PARAMETERS = {"JwtIssuer": "https://issuer.example.com/", "JwtAudience": "perdure", "DeliverNotices": "on"}


def without_unknown(document: dict[str, Any]) -> dict[str, Any]:
    """Return the template without what moto can't make; references to it become its name."""
    unknown = {name for name, resource in document["Resources"].items() if resource["Type"] in UNKNOWN_TO_MOTO}

    def replaced(value: Any) -> Any:
        if isinstance(value, dict):
            if value.get("Ref") in unknown:
                return value["Ref"]
            if "Fn::GetAtt" in value and value["Fn::GetAtt"][0] in unknown:
                return ".".join(value["Fn::GetAtt"])
            return {name: replaced(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [replaced(inner) for inner in value]
        if isinstance(value, str):
            for name in unknown:
                value = value.replace(f"${{{name}}}", name)
        return value

    kept = {name: resource for name, resource in document["Resources"].items() if name not in unknown}
    return {**document, "Resources": replaced(kept), "Outputs": replaced(document.get("Outputs", {}))}


@pytest.fixture(scope="module")
def transformed(built: Path) -> dict[str, Any]:
    sam_python = ROOT / ".venv-sam" / "bin" / "python"
    done = subprocess.run(
        [sam_python, Path(__file__).with_name("transform.py"), built / "template.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.fixture(scope="module")
def stack(transformed: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Physical ids by logical id, of everything that moto made."""
    empty = io.BytesIO()
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("app.py", "")
    document = without_unknown(transformed)
    with mock_aws(config={"lambda": {"use_docker": False}}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        s3 = boto3.client("s3", REGION)
        s3.create_bucket(Bucket="artifacts")
        for name in document["Resources"]:
            s3.put_object(Bucket="artifacts", Key=name, Body=empty.getvalue())
        cloudformation = boto3.client("cloudformation", REGION)
        cloudformation.create_stack(
            StackName="perdure",
            TemplateBody=json.dumps(document),
            Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in PARAMETERS.items()],
            Capabilities=["CAPABILITY_IAM"],
        )
        listed = cloudformation.describe_stack_resources(StackName="perdure")["StackResources"]
        yield {r["LogicalResourceId"]: r["PhysicalResourceId"] for r in listed if "PhysicalResourceId" in r}


def test_the_transformed_template_has_no_serverless_resource_left(transformed: dict[str, Any]) -> None:
    types = {resource["Type"] for resource in transformed["Resources"].values()}

    assert not [name for name in types if name.startswith("AWS::Serverless::")]


def test_pages_of_the_allowed_origins_may_use_what_the_api_has(transformed: dict[str, Any]) -> None:
    """moto makes no HTTP API; a preflight goes to a deployed one in `tests/e2e/test_outsiders.py`."""
    resources = transformed["Resources"]
    condition, allowed, otherwise = resources["HttpApi"]["Properties"]["CorsConfiguration"]["Fn::If"]
    preflight = resources["HttpPreflightRoute"]

    assert (condition, otherwise) == ("HasAllowedOrigins", {"Ref": "AWS::NoValue"})
    assert allowed["AllowOrigins"] == {"Ref": "AllowedOrigins"}
    assert set(allowed["AllowMethods"]) == {route.method for route in ROUTES}
    assert set(allowed["AllowHeaders"]) >= {"authorization", "content-type", "idempotency-key"}
    assert "AllowCredentials" not in allowed, "a page sends a token, and never a cookie"
    assert preflight["Condition"] == "HasAllowedOrigins"
    assert preflight["Properties"]["RouteKey"] == "OPTIONS /v1/{proxy+}"
    assert preflight["Properties"]["AuthorizationType"] == "NONE"


def test_the_stream_api_gets_a_deployment_and_a_stage_with_its_limits(transformed: dict[str, Any]) -> None:
    """moto makes nothing of them; `responseTransferMode` is in no emulator."""
    resources = transformed["Resources"].values()
    (api,) = [r["Properties"] for r in resources if r["Type"] == "AWS::ApiGateway::RestApi"]
    (stage,) = [r["Properties"] for r in resources if r["Type"] == "AWS::ApiGateway::Stage"]
    deployments = [r for r in resources if r["Type"] == "AWS::ApiGateway::Deployment"]

    assert api["EndpointConfiguration"] == {"Types": ["REGIONAL"]}
    assert {"responseTransferMode"} <= set(api["Body"]["paths"]["/v1/chat"]["post"]["x-amazon-apigateway-integration"])
    assert stage["StageName"] == {"Ref": "StageName"}
    assert len(deployments) == 1
    (limits,) = stage["MethodSettings"]
    assert (limits["ResourcePath"], limits["HttpMethod"]) == ("/*", "*")
    assert (limits["ThrottlingRateLimit"], limits["ThrottlingBurstLimit"]) == (
        {"Ref": "RequestRate"},
        {"Ref": "RequestBurst"},
    )


def test_a_deployment_puts_its_tags_on_the_stack() -> None:
    """CloudFormation hands them on to every resource; `tests/e2e/test_resources.py` sees them there."""
    deploying = subprocess.run(
        ["make", "--dry-run", "--always-make", "deploy", "TAGS=application=perdure team=support"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert deploying.stdout.count("deploy --tags application=perdure team=support") == 1
    assert deploying.stdout.count("deploy --guided --tags application=perdure team=support") == 1


def test_everything_that_moto_knows_is_made(stack: dict[str, str], transformed: dict[str, Any]) -> None:
    without_id = {
        "AWS::Lambda::LayerVersion",
        "AWS::Lambda::Permission",
    }  # moto makes them and lists them without an id
    resources = {
        name: resource
        for name, resource in transformed["Resources"].items()
        if resource["Type"] not in UNKNOWN_TO_MOTO | without_id
    }

    left_out = {n for n, r in resources.items() if r.get("Condition", "DeliversNotices") != "DeliversNotices"}
    assert set(resources) - set(stack) == left_out


def test_the_table_is_made_with_its_keys_and_indexes(stack: dict[str, str]) -> None:
    dynamodb = boto3.client("dynamodb", REGION)

    table = dynamodb.describe_table(TableName=stack["SessionsTable"])["Table"]

    assert [key["AttributeName"] for key in table["KeySchema"]] == ["pk", "sk"]
    assert {index["IndexName"] for index in table["GlobalSecondaryIndexes"]} == {"by-owner", "by-due"}
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"


def test_queues_are_made_with_their_dead_letters(stack: dict[str, str], template: Template) -> None:
    sqs = boto3.client("sqs", REGION)
    for name, properties in template.of_type("AWS::SQS::Queue").items():
        made = sqs.get_queue_attributes(QueueUrl=stack[name], AttributeNames=["All"])["Attributes"]
        assert made["VisibilityTimeout"] == str(properties["VisibilityTimeout"]), name
        if "RedrivePolicy" in properties:
            redrive = json.loads(made["RedrivePolicy"])
            assert redrive["maxReceiveCount"] == properties["RedrivePolicy"]["maxReceiveCount"], name
            assert redrive["deadLetterTargetArn"].startswith("arn:aws:sqs:"), name


def test_functions_are_made_with_roles_and_names_in_their_environment(
    stack: dict[str, str], template: Template
) -> None:
    functions = boto3.client("lambda", REGION)
    iam = boto3.client("iam", REGION)
    for name, properties in template.functions.items():
        made = functions.get_function_configuration(FunctionName=stack[name])
        role = iam.get_role(RoleName=stack[properties["Role"]["Fn::GetAtt"][0]])["Role"]
        variables = made["Environment"]["Variables"]

        assert (made["Runtime"], made["Handler"]) == ("python3.13", properties.get("Handler", "app.handler")), name
        assert made["Timeout"] == properties["Timeout"], name
        assert made["Role"] == role["Arn"], name
        assert stack["SessionsTable"] in variables.values(), name
        assert stack["RunModelQueue"] in variables.values(), name
        assert "OPENAI_BASE_URL" not in variables, name


def test_every_queue_and_the_stream_are_mapped_to_their_functions(stack: dict[str, str], template: Template) -> None:
    functions = boto3.client("lambda", REGION)
    sqs = boto3.client("sqs", REGION)
    made = {
        (mapping["EventSourceArn"], mapping["FunctionArn"].split(":")[6], mapping["BatchSize"])
        for mapping in functions.list_event_source_mappings()["EventSourceMappings"]
    }
    stream = boto3.client("dynamodb", REGION).describe_table(TableName=stack["SessionsTable"])["Table"][
        "LatestStreamArn"
    ]

    wanted = {
        (
            sqs.get_queue_attributes(QueueUrl=stack[queue], AttributeNames=["QueueArn"])["Attributes"]["QueueArn"],
            stack[function],
            1,
        )
        for function, queue, _ in template.queue_events()
    }

    assert made == wanted | {(stream, stack["RelayCommitsFunction"], 100)}


def test_the_sweep_has_a_rule_that_runs_every_minute(stack: dict[str, str]) -> None:
    events = boto3.client("events", REGION)

    rules = events.list_rules()["Rules"]
    targets = events.list_targets_by_rule(Rule=rules[0]["Name"])["Targets"]

    assert [rule["ScheduleExpression"] for rule in rules] == ["rate(1 minute)"]
    assert [target["Arn"].split(":")[6] for target in targets] == [stack["SweepFunction"]]


def test_the_bucket_encrypts_what_it_keeps(stack: dict[str, str]) -> None:
    s3 = boto3.client("s3", REGION)

    encryption = s3.get_bucket_encryption(Bucket=stack["BodiesBucket"])["ServerSideEncryptionConfiguration"]

    assert encryption["Rules"][0]["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
