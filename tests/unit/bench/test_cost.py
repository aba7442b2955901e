"""What a turn costs, from what was counted."""

import pytest

from bench.cost import BUDGET, MEMORY_GB, Counted, apart, fees, table
from tests.build.cloudformation import read_template

ONE_OF_EACH = Counted(
    write_units=1, write_units_of={"HEAD": 1}, progress_write_units=1, read_units=1, messages=1, invocations=1
)
"""One of each, so that the fees show the prices."""

A_TURN = {
    "write_units": 20,
    "write_units_of": {"HEAD": 10, "KEY": 1, "LEASE": 3, "LOG": 4, "indexes": 2},
    "progress_write_units": 3,
    "read_units": 16.0,
    "sqs_sends": 3,
    "invocations": {"api": 1, "call_tool": 1, "run_model": 2},
}


def test_each_part_of_the_fees_has_the_list_price_per_million() -> None:
    assert fees(ONE_OF_EACH) == {
        "dynamodb_writes": 0.625,
        "dynamodb_reads": 0.125,
        "queues": 1.5,  # send, receive and delete at 0.40, and 0.10 each for the group
        "lambda_requests": 0.2,
        "http_api_requests": 1.0,
    }


def test_a_turns_fees_are_the_sum_of_where_they_go_and_leave_out_compute_progress_and_pushes() -> None:
    priced = table(Counted.of(A_TURN))

    assert priced["fees_usd_per_million_turns"] == pytest.approx(12.5 + 2 + 4.5 + 0.8 + 1)
    assert priced["fees_usd_per_thousand_turns"] == pytest.approx(0.0208)
    assert sum(priced["writes_by_kind"].values()) == pytest.approx(priced["where_it_goes"]["dynamodb_writes"])
    assert priced["within_budget"]


def test_a_turn_over_the_budget_says_so() -> None:
    dear = {**A_TURN, "write_units": BUDGET / 0.625}

    assert not table(Counted.of(dear))["within_budget"]


def test_a_second_of_compute_is_priced_for_the_memory_that_the_template_gives() -> None:
    resources = read_template()["Resources"]

    memory = {resources[f"{name}Function"]["Properties"]["MemorySize"] for name in ("Api", "RunModel", "CallTool")}

    assert memory == {MEMORY_GB * 1024}
    assert apart(ONE_OF_EACH)["each_second_that_a_function_runs"] == pytest.approx(13.333)
