"""The roles of `template.yaml` as grants on what `AwsInProcess` makes."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from perdure.aws.clients import Clients
from perdure.testing.lambda_harness import LambdaHarness
from perdure.testing.moto import BUCKET_NAME, QUEUES, REGION, SCHEDULE_GROUP, TABLE_NAME, AwsInProcess
from perdure.testing.permissions import Grant, Watch
from tests.build.cloudformation import Template, as_list, read_template

ACCOUNT = "123456789012"
MODEL_KEY, WEBHOOK_SECRETS = "model-key", "webhook-secrets"
"""Names of the secrets that stand for the parameters `ModelKeySecretArn` and `WebhookSecretsArn`."""

_QUEUES = {f"{''.join(word.capitalize() for word in name.split('-'))}Queue": name for name in QUEUES}
_NAMES = {
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::AccountId": ACCOUNT,
    "SessionsTable.Arn": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{TABLE_NAME}",
    "SessionsTable.StreamArn": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{TABLE_NAME}/stream/now",
    "BodiesBucket.Arn": f"arn:aws:s3:::{BUCKET_NAME}",
    "TimersScheduleGroup": SCHEDULE_GROUP,
    "SendTimersRole.Arn": AwsInProcess.schedule_role_arn,
    "SocketApi": "socket",
    "StageName": "live",
    "ModelKeySecretArn": f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:{MODEL_KEY}",
    "WebhookSecretsArn": f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:{WEBHOOK_SECRETS}",
    **{f"{name}.Arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}" for name, queue in _QUEUES.items()},
    **{
        f"{name.removesuffix('Queue')}DeadLetters.Arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}-dead-letters"
        for name, queue in _QUEUES.items()
    },
}


USED_BY_LAMBDA = {
    "logs:CreateLogStream": "Lambda writes the function's log, with the function's role",
    "logs:PutLogEvents": "Lambda writes the function's log, with the function's role",
    "sqs:ReceiveMessage": "Lambda's event source mapping polls the queue, with the function's role",
    "sqs:DeleteMessage": "Lambda's event source mapping deletes what was answered, with the function's role",
    **dict.fromkeys(
        ("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:ListStreams"),
        "Lambda's event source mapping reads the table's stream, with the function's role",
    ),
    "sqs:GetQueueAttributes": "Lambda's event source mapping asks for the queue's length, with the function's role",
}
"""Actions that no call of ours needs, each with the reason why the roles grant them."""


def grants_of_template() -> dict[str, list[Grant]]:
    """Return what each function's role allows, by folder of the function."""
    return {folder: list(grants) for folder, grants in _grants().items()}


@cache
def _grants() -> dict[str, tuple[Grant, ...]]:
    template = Template(read_template())
    return {template.folder(name): tuple(grants_of_function(template, name)) for name in template.functions}


def grants_of_function(template: Template, function: str) -> list[Grant]:
    grants = []
    for statement in template.statements_of(function):
        assert statement["Effect"] == "Allow", "a Deny in a role is not understood here"
        conditions = tuple(
            (operator, key, tuple(as_list(values)))
            for operator, keys in statement.get("Condition", {}).items()
            for key, values in keys.items()
        )
        for action in as_list(statement["Action"]):
            for resource in as_list(statement["Resource"]):
                arn, written = _arn_of(resource)
                grants.append(Grant(action, arn, conditions, written))
    return grants


def _arn_of(value: Any) -> tuple[str, str]:
    """Return a resource of a statement as an ARN, and as the template names it."""
    if "Fn::Sub" in value:
        text = value["Fn::Sub"]
        named = [name for name in re.findall(r"\$\{([^}]+)\}", text) if not name.startswith("AWS::")]
        tail = text.rsplit("}", 1)[-1]
        return re.sub(r"\$\{([^}]+)\}", lambda f: _name(f.group(1)), text), named[0].split(".")[0] + tail
    name = value["Ref"] if "Ref" in value else ".".join(value["Fn::GetAtt"])
    return _name(name), name.split(".")[0]


def _name(name: str) -> str:
    if name.endswith("Logs.Arn"):
        return f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{name.split('.', maxsplit=1)[0]}:*"
    return _NAMES[name]


def clients_of(clients: Clients) -> list[Any]:
    return [clients.dynamodb, clients.sqs, clients.scheduler, clients.s3, clients.connections, clients.secrets]


def watch(harness: LambdaHarness, watch: Watch | None = None) -> Watch:
    """Watch a harness from now on; None: by a watch of its own."""
    watch = watch or Watch(grants_of_template())
    for client in clients_of(harness.aws.clients):
        watch.attach(client, lambda: harness.running)
    return watch
