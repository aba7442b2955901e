"""What holds for `template.yaml` before anything is built from it."""

import ast
import dataclasses
import re

import pytest

from perdure.aws import keys
from perdure.aws.settings import Settings
from perdure.testing.gateway import ONE_WAY
from tests.build.cloudformation import ROOT, Template, as_list, read_template, refs, target, written

# Statements that can't name one resource, each with the reason. Keys: who holds the statement, the action.
WILDCARDS = {
    ("BodiesPolicy", "s3:GetObject"): "an object's name is made at run time; it is our bucket and prefix",
    ("BodiesPolicy", "s3:PutObject"): "an object's name is made at run time; it is our bucket and prefix",
    ("RelayCommitsRole", "dynamodb:ListStreams"): "a stream's name is made at run time; it is our table's",
    ("DeliverNoticesRole", "s3:GetObject"): "an object's name is made at run time; it is our bucket and prefix",
    ("CancelToolTaskRole", "s3:GetObject"): "an object's name is made at run time; it is our bucket and prefix",
    ("CommitPolicy", "scheduler:CreateSchedule"): "a schedule's name is made at run time; it is our group",
    ("EndTimersPolicy", "scheduler:DeleteSchedule"): "a schedule's name is made at run time; it is our group",
    ("CommitPolicy", "execute-api:ManageConnections"): "a connection's id is made at run time; it is our API's stage",
    ("BodiesBucketPolicy", "s3:*"): "a Deny: it takes every action away from everybody without TLS",
}

SECRETS = {
    # variable: who gets it, the parameter with the ARN, the policy that lets it be read
    "MODEL_KEY_SECRET_ARN": ("run_model", "ModelKeySecretArn", "ModelKeyPolicy"),
    "WEBHOOK_SECRETS_ARN": ("api", "WebhookSecretsArn", "WebhookSecretsPolicy"),
}

COMMITTING = {
    "api",
    "stream",
    "socket",
    "run_model",
    "call_tool",
    "call_single_attempt_tool",
    "poll_tool_task",
    "cancel_tool_task",
    "fire_timer",
    "sweep",
    "record_dead_letter",
}
"""Functions through which something happens to a session."""


WITHOUT_DEAD_LETTERS = {"NoticesQueue"}  # nothing of it is given up, because no turn waits for what is in it


@pytest.fixture(scope="module")
def template() -> Template:
    return Template(read_template())


# --- functions ---------------------------------------------------------------------------------------------------


def test_every_handler_has_a_function_and_every_function_a_handler(template: Template) -> None:
    folders = {path.parent.name for path in (ROOT / "functions").glob("*/app.py")}

    assert {template.folder(name) for name in template.functions} == folders


def test_every_handler_says_what_triggers_it() -> None:
    silent = [
        path.parent.name
        for path in (ROOT / "functions").glob("*/app.py")
        if "Trigger: " not in (ast.get_docstring(ast.parse(path.read_text())) or "")
    ]

    assert silent == []


def test_functions_run_on_one_platform(template: Template) -> None:
    layers = template.of_type("AWS::Serverless::LayerVersion")

    assert template.globals["Architectures"] == ["arm64"]
    assert template.globals["Runtime"] == "python3.13"
    assert all(layer["CompatibleArchitectures"] == ["arm64"] for layer in layers.values())
    assert {target(layer) for layer in template.globals["Layers"]} == set(layers)
    for name in layers:
        assert template.resources[name]["Metadata"] == {"BuildMethod": "python3.13", "BuildArchitecture": "arm64"}
    assert not any({"Runtime", "Architectures"} & function.keys() for function in template.functions.values())
    assert [name for name, function in template.functions.items() if "Layers" in function] == ["StreamFunction"]


def test_every_function_chooses_its_own_time_and_memory(template: Template) -> None:
    for name, function in template.functions.items():
        assert 0 < function["Timeout"] <= 900, name
        assert function["MemorySize"] >= 512, name
    assert template.functions["ApiFunction"]["Timeout"] < 30, "an HTTP API gives up after 30 s"


def test_every_function_has_a_role_and_a_log_group_of_its_own(template: Template) -> None:
    roles = [target(function["Role"]) for function in template.functions.values()]
    groups = [target(function["LoggingConfig"]["LogGroup"]) for function in template.functions.values()]

    assert len(set(roles)) == len(roles)
    assert len(set(groups)) == len(groups)
    for name, group in template.of_type("AWS::Logs::LogGroup").items():
        assert group["RetentionInDays"] == {"Ref": "LogRetentionDays"}, name


OF_THE_ADAPTER = {
    "AWS_LAMBDA_EXEC_WRAPPER",
    "AWS_LWA_INVOKE_MODE",
    "AWS_LWA_READINESS_CHECK_PATH",
    "AWS_LWA_PORT",
}
OWN = {
    "api": {"STREAM_URL"},
    "authorize": {"ALLOWED_ORIGINS"},
    "authorize_stream": {"JWT_ISSUER", "JWT_AUDIENCE"},
    "stream": {"STREAM_SECONDS", "ALLOWED_ORIGINS"} | OF_THE_ADAPTER,
}
"""What only some functions get, besides the places of secrets."""


def test_every_function_gets_every_name_that_the_settings_want(template: Template) -> None:
    given = set(template.globals["Environment"]["Variables"])
    wanted = {field.name.upper(): field for field in dataclasses.fields(Settings)}

    assert {name for name, field in wanted.items() if field.default is dataclasses.MISSING} <= given
    assert set(wanted) - given == set(SECRETS) | {name for names in OWN.values() for name in names} - OF_THE_ADAPTER
    assert given - set(wanted) == {"OPENAI_BASE_URL", "POWERTOOLS_SERVICE_NAME"}
    assert {
        template.folder(name): more
        for name, function in template.functions.items()
        if (more := set(function.get("Environment", {}).get("Variables", {})) - set(SECRETS))
    } == OWN
    for variable, (folder, parameter, _) in SECRETS.items():
        own = {
            template.folder(name): function["Environment"]["Variables"][variable]
            for name, function in template.functions.items()
            if variable in function.get("Environment", {}).get("Variables", {})
        }
        assert own == {folder: {"Ref": parameter}}, variable


# --- queues ------------------------------------------------------------------------------------------------------


def test_every_queue_of_work_has_dead_letters_that_become_failed_turns(template: Template) -> None:
    queues = template.of_type("AWS::SQS::Queue")
    work = {name: queue for name, queue in queues.items() if "RedrivePolicy" in queue}
    dead = {name: target(queue["RedrivePolicy"]["deadLetterTargetArn"]) for name, queue in work.items()}
    recorded = {queue for function, queue, _ in template.queue_events() if function == "RecordDeadLetterFunction"}

    assert len(set(dead.values())) == len(work)
    assert set(work) | set(dead.values()) | WITHOUT_DEAD_LETTERS == set(queues)
    assert recorded == set(dead.values())
    for name, queue in work.items():
        assert queue["RedrivePolicy"]["maxReceiveCount"] >= 3, name
        assert queue["MessageRetentionPeriod"] < queues[dead[name]]["MessageRetentionPeriod"], name


def test_a_message_stays_hidden_for_as_long_as_its_function_may_run(template: Template) -> None:
    queues = template.of_type("AWS::SQS::Queue")
    consumed = []
    for function, queue, _ in template.queue_events():
        consumed.append(queue)
        assert queues[queue]["VisibilityTimeout"] >= template.functions[function]["Timeout"], queue

    assert sorted(consumed) == sorted(queues), "every queue has exactly one consumer"


def test_every_queue_delivers_one_message_at_a_time_and_hears_of_failures(template: Template) -> None:
    for _, queue, properties in template.queue_events():
        assert properties["BatchSize"] == 1, queue
        assert properties["FunctionResponseTypes"] == ["ReportBatchItemFailures"], queue


# --- permissions -------------------------------------------------------------------------------------------------


def test_no_statement_reaches_further_than_it_must(template: Template) -> None:
    used = set()
    for holder, statement in template.statements():
        for action in as_list(statement["Action"]):
            wide = "*" in action or any("*" in written(resource) for resource in as_list(statement["Resource"]))
            if wide:
                used.add((holder, action))

    assert used == set(WILDCARDS)


def test_what_is_open_in_a_statement_is_the_last_part_of_a_name_only(template: Template) -> None:
    for holder, statement in template.statements():
        for resource in as_list(statement["Resource"]):
            text = written(resource)
            if "*" in text and statement["Effect"] == "Allow":
                assert re.fullmatch(r'\{"Fn::Sub": "[^*]*\$\{[^*]+/(?:sessions/)?\*"\}', text), f"{holder}: {text}"


def test_no_role_takes_permissions_from_outside_the_template(template: Template) -> None:
    own = set(template.of_type("AWS::IAM::ManagedPolicy"))

    for name, role in template.of_type("AWS::IAM::Role").items():
        attached = {inner for arn in role.get("ManagedPolicyArns", []) for inner in refs(arn)}
        assert attached - {"AWS::NoValue"} <= own, name
        assert not any("arn:" in written(arn) for arn in role.get("ManagedPolicyArns", [])), name


def test_only_functions_that_commit_may_write_sessions(template: Template) -> None:
    committing = {
        template.folder(name)
        for name in template.functions
        if any(statement.get("Sid") == "Sessions" for statement in template.statements_of(name))
    }

    assert committing == COMMITTING


def test_a_function_receives_from_its_own_queues_only(template: Template) -> None:
    consumes: dict[str, set[str]] = {name: set() for name in template.functions}
    for function, queue, _ in template.queue_events():
        consumes[function].add(queue)

    for name, queues in consumes.items():
        receiving = [s for s in template.statements_of(name) if "sqs:ReceiveMessage" in as_list(s["Action"])]
        assert refs([s["Resource"] for s in receiving]) == queues, name


def test_the_one_role_that_is_passed_on_may_only_send_to_the_timers_queue(template: Template) -> None:
    passing = [s for _, s in template.statements() if "iam:PassRole" in as_list(s["Action"])]
    role = template.resources["SendTimersRole"]["Properties"]

    assert [s["Resource"] for s in passing] == [{"Fn::GetAtt": ["SendTimersRole", "Arn"]}]
    assert passing[0]["Condition"]["StringEquals"] == {"iam:PassedToService": "scheduler.amazonaws.com"}
    assert [s for holder, s in template.statements() if holder == "SendTimersRole"] == [
        {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": {"Fn::GetAtt": ["TimersQueue", "Arn"]}}
    ]
    assert "aws:SourceArn" in written(role["AssumeRolePolicyDocument"])


def test_a_secret_is_read_by_one_function_and_only_if_there_is_one(template: Template) -> None:
    readers = {
        template.folder(name): [
            (statement["Action"], target(statement["Resource"]))
            for statement in template.statements_of(name)
            if "secretsmanager" in written(statement["Action"])
        ]
        for name in template.functions
    }

    assert {folder: read for folder, read in readers.items() if read} == {
        folder: [("secretsmanager:GetSecretValue", parameter)] for folder, parameter, _ in SECRETS.values()
    }
    for folder, parameter, policy in SECRETS.values():
        condition = template.resources[policy]["Condition"]
        role = next(f["Role"] for name, f in template.functions.items() if template.folder(name) == folder)
        attached = template.resources[target(role)]["Properties"]["ManagedPolicyArns"]
        assert refs(template.document["Conditions"][condition]) == {parameter}
        assert {"Fn::If": [condition, {"Ref": policy}, {"Ref": "AWS::NoValue"}]} in attached


def test_the_value_of_a_secret_is_no_parameter_and_no_variable(template: Template) -> None:
    """An ARN may be seen by whoever may look at the stack; a value, or a reference that becomes one, would be too."""
    assert "{{resolve:" not in written(template.document)
    assert [name for name in template.document["Parameters"] if "Secret" in name and not name.endswith("Arn")] == []


# --- state -------------------------------------------------------------------------------------------------------


def test_the_table_has_the_keys_and_indexes_that_the_store_uses(template: Template) -> None:
    table = template.resources["SessionsTable"]["Properties"]
    indexes = {
        index["IndexName"]: ([key["AttributeName"] for key in index["KeySchema"]], index["Projection"])
        for index in table["GlobalSecondaryIndexes"]
    }
    types = {a["AttributeName"]: a["AttributeType"] for a in table["AttributeDefinitions"]}

    assert [key["AttributeName"] for key in table["KeySchema"]] == ["pk", "sk"]
    assert indexes == {
        keys.BY_OWNER: (["owner_key", "last_activity"], {"ProjectionType": "KEYS_ONLY"}),
        keys.BY_DUE: (["due_bucket", "due_at"], {"ProjectionType": "KEYS_ONLY"}),
    }
    assert types == {
        "pk": "S",
        "sk": "S",
        "owner_key": "S",
        "last_activity": "N",
        "due_bucket": "S",
        "due_at": "N",
    }
    assert table["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


def test_state_outlives_the_stack(template: Template) -> None:
    for name in ("SessionsTable", "BodiesBucket"):
        assert template.resources[name]["DeletionPolicy"] == "Retain"
        assert template.resources[name]["UpdateReplacePolicy"] == "Retain"


def test_the_bucket_is_private(template: Template) -> None:
    bucket = template.resources["BodiesBucket"]["Properties"]

    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert "BucketEncryption" in bucket


# --- APIs --------------------------------------------------------------------------------------------------------


def test_nobody_comes_in_without_a_token_a_ticket_or_a_signature(template: Template) -> None:
    routes = template.of_type("AWS::ApiGatewayV2::Route")
    guards = {route["RouteKey"]: route.get("AuthorizationType", "NONE") for route in routes.values()}

    assert guards == {
        "ANY /v1/{proxy+}": "JWT",
        "GET /healthz": "NONE",
        "GET /openapi.json": "NONE",
        "OPTIONS /v1/{proxy+}": "NONE",  # a preflight has no token, and changes nothing
        "POST /v1/hooks/{name}": "NONE",  # the function checks the signature
        "$connect": "CUSTOM",
        "$disconnect": "NONE",  # a connection exists only after $connect
        **dict.fromkeys(("$default", *ONE_WAY), "NONE"),
    }
    assert {name for name, r in template.resources.items() if r["Type"] == "AWS::Serverless::Api"} == {"StreamApi"}


def test_every_function_behind_an_api_may_be_called_by_that_api_only(template: Template) -> None:
    permissions = template.of_type("AWS::Lambda::Permission")
    sources = {target(p["FunctionName"]): p["SourceArn"]["Fn::Sub"] for p in permissions.values()}

    assert set(sources) == {
        "ApiFunction",
        "SocketFunction",
        "AuthorizeFunction",
        "StreamFunction",
        "AuthorizeStreamFunction",
    }
    assert "${StreamApi}/*" in sources["StreamFunction"]
    assert "${StreamApi}/authorizers/*" in sources["AuthorizeStreamFunction"]
    assert "${HttpApi}/*" in sources["ApiFunction"]
    assert "${SocketApi}/*" in sources["SocketFunction"]
    assert "${SocketApi}/authorizers/${SocketAuthorizer}" in sources["AuthorizeFunction"]


# --- names -------------------------------------------------------------------------------------------------------


def test_no_code_knows_the_name_of_a_resource() -> None:
    """The template is the only file with resource names; code gets them from its environment."""
    named = re.compile(r"arn:aws|amazonaws\.com")
    found = {
        str(path.relative_to(ROOT)): match.group()
        for folder in ("functions", "layers/runtime/perdure", "layers/agents")
        for path in (ROOT / folder).rglob("*.py")
        if "testing" not in path.parts and (match := named.search(path.read_text(encoding="utf-8")))
    }

    assert found == {}
