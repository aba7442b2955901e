"""What delivers events to sinks: made only where there are sinks, and told of every commit."""

from __future__ import annotations

import json

import pytest

from perdure.aws import keys
from tests.build.cloudformation import Template, read_template, refs
from tests.unit.functions.test_alarms import watched
from tests.unit.functions.test_template import WITHOUT_DEAD_LETTERS


@pytest.fixture(scope="module")
def template() -> Template:
    return Template(read_template())


def test_sinks_cost_nothing_where_there_are_none(template: Template) -> None:
    parameter = template.document["Parameters"]["DeliverNotices"]
    of_sinks = {name for name, r in template.resources.items() if r.get("Condition") == "DeliversNotices"}
    rest = {name: r for name, r in template.resources.items() if name not in of_sinks}

    assert parameter["Default"] == "off"
    assert {n for n in template.functions if template.folder(n) in ("relay_commits", "deliver_notices")} < of_sinks
    assert {name for name, r in rest.items() if refs(r) & of_sinks} == set(), "what is always there needs none of it"
    assert template.resources["SessionsTable"]["Properties"]["StreamSpecification"] == {
        "Fn::If": ["DeliversNotices", {"StreamViewType": "KEYS_ONLY"}, {"Ref": "AWS::NoValue"}]
    }
    assert template.globals["Environment"]["Variables"]["NOTICES_QUEUE_URL"] == {
        "Fn::If": ["DeliversNotices", {"Ref": "NoticesQueue"}, ""]
    }


def test_only_records_of_sessions_come_out_of_the_tables_stream(template: Template) -> None:
    (stream,) = (e["Properties"] for e in template.functions["RelayCommitsFunction"]["Events"].values())
    (pattern,) = (json.loads(filtered["Pattern"]) for filtered in stream["FilterCriteria"]["Filters"])

    assert pattern == {"eventName": ["INSERT", "MODIFY"], "dynamodb": {"Keys": {"sk": {"S": [keys.HEAD]}}}}
    assert stream["StartingPosition"] == "TRIM_HORIZON", "what is committed while the stack changes is told of"
    assert not {"MaximumRetryAttempts", "MaximumRecordAgeInSeconds"} & set(stream), "nothing is skipped"


def test_the_functions_of_sinks_and_what_they_wait_for_are_watched(template: Template) -> None:
    alarms = template.of_type("AWS::CloudWatch::Alarm")

    assert watched(alarms["NoticesErrorsAlarm"]) == {"RelayCommitsFunction", "DeliverNoticesFunction"}
    assert watched(alarms["NoticesLateAlarm"]) == WITHOUT_DEAD_LETTERS | {"RelayCommitsFunction"}
