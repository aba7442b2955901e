"""What functions really call, held against what their roles allow, both ways.

Every harness of the whole suite is watched besides (`tests/conftest.py`): whatever a test makes a function do, its role
has to allow it. `make permissions` prints what was used, granted, and the difference.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from perdure.aws.keys import session_key
from perdure.aws.model_key import KEY_VARIABLE
from perdure.aws.tickets import TicketHolder
from perdure.core.cursor import Cursor
from perdure.core.entries import Actor
from perdure.ports import SessionKey
from perdure.streams.delivery import Attachment
from perdure.testing.gateway import Connection
from perdure.testing.lambda_harness import LambdaHarness
from perdure.testing.permissions import Grant, Use, Watch
from tests.audit.course_agents import HOOK_SECRETS
from tests.audit.courses import live_through_everything
from tests.audit.report import report
from tests.audit.roles import MODEL_KEY, USED_BY_LAMBDA, WEBHOOK_SECRETS, grants_of_template, watch
from tests.build.cloudformation import Template, as_list, read_template
from tests.handlers.conftest import harness

__all__ = ["harness"]

END_CONNECTIONS = "SocketApi/DELETE/@connections/*"


def names(grants: list[Grant]) -> set[tuple[str, str]]:
    return {(grant.action, grant.written) for grant in grants}


def let_an_old_viewer_watch(harness: LambdaHarness, event: object) -> None:
    """Subscribe a viewer whose token has ended to the session of an event, or to all when it names none.

    Whoever commits next ends its connection.
    """
    running, harness.running = harness.running, None
    found = re.search(r"sessions/([A-Za-z0-9._:-]+)|session_id\W+([A-Za-z0-9._:-]+)", json.dumps(event, default=str))
    rows = [] if found else harness.aws.clients.dynamodb.scan(TableName=harness.aws.table)["Items"]
    all_of_them = [session_key(row["pk"]["S"]) for row in rows if row["sk"]["S"] == "HEAD"]
    container = harness._new_container("socket")
    for key in [SessionKey("acme", found[1] or found[2])] if found else all_of_them:
        connection = Connection(f"old{len(harness.gateway.connections)}=", authorizer={})
        harness.gateway.connections[connection.connection_id] = connection
        actor = Actor(issuer="https://issuer.example.com/", subject="ann")
        holder = TicketHolder(tenant=key.tenant, actor=actor, until=harness.clock.now())
        state = Attachment(key.session_id, Cursor().encode(key.session_id)).state()
        container.run(container.subscriptions.add(key, connection.connection_id, holder, state=state))
    harness.running = running


@pytest.mark.slow
def test_every_function_uses_all_that_its_role_allows_and_nothing_else(
    harness: LambdaHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "")
    secret = harness.aws.clients.secrets.create_secret(Name=MODEL_KEY, SecretString="sk-7")["ARN"]
    seen = watch(harness)
    hooks = harness.aws.clients.secrets.create_secret(Name=WEBHOOK_SECRETS, SecretString=HOOK_SECRETS)["ARN"]
    plain = harness._settings
    settings = {
        "run_model": dataclasses.replace(plain, model_key_secret_arn=secret),
        "api": dataclasses.replace(plain, webhook_secrets_arn=hooks),
    }

    def before(function: str, event: object) -> None:
        harness._settings = settings.get(function, plain)
        if ("execute-api:ManageConnections", END_CONNECTIONS) in names(seen.unused(function)):
            let_an_old_viewer_watch(harness, event)

    harness.before_invocation = before

    live_through_everything(harness)

    assert {name: seen.missing(name) for name in seen.grants if seen.missing(name)} == {}
    idle = {name: {g for g in names(seen.unused(name)) if g[0] not in USED_BY_LAMBDA} for name in seen.grants}
    assert {name: grants for name, grants in idle.items() if grants} == {}


def test_what_lambda_uses_itself_is_used_by_nobody_else(harness: LambdaHarness) -> None:
    """An entry of the table above that a function does use would hide a grant that has become too wide."""
    source = " ".join(path.read_text() for path in Path(harness.functions.parent / "layers").rglob("aws/*.py"))

    for action in USED_BY_LAMBDA:
        operation = action.partition(":")[2]
        snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in operation).lstrip("_")
        assert snake not in source, action


# --- the watch itself ------------------------------------------------------------------------------------------------


def test_a_call_that_the_role_does_not_allow_is_refused_as_on_aws_and_remembered(harness: LambdaHarness) -> None:
    grants = grants_of_template()
    grants["api"] = [grant for grant in grants["api"] if grant.action != "dynamodb:UpdateItem"]
    seen = watch(harness, Watch(grants))

    reply = harness.gateway.http("POST", "/v1/sessions/case-42/inputs", {"text": "Where is order 7?"})

    assert reply.status == 500
    assert [use.action for use in seen.missing("api")] == ["dynamodb:UpdateItem"]


@pytest.mark.parametrize(
    ("use", "allowed"),
    [
        (Use("s3:GetObject", "arn:aws:s3:::b/sessions/1"), True),
        (Use("s3:GetObject", "arn:aws:s3:::b/other/1"), False),
        (Use("s3:PutObject", "arn:aws:s3:::b/sessions/1"), False),
    ],
)
def test_a_grant_allows_its_action_on_its_resource_only(use: Use, allowed: bool) -> None:
    assert Grant("s3:GetObject", "arn:aws:s3:::b/sessions/*").allows(use) is allowed


@pytest.mark.parametrize(
    ("found", "allowed"), [((), False), (("scheduler.amazonaws.com",), True), (("lambda.amazonaws.com",), False)]
)
def test_a_role_is_passed_to_the_service_that_the_condition_names_only(found: tuple[str, ...], allowed: bool) -> None:
    condition = ("StringEquals", "iam:PassedToService", ("scheduler.amazonaws.com",))
    grant = Grant("iam:PassRole", "arn:role", (condition,))

    assert grant.allows(Use("iam:PassRole", "arn:role", (("iam:PassedToService", found),))) is allowed


def test_a_condition_on_leading_keys_holds_for_all_of_them() -> None:
    condition = ("ForAllValues:StringLike", "dynamodb:LeadingKeys", ("#ticket#*",))
    grant = Grant("dynamodb:GetItem", "arn:table", (condition,))

    for keys, allowed in ((("#ticket#one",), True), (("#ticket#one", "acme#one"), False)):
        assert grant.allows(Use("dynamodb:GetItem", "arn:table", (("dynamodb:LeadingKeys", keys),))) is allowed


def test_a_condition_that_the_watch_does_not_understand_is_an_error() -> None:
    with pytest.raises(ValueError, match="not understood"):
        Grant("s3:GetObject", "arn", (("IpAddress", "aws:SourceIp", ("203.0.113.0/24",)),))


def test_the_report_names_what_is_missing_and_what_is_idle() -> None:
    table, queue = Grant("dynamodb:GetItem", "arn:t", (), "Table"), Grant("sqs:SendMessage", "arn:q", (), "Queue")
    seen = Watch({"api": [table, queue]})
    with contextlib.suppress(ClientError):
        seen.check("api", Use("dynamodb:GetItem", "arn:t"), "GetItem")
        seen.check("api", Use("s3:GetObject", "arn:b"), "GetObject")

    told = report(seen)

    assert "unused: Queue" in told
    assert "MISSING: arn:b" in told
    assert told.endswith("2 different uses; used and not granted: 1; granted and not used: 1")


def test_every_statement_of_every_role_is_read() -> None:
    template = Template(read_template())
    grants = grants_of_template()

    for name in template.functions:
        actions = {action for s in template.statements_of(name) for action in as_list(s["Action"])}
        assert {grant.action for grant in grants[template.folder(name)]} == actions, name
