"""Every resource of the template exists, as the template wants it: CREATE_COMPLETE alone is no evidence."""

from __future__ import annotations

import json
from typing import Any

from tests.build.cloudformation import target
from tests.e2e.emulator import ACCOUNT, REGION
from tests.e2e.outside import AUDIENCE, ISSUER
from tests.e2e.stack import NAME, TAGS, left_out
from tests.e2e.world import World

TAGGED = (
    "AWS::DynamoDB::Table",
    "AWS::SQS::Queue",
    "AWS::Serverless::Function",
    "AWS::Scheduler::ScheduleGroup",
)
"""What the emulator puts tags on, and tells of them, of all that AWS does."""

QUEUE_ATTRIBUTES = {
    "VisibilityTimeout": "VisibilityTimeout",
    "MessageRetentionPeriod": "MessageRetentionPeriod",
    "SqsManagedSseEnabled": "SqsManagedSseEnabled",
}


def queue_attributes(world: World, logical_id: str) -> dict[str, str]:
    sqs = world.stack.client("sqs")
    found = sqs.get_queue_attributes(QueueUrl=world.stack.ids[logical_id], AttributeNames=["All"])
    attributes: dict[str, str] = found["Attributes"]
    return attributes


def function_of(arn: str) -> str:
    """Return the physical name of the function that an integration's or authorizer's address leads to."""
    return arn.rpartition(":function:")[2].removesuffix("/invocations")


def test_the_stack_is_complete(world: World) -> None:
    assert world.stack.status() == "CREATE_COMPLETE"
    hashed = world.stack.template.of_type("AWS::Serverless::LayerVersion")  # their ids end in a hash
    made = {next((layer for layer in hashed if name.startswith(layer)), name) for name in world.stack.ids}
    assert set(world.stack.template.resources) - made == left_out(world.stack.template.document)
    assert set(world.stack.outputs) == set(world.stack.template.document["Outputs"])


def test_the_table_has_its_keys_indexes_and_price(world: World) -> None:
    dynamodb = world.stack.client("dynamodb")
    name = world.stack.ids["SessionsTable"]
    wanted = world.stack.template.resources["SessionsTable"]["Properties"]
    table = dynamodb.describe_table(TableName=name)["Table"]

    assert name == world.stack.outputs["SessionsTableName"]
    assert table["KeySchema"] == wanted["KeySchema"]
    assert {index["IndexName"]: index["KeySchema"] for index in table["GlobalSecondaryIndexes"]} == {
        index["IndexName"]: index["KeySchema"] for index in wanted["GlobalSecondaryIndexes"]
    }
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"


def test_what_the_emulator_does_not_make_is_in_the_template_that_is_deployed(world: World) -> None:
    table = world.stack.template.resources["SessionsTable"]["Properties"]
    bucket = world.stack.template.resources["BodiesBucket"]["Properties"]

    assert table["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert [rule["Status"] for rule in bucket["LifecycleConfiguration"]["Rules"]] == ["Enabled"]


def test_the_bucket_is_closed_and_encrypted(world: World) -> None:
    s3 = world.stack.client("s3")
    bucket = world.stack.ids["BodiesBucket"]
    encryption = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    policy = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])

    assert bucket == world.stack.outputs["BodiesBucketName"]
    assert encryption[0]["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    assert all(s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"].values())
    assert [statement["Effect"] for statement in policy["Statement"]] == ["Deny"]


def test_every_queue_hides_keeps_and_gives_up_messages_as_the_template_says(world: World) -> None:
    queues = world.stack.template.of_type("AWS::SQS::Queue")
    for name, properties in queues.items():
        attributes = queue_attributes(world, name)
        for attribute, wanted in QUEUE_ATTRIBUTES.items():
            assert attributes[attribute].lower() == str(properties[wanted]).lower(), (name, attribute)
        if "RedrivePolicy" not in properties:
            continue
        redrive = json.loads(attributes["RedrivePolicy"])
        dead = target(properties["RedrivePolicy"]["deadLetterTargetArn"])
        assert redrive["deadLetterTargetArn"] == queue_attributes(world, dead)["QueueArn"], name
        assert int(redrive["maxReceiveCount"]) == properties["RedrivePolicy"]["maxReceiveCount"], name


def test_every_queue_wakes_its_function_message_by_message(world: World) -> None:
    found = world.stack.client("lambda").list_event_source_mappings()["EventSourceMappings"]
    mapped = {
        (function_of(mapping["FunctionArn"]), mapping["EventSourceArn"])
        for mapping in found
        if mapping["State"] == "Enabled"
        and mapping["BatchSize"] == 1
        and mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    }

    assert mapped == {
        (world.stack.ids[function], queue_attributes(world, queue)["QueueArn"])
        for function, queue, _ in world.stack.template.queue_events()
    }


def test_the_tables_stream_wakes_its_function_with_records_of_sessions_only(world: World) -> None:
    table = world.stack.client("dynamodb").describe_table(TableName=world.stack.ids["SessionsTable"])["Table"]
    (mapping,) = world.stack.client("lambda").list_event_source_mappings(EventSourceArn=table["LatestStreamArn"])[
        "EventSourceMappings"
    ]
    wanted = world.stack.template.functions["RelayCommitsFunction"]["Events"]["Commits"]["Properties"]

    assert table["StreamSpecification"] == {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    assert function_of(mapping["FunctionArn"]) == world.stack.ids["RelayCommitsFunction"]
    for name in ("BatchSize", "MaximumBatchingWindowInSeconds", "StartingPosition", "FilterCriteria"):
        assert mapping[name] == wanted[name], name


def test_every_function_has_its_layers_names_limits_role_and_log(world: World) -> None:
    functions = world.stack.client("lambda")
    template = world.stack.template
    for name, properties in template.functions.items():
        found = functions.get_function_configuration(FunctionName=world.stack.ids[name])
        variables = found["Environment"]["Variables"]
        assert (found["Runtime"], found["Handler"]) == ("python3.13", properties.get("Handler", "app.handler")), name
        assert (found["Timeout"], found["MemorySize"]) == (properties["Timeout"], properties["MemorySize"]), name
        assert len(found["Layers"]) == len(template.globals["Layers"]) + len(properties.get("Layers", [])), name
        assert set(template.globals["Environment"]["Variables"]) <= set(variables), name
        assert all(variables.values()), name
        assert found["Role"].endswith(world.stack.ids[target(properties["Role"])]), name
        group = world.stack.ids[target(properties["LoggingConfig"]["LogGroup"])]
        assert found["LoggingConfig"]["LogGroup"] == group, name


def test_every_role_has_the_policies_of_the_template(world: World) -> None:
    iam = world.stack.client("iam")
    for name, properties in world.stack.template.of_type("AWS::IAM::Role").items():
        role = world.stack.ids[name]
        attached = iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]
        wanted = {
            world.stack.ids[entry["Ref"] if "Ref" in entry else entry["Fn::If"][1]["Ref"]]
            for entry in properties.get("ManagedPolicyArns", [])
        }
        assert {policy["PolicyArn"] for policy in attached} == wanted, name
        for policy in properties["Policies"]:
            document = iam.get_role_policy(RoleName=role, PolicyName=policy["PolicyName"])["PolicyDocument"]
            assert len(document["Statement"]) == len(policy["PolicyDocument"]["Statement"]), name


def test_the_http_api_has_its_routes_behind_its_authorizer(world: World) -> None:
    gateway = world.stack.client("apigatewayv2")
    api = world.stack.ids["HttpApi"]
    routes = {route["RouteKey"]: route for route in gateway.get_routes(ApiId=api)["Items"]}
    authorizers = gateway.get_authorizers(ApiId=api)["Items"]
    integrations = gateway.get_integrations(ApiId=api)["Items"]
    stages = gateway.get_stages(ApiId=api)["Items"]

    assert {key: route["AuthorizationType"] for key, route in routes.items()} == {
        "ANY /v1/{proxy+}": "JWT",
        "GET /healthz": "NONE",
        "GET /openapi.json": "NONE",
        "OPTIONS /v1/{proxy+}": "NONE",
        "POST /v1/hooks/{name}": "NONE",
    }
    assert [authorizer["JwtConfiguration"] for authorizer in authorizers] == [
        {"Issuer": ISSUER, "Audience": [AUDIENCE]},
    ]
    assert routes["ANY /v1/{proxy+}"]["AuthorizerId"] == authorizers[0]["AuthorizerId"]
    assert [function_of(i["IntegrationUri"]) for i in integrations] == [world.stack.ids["ApiFunction"]]
    assert {route["Target"] for route in routes.values()} == {f"integrations/{integrations[0]['IntegrationId']}"}
    assert [(stage["StageName"], stage["AutoDeploy"]) for stage in stages] == [("$default", True)]


def test_the_stream_api_has_its_routes_on_a_stage(world: World) -> None:
    gateway = world.stack.client("apigateway")
    api = world.stack.ids["StreamApi"]
    paths = {resource["path"] for resource in gateway.get_resources(restApiId=api, limit=500)["items"]}
    wanted = world.stack.template.resources["StreamApi"]["Properties"]["DefinitionBody"]["paths"]

    assert set(wanted) <= paths
    assert [stage["stageName"] for stage in gateway.get_stages(restApiId=api)["item"]] == ["live"]
    assert world.stack.outputs["StreamUrl"] == f"https://{api}.execute-api.{REGION}.amazonaws.com/live"


def test_the_websocket_api_has_its_routes_behind_its_authorizer(world: World) -> None:
    gateway = world.stack.client("apigatewayv2")
    api = world.stack.ids["SocketApi"]
    routes = {route["RouteKey"]: route for route in gateway.get_routes(ApiId=api)["Items"]}
    authorizers = gateway.get_authorizers(ApiId=api)["Items"]
    integrations = gateway.get_integrations(ApiId=api)["Items"]
    stages = gateway.get_stages(ApiId=api)["Items"]

    wanted = world.stack.template.of_type("AWS::ApiGatewayV2::Route").values()
    assert set(routes) == {route["RouteKey"] for route in wanted if route["ApiId"] == {"Ref": "SocketApi"}}
    answered = {key for key, route in routes.items() if route.get("RouteResponseSelectionExpression")}
    assert answered == {"$default"}, "what a function says on other routes goes nowhere"
    assert routes["$connect"]["AuthorizationType"] == "CUSTOM"
    assert routes["$connect"]["AuthorizerId"] == authorizers[0]["AuthorizerId"]
    assert [function_of(a["AuthorizerUri"]) for a in authorizers] == [world.stack.ids["AuthorizeFunction"]]
    assert authorizers[0]["IdentitySource"] == ["route.request.querystring.ticket"]
    assert [function_of(i["IntegrationUri"]) for i in integrations] == [world.stack.ids["SocketFunction"]]
    assert [(stage["StageName"], stage["AutoDeploy"]) for stage in stages] == [("live", True)]
    assert world.stack.outputs["SocketUrl"] == f"wss://{api}.execute-api.{REGION}.amazonaws.com/live"


def test_the_gateway_may_call_its_functions_and_nobody_else(world: World) -> None:
    functions = world.stack.client("lambda")
    expected = {"ApiFunction": "HttpApi", "SocketFunction": "SocketApi", "AuthorizeFunction": "SocketApi"}
    for function, api in expected.items():
        policy = json.loads(functions.get_policy(FunctionName=world.stack.ids[function])["Policy"])
        sources: list[Any] = [statement["Condition"] for statement in policy["Statement"]]
        assert len(sources) == 1, function
        assert f":{REGION}:{ACCOUNT}:{world.stack.ids[api]}/" in json.dumps(sources), function


def test_timers_have_their_schedule_group_and_the_sweep_its_minute(world: World) -> None:
    group = world.stack.client("scheduler").get_schedule_group(Name=world.stack.ids["TimersScheduleGroup"])
    events = world.stack.client("events")
    rule = events.describe_rule(Name=world.stack.ids["SweepFunctionEveryMinute"])
    targets = events.list_targets_by_rule(Rule=rule["Name"])["Targets"]

    assert group["State"] == "ACTIVE"
    assert (rule["ScheduleExpression"], rule["State"]) == ("rate(1 minute)", "ENABLED")
    assert [function_of(entry["Arn"]) for entry in targets] == [world.stack.ids["SweepFunction"]]


def test_logs_are_kept_as_long_as_the_parameter_says_and_the_sweeps_are_counted(world: World) -> None:
    logs = world.stack.client("logs")
    groups = {group["logGroupName"]: group for group in logs.describe_log_groups()["logGroups"]}
    for name in world.stack.template.of_type("AWS::Logs::LogGroup"):
        assert groups[world.stack.ids[name]]["retentionInDays"] == 30, name
    filters = logs.describe_metric_filters(logGroupName=world.stack.ids["SweepLogs"])["metricFilters"]

    names = {f["metricTransformations"][0]["metricName"] for f in filters}
    assert names == {"SweepTroubles", "SweepLateness"}


def test_the_tags_of_a_deployment_are_on_everything_that_can_have_any(world: World) -> None:
    (stack,) = world.stack.client("cloudformation").describe_stacks(StackName=NAME)["Stacks"]
    pages = world.stack.client("resourcegroupstaggingapi").get_paginator("get_resources").paginate()
    tagged = {
        entry["ResourceARN"].replace("/", ":").rpartition(":")[2]
        for page in pages
        for entry in page["ResourceTagMappingList"]
        if {tag["Key"]: tag["Value"] for tag in entry["Tags"]}.items() >= TAGS.items()
    }
    wanted = {name: world.stack.ids[name].rpartition("/")[2] for name in world.stack.template.of_type(*TAGGED)}

    assert {tag["Key"]: tag["Value"] for tag in stack["Tags"]} == TAGS
    assert len(wanted) > 10
    assert [name for name, physical in wanted.items() if physical not in tagged] == []


def test_the_alarms_that_the_emulator_can_hold_are_there(world: World) -> None:
    alarms = world.stack.client("cloudwatch").describe_alarms()["MetricAlarms"]
    wanted = set(world.stack.template.of_type("AWS::CloudWatch::Alarm")) - left_out(world.stack.template.document)

    assert {alarm["AlarmName"] for alarm in alarms} == {world.stack.ids[name] for name in wanted}
    assert wanted, "an alarm on one metric is left"
    assert {alarm["TreatMissingData"] for alarm in alarms} <= {"breaching", "notBreaching"}
