"""What an operator lives through: a broken deployment, an upgrade in mid-turn, and the end of every process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from perdure.testing.processes import poll_until
from tests.e2e.outside import SLOWLY
from tests.e2e.people import Socket, Viewer, asked, ended, last_text
from tests.e2e.stack import artifacts
from tests.e2e.test_conversations import REFUND, refunds
from tests.e2e.world import World

QUEUES = (
    "RunModelQueue",
    "CallToolQueue",
    "CallSingleAttemptToolQueue",
    "PollToolTaskQueue",
    "CancelToolTaskQueue",
    "TimersQueue",
    "NoticesQueue",
)
UPGRADED = "upgraded"


def waiting(world: World, queue: str) -> int:
    """Return how many messages a queue holds, received or not."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    sqs = world.stack.client("sqs")
    found = sqs.get_queue_attributes(QueueUrl=world.stack.ids[queue], AttributeNames=names)["Attributes"]
    return sum(int(found[name]) for name in names)


async def begin_upgrade(world: World) -> None:
    """Deploy version 2 while an answer is being streamed. `test_later` looks at what became of that turn."""
    async with world.user().session(UPGRADED) as upgraded:
        await upgraded.send(SLOWLY, idempotency_key="begin")
        async for event in upgraded.events(follow=True):
            if event.type == "text_delta":
                break
    await asyncio.to_thread(lambda: world.stack.deploy(artifacts(world.folder / "built", version="2")))
    world.begun.add(UPGRADED)


@contextlib.asynccontextmanager
async def broken_model_function(world: World) -> AsyncIterator[None]:
    """Deploy the model function with agents that can't be loaded, and let its messages come again at once.

    A message is hidden for 16 minutes on AWS; five receives would take longer than anybody waits for a test.
    """
    functions, sqs = world.stack.client("lambda"), world.stack.client("sqs")
    name, queue = world.stack.ids["RunModelFunction"], world.stack.ids["RunModelQueue"]
    good: dict[str, Any] = functions.get_function_configuration(FunctionName=name)["Environment"]
    broken = {"Variables": good["Variables"] | {"PERDURE_AGENTS": "no_such_module:agents"}}
    hidden = str(world.stack.template.resources["RunModelQueue"]["Properties"]["VisibilityTimeout"])
    functions.update_function_configuration(FunctionName=name, Environment=broken)
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"VisibilityTimeout": "1"})
    try:
        yield
    finally:
        functions.update_function_configuration(FunctionName=name, Environment=good)
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"VisibilityTimeout": hidden})


async def test_a_message_that_no_handler_can_take_becomes_a_failed_turn_that_its_user_sees(world: World) -> None:
    async with world.user().session("poison") as session:
        await session.send("all is well")
        await ended(session)
        async with broken_model_function(world):
            await session.send("hello")
            failed = await ended(session, turns=2)
        await session.send("hello again")  # it waits: a failure of ours holds what comes behind it
        await session.stop()  # somebody has seen the failure, and lets the inbox go on
        snapshot = await ended(session, turns=3)

    assert failed["state"]["held"] is True
    assert failed["state"]["last_turn_error"]["code"] == "internal"
    assert failed["messages"][-1]["role"] == "user", "nothing was answered"
    assert "You said: hello again" in last_text(snapshot)
    assert "last_turn_error" not in snapshot["state"]
    assert waiting(world, "RunModelDeadLetters") == 0


async def test_an_upgrade_in_mid_turn_loses_nothing_and_what_comes_next_is_new(world: World) -> None:
    async with world.user().session("waits") as waits:
        await waits.send(REFUND % (8, 15))
        interrupt = await asked(waits)
        await begin_upgrade(world)
        await waits.resolve(interrupt, approved=True)
        snapshot = await ended(waits)
        await waits.send("call deployed_version {}")
        newer = await ended(waits, turns=2)

    assert world.stack.status() == "UPDATE_COMPLETE"
    assert "Refunded 15.00 euros" in last_text(snapshot)
    assert refunds(world, "8") == [15.0]
    assert "version 2" in last_text(newer)


async def test_an_approval_survives_the_end_of_everything_but_the_store(world: World) -> None:
    user = world.user()
    viewer = Viewer("restart")
    async with user.session("restart") as session, user.socket() as socket:
        await session.send(REFUND % (3, 64.9))
        interrupt = await asked(session)
        await viewer.attach(socket)
        await viewer.watch(socket, "interrupt_raised")
        assert world.emulator.kill_handlers() > 0
        world.outside.hang_up()
        for queue in QUEUES:
            world.stack.client("sqs").purge_queue(QueueUrl=world.stack.ids[queue])
        assert await closed(socket)

    async with user.session("restart") as session, user.socket() as socket:
        await viewer.attach(socket)
        assert (await session.snapshot())["pending_interrupts"][0]["interrupt_id"] == interrupt
        await session.resolve(interrupt, approved=True)
        await viewer.watch(socket, "turn_completed")
        snapshot = await ended(session)

    assert "Refunded 64.90 euros" in last_text(snapshot)
    assert refunds(world, "3") == [64.9]
    assert viewer.sequences == list(range(1, len(viewer.sequences) + 1)), "the viewer has missed nothing"


async def closed(socket: Socket) -> bool:
    """Wait until the other side has closed a connection."""
    return await poll_until(lambda: socket.connection.close_code is not None, timeout_seconds=30)
