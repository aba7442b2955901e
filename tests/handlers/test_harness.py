"""The harness itself: it keeps to the template, and its time moves only when nothing else can happen."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

from perdure.testing import lambda_harness, virtual_stream
from perdure.testing.virtual_time import TOOL_THREAD, LoopClock, VirtualLoop
from tests.build.cloudformation import Template, read_template


def test_the_harness_has_the_times_of_the_template() -> None:
    template = Template(read_template())
    queues = template.of_type("AWS::SQS::Queue")
    work = {
        template.folder(function): queues[queue]
        for function, queue, _ in template.queue_events()
        if template.folder(function) != "record_dead_letter"
    }
    (stream,) = (
        event["Properties"]
        for function in template.functions.values()
        for event in function.get("Events", {}).values()
        if event["Type"] == "DynamoDB"
    )
    receives = {name: work[function].get("RedrivePolicy") for name, (function, _) in lambda_harness.QUEUES.items()}

    assert {template.folder(n): f["Timeout"] for n, f in template.functions.items()} == lambda_harness.TIMEOUTS
    assert {function: queue["VisibilityTimeout"] for function, queue in work.items()} == dict(
        lambda_harness.QUEUES.values()
    )
    assert {policy["maxReceiveCount"] for policy in receives.values() if policy} == {lambda_harness.MAX_RECEIVES}
    assert {name for name, policy in receives.items() if not policy} == set(lambda_harness.WITHOUT_DEAD_LETTERS)
    assert timedelta(seconds=queues["RunModelDeadLetters"]["VisibilityTimeout"]) == (
        lambda_harness.DEAD_LETTERS_VISIBILITY
    )
    assert (stream["BatchSize"], stream["MaximumBatchingWindowInSeconds"]) == (
        virtual_stream.BATCH,
        virtual_stream.WINDOW.total_seconds(),
    )


@pytest.fixture
def clock() -> LoopClock:
    return LoopClock()


def test_sleepers_wake_in_the_order_of_their_times_and_at_once(clock: LoopClock) -> None:
    woken: list[float] = []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(clock.seconds)

    async def all_of_them() -> None:
        await asyncio.gather(sleeper(86_400), sleeper(5), sleeper(600))

    VirtualLoop(clock).run_until_complete(all_of_them())

    assert [round(moment) for moment in woken] == [5, 600, 86_400]


def test_time_stands_still_while_a_thread_works(clock: LoopClock) -> None:
    goes_on = threading.Event()

    async def work() -> float:
        running = asyncio.create_task(asyncio.to_thread(goes_on.wait, 5))
        sleeping = asyncio.create_task(clock.sleep(60))
        await asyncio.sleep(0)
        goes_on.set()
        await running
        then = clock.seconds
        await sleeping
        return then

    then = VirtualLoop(clock).run_until_complete(work())

    assert then == 0
    assert round(clock.seconds) == 60


def test_time_stands_still_while_a_tool_works_in_its_own_thread(clock: LoopClock) -> None:
    goes_on = threading.Event()

    async def work() -> float:
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def tool() -> None:
            goes_on.wait(5)
            loop.call_soon_threadsafe(done.set_result, None)

        threading.Thread(target=tool, name=TOOL_THREAD, daemon=True).start()
        sleeping = asyncio.create_task(clock.sleep(60))
        await asyncio.sleep(0)
        goes_on.set()
        await done
        then = clock.seconds
        sleeping.cancel()
        return then

    assert VirtualLoop(clock).run_until_complete(work()) == 0


def test_a_loop_on_which_nothing_can_happen_any_more_says_so(clock: LoopClock) -> None:
    async def forever() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match="nothing can ever happen"):
        VirtualLoop(clock).run_until_complete(forever())
