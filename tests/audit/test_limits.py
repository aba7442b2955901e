"""Every limit has a test one under and one over, or a written reason why it can't have one.

`tested_limits.py` names where each constant of `perdure/aws/limits.py` and `perdure/core/limits.py` is tested on both
sides; the tests here are those that were not elsewhere. Where a number is AWS's own, it is also held against what
botocore or moto knows of it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ClientError

from perdure.agents.definition import AgentDefinition
from perdure.aws import keys
from perdure.aws import limits as of_aws
from perdure.aws.progress import ProgressLog
from perdure.aws.results import DynamoDBResults
from perdure.aws.table import Table
from perdure.core import limits as of_core
from perdure.core.expected import sweep_due_at
from perdure.core.head import Head, Hold
from perdure.core.settings import check_settings
from perdure.errors import InvalidRequestError, ItemTooLargeError
from perdure.models.scripted import Reply, ScriptedModel, call
from perdure.ports import LiveEvent, SessionKey
from perdure.service import LOCAL_CALLER, Service
from perdure.testing.counting import item_size
from perdure.testing.fixtures import open_stage
from perdure.testing.moto import AwsInProcess
from tests.architecture.test_features import TESTS, known_tests
from tests.audit.tested_limits import LIMITS
from tests.unit.aws.builders import KEY, NOON, SteppingClock, calls_of
from tests.unit.aws.conftest import aws, clock, table
from tests.unit.aws.test_results import an_outcome
from tests.unit.core.builders import Play, a_read, a_safe_write, a_session, a_single_write, asked_for
from tests.unit.steps.test_run_model import a_counting_tool

__all__ = ["aws", "clock", "table"]


def limits_of(module: Any) -> set[str]:
    return {name for name in vars(module) if name.isupper()}


def test_every_limit_is_tested_on_both_sides_or_says_why_not() -> None:
    assert set(LIMITS) == limits_of(of_aws) | limits_of(of_core)


def test_the_tests_that_the_table_names_exist() -> None:
    known = known_tests(TESTS)
    named = [(name, test) for name, found in LIMITS.items() if not isinstance(found, str) for test in found]

    assert [
        (name, test) for name, test in named if test.partition("::")[2] not in known.get(test.partition("::")[0], set())
    ] == []
    assert all(found for found in LIMITS.values())


# --- what AWS says -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("service", "operation", "path", "ours"),
    [
        ("dynamodb", "BatchGetItem", ("RequestItems", "Keys"), of_aws.MAX_BATCH_GET),
        ("scheduler", "CreateSchedule", ("Name",), of_aws.MAX_SCHEDULE_NAME),
    ],
)
def test_a_number_is_the_one_in_the_api_model(service: str, operation: str, path: tuple[str, ...], ours: int) -> None:
    shape: Any = botocore.session.get_session().get_service_model(service).operation_model(operation).input_shape
    for name in path:
        shape = (shape.value if shape.type_name == "map" else shape).members[name]

    assert shape.metadata["max"] == ours


async def test_an_item_over_400_kb_is_refused_and_the_largest_that_we_write_is_not(table: Table) -> None:
    def an_item(size: int) -> dict[str, Any]:
        empty = item_size({"pk": {"S": "acme#s"}, "sk": {"S": "BODY#1"}, "body": {"S": ""}})
        return {"pk": "acme#s", "sk": "BODY#1", "body": "x" * (size - empty)}

    with pytest.raises(ItemTooLargeError):
        await table.put(an_item(of_aws.MAX_ITEM_BYTES + 1))
    await table.put(an_item(of_aws.MAX_BODY_ITEM_BYTES + of_aws.MAX_PARTITION_KEY_BYTES))


async def test_the_table_takes_a_partition_key_of_2048_bytes_and_no_longer_one(aws: AwsInProcess) -> None:
    def put(size: int) -> None:
        item = {"pk": {"S": "k" * size}, "sk": {"S": "HEAD"}}
        aws.clients.dynamodb.put_item(TableName=aws.table, Item=item)

    put(of_aws.MAX_PARTITION_KEY_BYTES)
    with pytest.raises(ClientError, match="ValidationException"):
        put(of_aws.MAX_PARTITION_KEY_BYTES + 1)


async def test_a_hundred_keys_are_read_at_once_and_one_more_takes_a_second_call(
    aws: AwsInProcess, table: Table
) -> None:
    sizes: list[int] = []
    calls_of(aws.clients.dynamodb, "BatchGetItem", lambda p: sizes.append(len(p["RequestItems"][aws.table]["Keys"])))
    wanted = [(f"acme#s-{number}", "HEAD") for number in range(of_aws.MAX_BATCH_GET + 1)]

    await table.batch_get(wanted[:-1], strong=False)
    await table.batch_get(wanted, strong=False)

    assert sizes == [100, 100, 1]
    keys_of_all = [{"pk": {"S": pk}, "sk": {"S": sk}} for pk, sk in wanted]
    with pytest.raises(ClientError, match="less than or equal to 100"):
        aws.clients.dynamodb.batch_get_item(RequestItems={aws.table: {"Keys": keys_of_all}})


def test_a_queue_takes_a_message_of_one_mebibyte_and_no_larger_one(aws: AwsInProcess) -> None:
    sqs, url = aws.clients.sqs, aws.queue_urls["run-model"]

    sqs.send_message(QueueUrl=url, MessageBody="x" * of_aws.MAX_MESSAGE_BYTES)
    with pytest.raises(ClientError, match="shorter than"):
        sqs.send_message(QueueUrl=url, MessageBody="x" * (of_aws.MAX_MESSAGE_BYTES + 1))


def test_a_queue_takes_a_delay_of_900_seconds_and_no_longer_one(aws: AwsInProcess) -> None:
    sqs, url, longest = aws.clients.sqs, aws.queue_urls["run-model"], int(of_aws.MAX_DELAY.total_seconds())

    sqs.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=longest)
    with pytest.raises(ClientError, match="DelaySeconds"):
        sqs.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=longest + 1)


def test_the_rest_of_a_schedules_wait_fits_into_one_delay() -> None:
    assert of_aws.SCHEDULE_LEAD <= of_aws.MAX_DELAY


def test_six_renewals_fit_into_a_lease() -> None:
    assert of_core.LEASE_RENEWAL * 6 <= of_core.LEASE_DURATION


# --- what we say, on AWS ---------------------------------------------------------------------------------------------


def test_sessions_use_all_sixteen_due_buckets_and_the_sweep_reads_each_of_them() -> None:
    partitions = [keys.partition_key(SessionKey("acme", f"s-{number}")) for number in range(500)]

    used = {keys.due_bucket(partition) for partition in partitions}

    assert used == set(keys.due_buckets())
    assert len(used) == of_aws.DUE_BUCKETS == 16


async def test_an_outcome_waits_a_day_for_its_commit(table: Table, clock: SteppingClock) -> None:
    results = DynamoDBResults(table, clock)
    await results.put(KEY, an_outcome(clock))

    clock.advance(of_aws.RESULT_TTL - timedelta(seconds=1))
    assert len(await results.of_turn(KEY, "turn-1")) == 1
    clock.advance(timedelta(seconds=1))
    assert await results.of_turn(KEY, "turn-1") == []


async def test_progress_can_be_read_for_a_day(table: Table, clock: SteppingClock) -> None:
    progress = ProgressLog(table, clock)
    await progress.append(KEY, "model-1-0", 1, [LiveEvent(type="text_delta", at=NOON, payload={"text": "a"})])

    clock.advance(of_aws.PROGRESS_TTL - timedelta(seconds=1))
    assert len(await progress.read(KEY, "model-1-0", 1, 0)) == 1
    clock.advance(timedelta(seconds=1))
    assert await progress.read(KEY, "model-1-0", 1, 0) == []


async def test_a_progress_event_of_64_kb_is_kept_and_a_larger_one_left_out(table: Table, clock: SteppingClock) -> None:
    progress = ProgressLog(table, clock)
    empty = len('["text_delta",1796040000000,{"text":""}]') + len(",")
    longest = "x" * (of_aws.MAX_PROGRESS_ITEM_BYTES - empty)

    for text in (longest, longest + "x"):
        await progress.append(KEY, "model-1-0", 1, [LiveEvent(type="text_delta", at=NOON, payload={"text": text})])

    assert [event.payload["text"] for event in await progress.read(KEY, "model-1-0", 1, 0)] == [longest]


# --- what we say, everywhere -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", [0, 1])
def test_sixty_four_calls_of_a_response_run_and_the_next_does_not(over: int) -> None:
    play, ids = asked_for(*(a_read(f"look{number}") for number in range(of_core.MAX_CALLS_PER_RESPONSE + over)))

    assert len(play.dispatched) == 64
    assert len(ids) - len(play.dispatched) == over == len(play.results)


@pytest.mark.parametrize("over", [0, 1])
def test_eight_writes_run_at_a_time_and_the_ninth_waits(over: int) -> None:
    play, ids = asked_for(*(a_safe_write(f"put{number}") for number in range(of_core.MAX_PARALLEL_WRITES + over)))

    assert play.dispatched == ids[:8]
    assert play.results == []


@pytest.mark.parametrize(("asks", "reason"), [(99, None), (100, "model_call_limit")])
async def test_a_turn_has_a_hundred_model_calls_and_then_has_to_answer(asks: int, reason: str | None) -> None:
    def script(request: Any) -> Reply:
        asked.append(len(request.tools))
        return Reply(calls=(call("again"),)) if len(asked) <= asks or reason else Reply(text="done")

    asked: list[int] = []
    ran: list[int] = []
    agent = AgentDefinition(name="test", model=ScriptedModel(script), tools=[a_counting_tool("again", ran)])
    async with open_stage(agent) as stage:
        await stage.send("hi")
        await stage.run_all()

        first = await stage.service.events(LOCAL_CALLER, "s-1")
        rest = await stage.events(after=first["cursor"])
        (ended,) = [event for event in rest if event["type"] == "turn_completed"]
        assert ended["payload"].get("reason") == reason
        assert (len(ran), asked[-1]) == (asks, 0 if reason else 1)
        assert agent.max_model_calls == of_core.MAX_MODEL_CALLS_PER_TURN == 100


def test_a_step_has_three_attempts_and_no_fourth() -> None:
    play = a_session()

    attempts = []
    while play.head.turn is not None:
        attempts.append(play.step.attempt)
        play.loses(play.step.step_id)

    assert attempts == list(range(1, of_core.MAX_ATTEMPTS + 1)) == [1, 2, 3]


@pytest.mark.parametrize(("before_the_end", "goes_on"), [(timedelta(milliseconds=1), True), (timedelta(0), False)])
def test_an_attempt_begins_within_thirty_minutes_of_the_first_and_not_at_their_end(
    before_the_end: timedelta, goes_on: bool
) -> None:
    play = a_session()
    first = play.step.first_attempt_at
    assert first is not None
    play.now = first + of_core.ATTEMPT_WINDOW - before_the_end - Play.tick

    play.loses(play.step.step_id)

    assert (play.head.turn is not None) is goes_on


def test_the_sweep_looks_after_a_timer_a_minute_after_it_was_due() -> None:
    play, (call_id,) = asked_for(a_single_write(gated=True, approval_deadline=timedelta(hours=2)))
    (interrupt,) = play.turn.interrupts
    assert interrupt.call_id == call_id

    assert interrupt.deadline is not None
    assert sweep_due_at(play.head) == interrupt.deadline + of_core.TIMER_GRACE
    assert timedelta(seconds=60) == of_core.TIMER_GRACE


def test_the_sweep_looks_for_another_credential_a_minute_after_one_was_refused() -> None:
    held = Head(version=1, hold=Hold(at=NOON, reason="auth", credential="hash"))

    assert sweep_due_at(held) == NOON + of_core.CREDENTIAL_LOOK == NOON + timedelta(minutes=1)


def test_settings_have_16_kib_of_json_at_most() -> None:
    longest = "ü" * ((of_core.MAX_SETTINGS_BYTES - len('{"note":""}')) // 2)

    check_settings({"note": longest})
    with pytest.raises(InvalidRequestError, match="16384 are the most"):
        check_settings({"note": longest + "ü"})


@pytest.mark.parametrize(("length", "shown"), [(1000, "x" * 1000), (1001, "x" * 999 + "…")])
def test_a_reason_of_a_thousand_characters_is_kept_whole_and_a_longer_one_cut(length: int, shown: str) -> None:
    play = a_session()

    play.model_ends("failed", error_code="provider", error_message="x" * length)

    assert play.head.last_turn_error is not None
    assert play.head.last_turn_error.message == shown
    assert len(shown) == of_core.MAX_ERROR_CHARACTERS


@pytest.mark.parametrize("length", [119, 120, 121])
def test_a_preview_shows_120_characters_and_no_more(length: int) -> None:
    assert len(a_session("x" * length).head.preview) == min(length, of_core.PREVIEW_CHARACTERS)


@pytest.mark.parametrize(("length", "accepted"), [(256, True), (257, False)])
async def test_an_idempotency_key_has_256_characters_at_most(length: int, accepted: bool) -> None:
    assert await is_accepted(idempotency_key="k" * length) is accepted


@pytest.mark.parametrize(("length", "accepted"), [(128, True), (129, False)])
async def test_a_message_id_has_128_characters_at_most(length: int, accepted: bool) -> None:
    assert await is_accepted(message_id="m" * length) is accepted


async def is_accepted(**fields: Any) -> bool:
    async with open_stage(AgentDefinition(name="test", model=ScriptedModel(lambda _: "hi"))) as stage:
        try:
            await Service(stage.deps).send_input(LOCAL_CALLER, "s-1", text="hi", **fields)
        except InvalidRequestError:
            return False
        return True
