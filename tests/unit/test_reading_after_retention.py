"""What pages and the snapshot say once retention has deleted something, and what else the snapshot holds."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any, cast

import pytest

from perdure.models.scripted import ScriptedModel, user_texts
from perdure.service import LOCAL_CALLER
from perdure.testing.conformance.builders import a_tombstone, deleted_before
from perdure.testing.fixtures import SESSION, Stage, open_stage
from tests.unit.steps.builders import an_agent

ECHO = ScriptedModel(lambda request: user_texts(request)[-1].upper())


async def four_turns(stage: Stage) -> None:
    for text in ("a", "b", "c", "d"):
        await stage.send(text)
        await stage.run_all()


async def erase_below(stage: Stage, version: int) -> None:
    def erase(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM entries WHERE version < ?", (version,))

    await stage.database.writer.run(erase, durable=True)
    cast(Any, stage.store).forget(SESSION)


async def sequences(stage: Stage, limit: int) -> list[list[int]]:
    """Read all pages backwards; each says the same of what was deleted."""
    pages, before = [], None
    while True:
        page = await stage.service.messages(LOCAL_CALLER, "s-1", before=before, limit=limit)
        assert page["deleted_before"] == (await stage.snapshot())["deleted_before"]
        pages.append([message["sequence"] for message in page["messages"]])
        before = page.get("next_before")
        if before is None:
            return pages


@pytest.mark.parametrize("gone", [False, True], ids=["still-on-disk", "gone"])
async def test_every_page_says_what_was_deleted_and_none_leads_there(gone: bool) -> None:
    async with open_stage(an_agent(model=ECHO)) as stage:
        await four_turns(stage)
        assert "deleted_before" not in await stage.service.messages(LOCAL_CALLER, "s-1")
        versions = {message.sequence: entry.version for entry in await stage.entries() for message in entry.messages}
        opened = versions[5]
        await deleted_before(stage.store, SESSION, opened)
        if gone:
            await erase_below(stage, opened)

        assert await sequences(stage, 50) == [[5, 6, 7, 8]]
        assert await sequences(stage, 3) == [[6, 7, 8], [5]]
        assert (await stage.snapshot())["deleted_before"] == 5


async def test_a_page_of_a_session_of_which_no_message_is_left_is_empty() -> None:
    async with open_stage(an_agent(model=ECHO)) as stage:
        await four_turns(stage)
        await deleted_before(stage.store, SESSION, (await stage.head()).version + 1)

        page = await stage.service.messages(LOCAL_CALLER, "s-1")

        assert page == {"messages": [], "deleted_before": 9}


async def test_the_snapshot_has_the_settings_and_the_steered_messages() -> None:
    async with open_stage(an_agent(model=ECHO)) as stage:
        await stage.send("go", settings={"model_settings": {"temperature": 0.5}})
        await stage.send("later", message_id="m-2")
        await stage.send("now, please", message_id="m-3", delivery="steer")

        shown = await stage.snapshot()

        assert shown["settings"] == {"model_settings": {"temperature": 0.5}}
        assert [(entry["message_id"], entry["state"]) for entry in shown["inbox"]] == [
            ("m-3", "steered"),
            ("m-2", "queued"),
        ]
        assert shown["state"]["version"] == (await stage.head()).version


async def test_whoever_follows_what_was_purged_waits_until_it_begins_anew() -> None:
    async with open_stage(an_agent(model=ECHO)) as stage:
        await four_turns(stage)
        cursor = (await stage.snapshot())["cursor"]
        purged = await a_tombstone(stage.store, SESSION)
        await stage.deps.ports.live.changed(SESSION, purged.head)

        viewer = asyncio.create_task(stage.service.events(LOCAL_CALLER, "s-1", after=cursor, wait_seconds=20))
        await stage.clock.settle()
        assert not viewer.done(), "else a stream would ask again and again without a rest"
        await stage.send("anew")
        await stage.clock.settle()

        told = [event["type"] for event in (await viewer)["events"]]
    assert told == ["turn_started"]
