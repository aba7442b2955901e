"""What functions do on AWS, held against what their roles allow, call by call.

moto lets everybody do everything. A `Watch` looks at every call that a function of a `LambdaHarness` makes, before it
is sent: it keeps the action, the resource and what conditions can ask for, and answers `AccessDeniedException` when no
statement of the function's role allows it, as IAM would.

Understood is what `template.yaml` uses: `Allow` statements, `*` at the end of resources, and the conditions
`StringEquals` and `ForAllValues:StringLike`. Anything else in a role is an error, so that nothing passes unread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.testing.lambda_harness import LambdaHarness

Json = dict[str, Any]

WATCHERS: list[Callable[[LambdaHarness], None]] = []
"""Called with every harness that is made, so that a suite can watch all of them."""

_OPERATORS = ("StringEquals", "ForAllValues:StringLike")


@dataclass(frozen=True, slots=True)
class Use:
    """One thing that a call needs the permission for. `context`: values of IAM's condition keys, by key."""

    action: str
    resource: str
    context: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Grant:
    """One action on one resource that a role allows.

    Attributes:
        resource: An ARN, which may end in `*`.
        conditions: Operator, key and accepted values; all have to hold.
        written: How the template names the resource, for people.
    """

    action: str
    resource: str
    conditions: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    written: str = ""

    def __post_init__(self) -> None:
        unknown = [operator for operator, _, _ in self.conditions if operator not in _OPERATORS]
        if unknown or "*" in self.action:
            raise ValueError(f"a grant of {self.action} with {unknown or 'an open action'} is not understood here")

    def allows(self, use: Use) -> bool:
        if use.action != self.action or not fnmatchcase(use.resource, self.resource):
            return False
        context = dict(use.context)
        return all(_holds(operator, context.get(key, ()), values) for operator, key, values in self.conditions)


def _holds(operator: str, found: Sequence[str], accepted: Sequence[str]) -> bool:
    if operator == "StringEquals":
        return len(found) == 1 and found[0] in accepted
    return all(any(fnmatchcase(value, pattern) for pattern in accepted) for value in found)


@dataclass
class Watch:
    """Keeps what functions use, and refuses what their roles don't allow.

    Attributes:
        grants: What each function's role allows, by folder of the function.
        used: What each function used so far.
        refused: Function and use, of everything that was refused.
    """

    grants: Mapping[str, Sequence[Grant]]
    account: str = "123456789012"
    used: dict[str, set[Use]] = field(default_factory=dict)
    refused: list[tuple[str, Use]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._allowed: set[tuple[str, Use]] = set()

    def attach(self, client: Any, running: Callable[[], str | None]) -> None:
        """Watch one client. `running` names the function that makes the call; None: the call is not a function's."""
        region = client.meta.region_name

        def called(params: Json, model: Any, **_: Any) -> None:
            function = running()
            if function is not None:
                service = model.service_model.service_name
                for use in _uses(service, model.name, params, f"{region}:{self.account}", client):
                    self.check(function, use, model.name)

        client.meta.events.register("provide-client-params.*.*", called)

    def check(self, function: str, use: Use, operation: str) -> None:
        """Keep one use of a function.

        Raises:
            ClientError: `AccessDeniedException`, as the service would answer the operation.
        """
        with self._lock:
            if (function, use) in self._allowed:
                return
            self.used.setdefault(function, set()).add(use)
            if any(grant.allows(use) for grant in self.grants.get(function, ())):
                self._allowed.add((function, use))
                return
            self.refused.append((function, use))
        from botocore.exceptions import ClientError

        said = f"{function} is not authorized to perform: {use.action} on resource: {use.resource}"
        answer: Any = {
            "Error": {"Code": "AccessDeniedException", "Message": said},
            "ResponseMetadata": {"HTTPStatusCode": 400},
        }
        raise ClientError(answer, operation)

    def take_refused(self) -> list[tuple[str, Use]]:
        """Return what was refused since the last time."""
        with self._lock:
            taken, self.refused = self.refused, []
        return taken

    def unused(self, function: str) -> list[Grant]:
        """Return the grants of a function that nothing it did needed."""
        used = self.used.get(function, set())
        return [grant for grant in self.grants[function] if not any(grant.allows(use) for use in used)]

    def missing(self, function: str) -> list[Use]:
        """Return what a function did and may not do."""
        return sorted((use for name, use in self.refused if name == function), key=str)


# --- what a call needs -------------------------------------------------------------------------------------------


def _uses(service: str, operation: str, params: Json, place: str, client: Any) -> list[Use]:
    """Return what a call has to be allowed, by the service authorization reference."""
    if service == "dynamodb":
        return _table_uses(operation, params, place)
    if service == "sqs":
        name = params["QueueUrl"].rsplit("/", 1)[-1]
        return [Use(f"sqs:{operation}", f"arn:aws:sqs:{place}:{name}")]
    if service == "s3":
        return [Use(f"s3:{operation}", f"arn:aws:s3:::{params['Bucket']}/{params['Key']}")]
    if service == "scheduler":
        schedule = f"arn:aws:scheduler:{place}:schedule/{params['GroupName']}/{params['Name']}"
        uses = [Use(f"scheduler:{operation}", schedule)]
        if "Target" in params:
            passed = (("iam:PassedToService", ("scheduler.amazonaws.com",)),)
            uses.append(Use("iam:PassRole", params["Target"]["RoleArn"], passed))
        return uses
    if service == "apigatewaymanagementapi":
        host, _, stage = client.meta.endpoint_url.removeprefix("https://").partition("/")
        method = "DELETE" if operation == "DeleteConnection" else "POST"
        connections = f"arn:aws:execute-api:{place}:{host.partition('.')[0]}/{stage}/{method}/@connections"
        return [Use("execute-api:ManageConnections", f"{connections}/{params['ConnectionId']}")]
    if service == "secretsmanager":
        # A secret's ARN ends in six characters that nobody chooses.
        return [Use(f"secretsmanager:{operation}", params["SecretId"].rpartition("-")[0])]
    raise AssertionError(f"nobody has said which permission {service}:{operation} needs: add it here")


def _table_uses(operation: str, params: Json, place: str) -> list[Use]:
    if operation == "BatchGetItem":
        asked = {name: [key["pk"]["S"] for key in wanted["Keys"]] for name, wanted in params["RequestItems"].items()}
    else:
        asked = {params["TableName"]: [_partition(params)]}
    index = f"/index/{params['IndexName']}" if "IndexName" in params else ""
    uses = []
    for name, partitions in asked.items():
        # Sessions are many, and kinds of partitions few: `#ticket#…`, `#connection#…` and the others.
        kinds = sorted({_kind(partition) for partition in partitions})
        table = f"arn:aws:dynamodb:{place}:table/{name}{index}"
        uses.append(Use(f"dynamodb:{operation}", table, (("dynamodb:LeadingKeys", tuple(kinds)),)))
    return uses


def _partition(params: Json) -> str:
    found = params.get("Key") or params.get("Item")
    if found:
        return str(found["pk"]["S"])
    name = params["KeyConditionExpression"].partition(" = ")[2].split()[0]
    return str(params["ExpressionAttributeValues"][name]["S"])


def _kind(partition: str) -> str:
    """Return a partition key without what is one session's, ticket's or connection's own."""
    if partition.startswith("#"):
        return f"#{partition.split('#')[1]}#one"
    return f"{partition.partition('#')[0]}#one"
