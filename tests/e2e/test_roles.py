"""The stack on an AWS that checks signatures and roles: no function does more than its role allows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.e2e.emulator import ACCOUNT, REGION, ROOT
from tests.e2e.people import ended
from tests.e2e.test_faults import Tour
from tests.e2e.test_outsiders import PARCEL, told
from tests.e2e.test_remote_work import BUILD
from tests.e2e.world import World, deployed

REFUSED = ("AccessDenied", "not authorized", "Forbidden", "SignatureDoesNotMatch")


@pytest.fixture(scope="module")
def guarded() -> Iterator[World]:
    with deployed(ROOT / "build" / "e2e-roles", guarded=True) as world:
        # ministack looks for schedules of every group in the default one, when it asks who may delete them.
        statement = {
            "Effect": "Allow",
            "Action": "scheduler:DeleteSchedule",
            "Resource": f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/default/*",
        }
        world.stack.client("iam").put_role_policy(
            RoleName=world.stack.ids["ApiRole"],
            PolicyName="for-ministack",
            PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [statement]}),
        )
        yield world


def client_of(guarded: World, service: str, name: str, **may: str) -> Any:
    """Return a client of a new user who may do exactly this."""
    iam = guarded.stack.client("iam")
    iam.create_user(UserName=name)
    for action, resource in may.items():
        statement = {"Effect": "Allow", "Action": action.replace("_", ":"), "Resource": resource}
        document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        iam.put_user_policy(UserName=name, PolicyName=action, PolicyDocument=document)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    make: Any = boto3.client
    return make(
        service,
        region_name=REGION,
        endpoint_url=guarded.emulator.url,
        aws_access_key_id=key["AccessKeyId"],
        aws_secret_access_key=key["SecretAccessKey"],
    )


def test_somebody_without_a_permission_is_refused(guarded: World) -> None:
    dynamodb = client_of(guarded, "dynamodb", "nobody")

    with pytest.raises(ClientError) as raised:
        dynamodb.scan(TableName=guarded.stack.outputs["SessionsTableName"])
    assert raised.value.response["Error"]["Code"] == "AccessDeniedException"


def test_the_bucket_refuses_a_connection_without_tls(guarded: World) -> None:
    bucket = guarded.stack.outputs["BodiesBucketName"]
    s3 = client_of(guarded, "s3", "writer", s3_PutObject=f"arn:aws:s3:::{bucket}/*")

    with pytest.raises(ClientError) as raised:
        s3.put_object(Bucket=bucket, Key="sessions/x", Body=b"x")
    assert "explicit deny" in raised.value.response["Error"]["Message"]


async def test_roles_allow_all_that_functions_do(guarded: World) -> None:
    # Functions reach the emulator without TLS.
    guarded.stack.client("s3").delete_bucket_policy(Bucket=guarded.stack.outputs["BodiesBucketName"])
    tour = Tour(guarded, "guarded")
    await tour.go()
    await tour.check()
    event = await told(guarded, PARCEL)
    async with guarded.user().session("guarded-builds") as session:
        await session.send(BUILD % 3)
        built = await ended(session)
    guarded.stack.save_logs(guarded.folder)

    logs = {path.stem: path.read_text(encoding="utf-8") for path in guarded.folder.glob("*.log")}
    assert [name for name, text in logs.items() if any(word in text for word in REFUSED)] == []
    assert tour.viewer.events, "functions may post to connections"
    assert event.status_code == 202, "the API may read what webhooks are signed with"
    assert [call["status"] for call in built["tool_calls"]] == ["succeeded"]
