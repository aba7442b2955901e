"""What an operator relies on in `template.yaml`: checked parameters, encrypted state, alarms, and what is told."""

from __future__ import annotations

import logging
import re
from datetime import timedelta
from typing import Any, get_args

import pytest

from perdure.operator_events import OperatorEvent
from perdure.steps.firing import MAX_FIRING_TIMERS
from perdure.testing.lambda_harness import SWEEP_EVERY, LambdaHarness
from tests.build.cloudformation import ROOT, Template, read_template, refs, written
from tests.handlers.agents import send
from tests.handlers.conftest import harness

__all__ = ["harness"]

OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")

ALARM_DOLLARS, OWN_METRIC_DOLLARS = 0.10, 0.30
"""A month of one metric that an alarm looks at, and of one metric of our own (price pages of 2026)."""

STATEFUL = ("AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::SQS::Queue", "AWS::Logs::LogGroup")


@pytest.fixture(scope="module")
def template() -> Template:
    return Template(read_template())


# --- parameters ------------------------------------------------------------------------------------------------------


def accepts(parameter: dict[str, Any], value: str) -> bool:
    """Whether CloudFormation takes a value, by the rules of the parameter."""
    if "AllowedValues" in parameter and value not in map(str, parameter["AllowedValues"]):
        return False
    if parameter["Type"] == "Number":
        return parameter.get("MinValue", 0) <= float(value) <= parameter.get("MaxValue", float("inf"))
    values = value.split(",") if parameter["Type"] == "CommaDelimitedList" else [value]
    pattern = parameter.get("AllowedPattern", ".*")
    return all(re.fullmatch(pattern, part) for part in values)


def test_every_parameter_is_checked_before_anything_is_made_of_it(template: Template) -> None:
    for name, parameter in template.document["Parameters"].items():
        assert parameter["Description"], name
        if parameter["Type"] == "Number":
            assert "AllowedValues" in parameter or {"MinValue", "MaxValue"} <= set(parameter), name
        else:
            assert {"AllowedPattern", "ConstraintDescription"} <= set(parameter) or "AllowedValues" in parameter, name
        if "Default" in parameter:
            assert accepts(parameter, str(parameter["Default"])), name


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("StageName", ["live", "a" * 64], ["", "a/b", "a" * 65]),
        ("JwtIssuer", ["https://issuer.example.com/"], ["", "http://issuer.example.com", "issuer.example.com"]),
        ("JwtAudience", ["web", "web,mobile"], ["", "web,"]),
        ("TenantClaim", ["tenant", "custom:tenant", "https://example.com/tenant"], ["", "t" * 129]),
        (
            "AllowedOrigins",
            ["", "https://app.example.com,http://localhost:5173"],
            ["*", "app.example.com", "https://a/"],
        ),
        ("WebhookSecretsArn", ["", "arn:aws:secretsmanager:eu-west-1:1:secret:h-AbCdEf"], ["whsec_x", "arn:aws:ssm:x"]),
        ("AgentsModule", ["agents:agents", "shop.agents:all_of_them"], ["agents", "agents:", "a-b:c", "agents:a.b"]),
        ("ModelKeySecretArn", ["", "arn:aws:secretsmanager:eu-west-1:1:secret:k-AbCdEf"], ["my-key", "arn:aws:ssm:x"]),
        ("DeliverNotices", ["on", "off"], ["", "yes"]),
        ("ModelBaseUrl", ["", "https://models.example.com/v1"], ["models.example.com"]),
        ("AlarmTopicArn", ["", "arn:aws:sns:eu-west-1:123456789012:alarms"], ["alarms", "arn:aws:sqs:x"]),
        ("LogRetentionDays", ["1", "3653"], ["0", "2", "10000"]),
        ("LogLevel", ["DEBUG", "ERROR"], ["debug", "TRACE"]),
        (
            "WebAdapterLayerArn",
            ["", "arn:aws:lambda:eu-west-1:753240598075:layer:LambdaAdapterLayerArm64:28"],
            ["LambdaAdapterLayerArm64:28", "arn:aws:lambda:eu-west-1:753240598075:layer:LambdaAdapterLayerArm64"],
        ),
        ("StreamSeconds", ["60", "900"], ["59", "901"]),
        ("StreamAccessLogs", ["on", "off"], ["", "yes"]),
        ("StreamConcurrency", ["0", "10000"], ["-1", "10001"]),
        ("RequestRate", ["1", "10000"], ["0", "10001"]),
        ("RequestBurst", ["1", "5000"], ["0", "5001"]),
        ("StepConcurrency", ["2", "1000"], ["1", "1001"]),
    ],
)
def test_a_parameter_takes_what_makes_sense_and_nothing_else(
    template: Template, name: str, good: list[str], bad: list[str]
) -> None:
    parameter = template.document["Parameters"][name]

    assert [value for value in good if not accepts(parameter, value)] == []
    assert [value for value in bad if accepts(parameter, value)] == []


def test_every_parameter_is_used_and_shown_in_one_group(template: Template) -> None:
    parameters = set(template.document["Parameters"])
    groups = template.document["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    shown = [name for group in groups for name in group["Parameters"]]
    rest = {name: part for name, part in template.document.items() if name not in ("Parameters", "Metadata")}
    text = written(rest)

    assert sorted(shown) == sorted(parameters)
    assert [name for name in parameters if name not in refs(rest) and f"${{{name}}}" not in text] == []


# --- state -----------------------------------------------------------------------------------------------------------


def test_everything_that_keeps_something_says_what_becomes_of_it(template: Template) -> None:
    kept = {name: r for name, r in template.resources.items() if r["Type"] in STATEFUL}
    policies = {name: (r.get("DeletionPolicy"), r.get("UpdateReplacePolicy")) for name, r in kept.items()}

    assert {name for name, policy in policies.items() if policy == ("Retain", "Retain")} == {
        "SessionsTable",
        "BodiesBucket",
    }
    assert {p for name, p in policies.items() if name not in ("SessionsTable", "BodiesBucket")} == {
        ("Delete", "Delete")
    }


def test_the_table_can_not_be_deleted_by_mistake_and_can_be_put_back_to_any_second(template: Template) -> None:
    table = template.resources["SessionsTable"]["Properties"]

    assert table["DeletionProtectionEnabled"] is True
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert table["BillingMode"] == "PAY_PER_REQUEST"


def test_what_is_kept_is_encrypted(template: Template) -> None:
    bucket = template.resources["BodiesBucket"]["Properties"]
    (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]

    assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    assert all(queue["SqsManagedSseEnabled"] is True for queue in template.of_type("AWS::SQS::Queue").values())
    # No key of its own: DynamoDB then encrypts with one that it owns. A key of ours would need permissions for it.
    assert "SSESpecification" not in template.resources["SessionsTable"]["Properties"]


def test_work_has_a_ceiling(template: Template) -> None:
    ceilings = {queue: event.get("ScalingConfig") for _, queue, event in template.queue_events()}
    stages = template.of_type("AWS::ApiGatewayV2::Stage").values()

    steps = ("RunModelQueue", "CallToolQueue", "CallSingleAttemptToolQueue", "PollToolTaskQueue", "CancelToolTaskQueue")
    assert {queue: written(scaling) for queue, scaling in ceilings.items() if scaling} == {
        **dict.fromkeys(steps, '{"MaximumConcurrency": {"Ref": "StepConcurrency"}}'),
        "TimersQueue": f'{{"MaximumConcurrency": {MAX_FIRING_TIMERS}}}',  # SCHD-05
        "NoticesQueue": '{"MaximumConcurrency": 32}',
    }
    for stage in stages:
        assert refs(stage["DefaultRouteSettings"]) == {"RequestRate", "RequestBurst"}


def test_the_template_switches_no_lint_rule_off() -> None:
    text = (ROOT / "template.yaml").read_text(encoding="utf-8")

    assert "cfn-lint" not in text
    assert not list(ROOT.glob(".cfnlintrc*"))
    assert "--include-checks I" in (ROOT / "Makefile").read_text(encoding="utf-8")


# --- alarms ----------------------------------------------------------------------------------------------------------

THRESHOLDS = {
    # alarm: (threshold, periods in a row, period in seconds)
    "DeadLettersAlarm": (1, 1, 60),
    "DeadLettersStuckAlarm": (1, 3, 300),
    "OldestMessageAlarm": (1800, 3, 60),
    "SweepMissingAlarm": (1, 5, 60),
    "SweepLateAlarm": (300, 3, 60),
    "SweepErrorsAlarm": (1, 5, 60),
    "SchedulesFailAlarm": (1, 1, 300),
    "ApiErrorsAlarm": (5, 1, 300),
    "StreamErrorsAlarm": (5, 1, 300),
    "FunctionErrorsAlarm": (1, 1, 300),
    "FunctionThrottlesAlarm": (1, 1, 300),
    "StepThrottlesAlarm": (1, 1, 300),
    "TableThrottlesAlarm": (1, 3, 300),
    "NoticesErrorsAlarm": (1, 1, 300),
    "NoticesLateAlarm": (1800, 3, 60),
    "SinkTroublesAlarm": (1, 6, 300),
}


def metrics_of(alarm: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the metrics that an alarm looks at, each with its statistic and period."""
    if "Metrics" not in alarm:
        return [{"Metric": alarm, "Stat": alarm["Statistic"], "Period": alarm["Period"]}]
    return [metric["MetricStat"] for metric in alarm["Metrics"] if "MetricStat" in metric]


def test_every_alarm_has_the_threshold_that_was_thought_about(template: Template) -> None:
    found = {
        name: (alarm["Threshold"], alarm["EvaluationPeriods"], metrics_of(alarm)[0]["Period"])
        for name, alarm in template.of_type("AWS::CloudWatch::Alarm").items()
    }

    assert found == THRESHOLDS
    for name, alarm in template.of_type("AWS::CloudWatch::Alarm").items():
        assert len({metric["Period"] for metric in metrics_of(alarm)}) == 1, name
        assert len(metrics_of(alarm)) <= 10, f"{name}: a metric expression takes ten metrics at most"
        assert alarm["TreatMissingData"] == ("breaching" if name == "SweepMissingAlarm" else "notBreaching"), name


def test_no_alarm_is_raised_by_what_happens_every_day(template: Template) -> None:
    longest_step = timedelta(seconds=max(function["Timeout"] for function in template.functions.values()))
    longest_delay = timedelta(minutes=15)
    usual_lateness = SWEEP_EVERY + timedelta(minutes=1)  # due times are rounded up to whole minutes

    assert timedelta(seconds=THRESHOLDS["OldestMessageAlarm"][0]) >= longest_step + longest_delay
    assert timedelta(seconds=THRESHOLDS["SweepLateAlarm"][0]) > 2 * usual_lateness


def test_the_sweep_tells_how_late_it_is_in_the_field_that_the_alarm_reads(
    template: Template, harness: LambdaHarness, caplog: pytest.LogCaptureFixture
) -> None:
    lateness = template.of_type("AWS::Logs::MetricFilter")["SweepLateness"]
    (into,) = lateness["MetricTransformations"]
    alarm = template.of_type("AWS::CloudWatch::Alarm")["SweepLateAlarm"]
    send(harness, "Where is order 7?")
    harness.clock.advance(11 * 60)  # the sweep does not run

    with caplog.at_level(logging.INFO, "perdure"):
        harness.sweep()
        harness.sweep()

    (record,) = [record for record in caplog.records if hasattr(record, "late_seconds")]
    assert record.late_seconds == 10 * 60, "due 30 s after it was sent, in whole minutes"
    assert lateness["FilterPattern"] == "{ $.late_seconds >= 0 }"
    assert into["MetricValue"] == "$.late_seconds"
    assert (into["MetricNamespace"], into["MetricName"]) == (alarm["Namespace"], alarm["MetricName"])
    assert lateness["LogGroupName"] == template.functions["SweepFunction"]["LoggingConfig"]["LogGroup"]


def test_what_the_alarms_read_is_logged_whatever_the_log_level_is(template: Template) -> None:
    for function in ("SweepFunction", "DeliverNoticesFunction"):
        config = template.functions[function]["LoggingConfig"]

        assert config["ApplicationLogLevel"] == {"Fn::If": ["LogsEverything", "DEBUG", "INFO"]}
        assert config["LogFormat"] == "JSON"


def test_the_alarm_of_sinks_counts_what_is_told_of_them(template: Template) -> None:
    troubles = template.of_type("AWS::Logs::MetricFilter")["SinkTroubles"]
    (into,) = troubles["MetricTransformations"]
    alarm = template.of_type("AWS::CloudWatch::Alarm")["SinkTroublesAlarm"]
    named = re.findall(r'\$\.event = "(\w+)"', troubles["FilterPattern"])

    assert named == ["sink_failing", "sink_dropped", "fault", "outage"]
    assert set(named) <= set(get_args(OperatorEvent))
    assert (into["MetricNamespace"], into["MetricName"]) == (alarm["Namespace"], alarm["MetricName"])
    assert troubles["LogGroupName"] == template.functions["DeliverNoticesFunction"]["LoggingConfig"]["LogGroup"]


# --- what is told ----------------------------------------------------------------------------------------------------


def test_the_operations_page_explains_every_parameter_alarm_function_and_output(template: Template) -> None:
    names = [
        *template.of_type("AWS::CloudWatch::Alarm"),
        *template.document["Parameters"],
        *template.document["Outputs"],
        *(template.folder(name) for name in template.functions),
    ]

    assert [name for name in names if f"`{name}`" not in OPERATIONS] == []


def test_the_operations_page_names_nothing_that_is_gone(template: Template) -> None:
    known = {*template.resources, *template.document["Parameters"], *template.document["Outputs"]}
    shapes = r"`(\w+(?:Alarm|Queue|DeadLetters|Function|Role|Table|Bucket|Arn|Days|Claim|Issuer|Audience))`"

    assert sorted(set(re.findall(shapes, OPERATIONS)) - known) == []


def test_the_price_of_the_alarms_is_the_one_that_is_told(template: Template) -> None:
    looked_at = sum(len(metrics_of(alarm)) for alarm in template.of_type("AWS::CloudWatch::Alarm").values())
    own = len(template.of_type("AWS::Logs::MetricFilter"))

    assert f"${looked_at * ALARM_DOLLARS + own * OWN_METRIC_DOLLARS:.2f} in all" in OPERATIONS
