"""The alarms of `template.yaml`: every queue and every function is watched by one, and somebody is told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.build.cloudformation import Template, read_template, refs, written
from tests.unit.functions.test_template import WITHOUT_DEAD_LETTERS


@pytest.fixture(scope="module")
def template() -> Template:
    return Template(read_template())


def watched(alarm: dict[str, Any]) -> set[str]:
    """Return the logical ids whose metrics an alarm looks at."""
    return refs(alarm.get("Dimensions", [])) | refs(alarm.get("Metrics", []))


def test_every_alarm_goes_to_the_topic_if_there_is_one(template: Template) -> None:
    to_topic = {"Fn::If": ["HasAlarmTopic", [{"Ref": "AlarmTopicArn"}], {"Ref": "AWS::NoValue"}]}

    for name, alarm in template.of_type("AWS::CloudWatch::Alarm").items():
        assert alarm["AlarmActions"] == alarm["OKActions"] == to_topic, name
        assert alarm["AlarmDescription"], name


def test_every_queue_and_function_is_watched(template: Template) -> None:
    alarms = template.of_type("AWS::CloudWatch::Alarm")
    queues = template.of_type("AWS::SQS::Queue")
    dead = {name for name in queues if name.endswith("DeadLetters")}
    functions = set(template.functions) - watched(alarms["NoticesErrorsAlarm"])

    assert watched(alarms["DeadLettersAlarm"]) == dead
    assert watched(alarms["DeadLettersStuckAlarm"]) == dead
    assert watched(alarms["OldestMessageAlarm"]) == set(queues) - dead - WITHOUT_DEAD_LETTERS
    assert watched(alarms["FunctionErrorsAlarm"]) | watched(alarms["SweepErrorsAlarm"]) | watched(
        alarms["StreamErrorsAlarm"]
    ) == functions - {"AuthorizeStreamFunction"}, (
        "its errors are 401s; what else fails in it is a 5XX of the stream API"
    )
    assert '"MetricName": "5XXError"' in written(alarms["StreamErrorsAlarm"])
    assert watched(alarms["FunctionThrottlesAlarm"]) | watched(alarms["StepThrottlesAlarm"]) == functions
    assert alarms["SweepMissingAlarm"]["TreatMissingData"] == "breaching"


def test_a_session_that_the_sweep_can_not_look_after_raises_its_alarm(template: Template) -> None:
    counted = template.of_type("AWS::Logs::MetricFilter")["SweepTroubles"]
    alarm = template.of_type("AWS::CloudWatch::Alarm")["SweepErrorsAlarm"]
    (into,) = counted["MetricTransformations"]
    metric = {"Namespace": into["MetricNamespace"], "MetricName": into["MetricName"]}

    assert counted["LogGroupName"] == template.functions["SweepFunction"]["LoggingConfig"]["LogGroup"]
    assert counted["FilterPattern"] == '{ $.level = "ERROR" }'
    assert template.functions["SweepFunction"]["LoggingConfig"]["LogFormat"] == "JSON"
    assert metric in [m["MetricStat"]["Metric"] for m in alarm["Metrics"] if "MetricStat" in m]
