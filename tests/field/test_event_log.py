"""The log of events and cursors that point at what is not there (field case F082)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.api import sse
from perdure.core.cursor import Cursor
from perdure.core.decision import Decision
from perdure.core.entries import Entry
from perdure.core.values import replace
from perdure.errors import InvalidRequestError
from perdure.service import LOCAL_CALLER
from perdure.testing.fixtures import SESSION, Stage, open_stage
from tests.unit.steps.builders import an_agent

JsonObject = dict[str, Any]


async def a_trimmed_session(stage: Stage) -> list[JsonObject]:
    """Have three turns, and delete the entries of the first two; returns all events that there were."""
    for text in ("one", "two", "three"):
        await stage.send(text)
        await stage.run_all()
    events = await stage.events()
    loaded = await stage.store.load(SESSION)
    head = replace(loaded.head, version=loaded.head.version + 1, deleted_before=5)
    entry = Entry(version=head.version, commit_id="retention", at=stage.clock.now(), kind="retention")
    await stage.store.commit(SESSION, loaded, Decision(head=head, entry=entry, reply={}))
    await stage.database.writer.run(
        lambda connection: connection.execute("DELETE FROM entries WHERE version < 5").rowcount, durable=True
    )
    return events


async def read(stage: Stage, after: str | None) -> list[JsonObject]:
    return list((await stage.service.events(LOCAL_CALLER, "s-1", after=after))["events"])


async def test_a_cursor_before_what_is_kept_is_told_so_and_what_is_kept_follows_without_a_gap() -> None:
    async with open_stage(an_agent()) as stage:
        events = await a_trimmed_session(stage)
        first_kept = next(event for event in events if event["payload"].get("message_id") == "message-5-0")

        told, *kept = await read(stage, events[1]["cursor"])

        assert (told["type"], told["payload"], "sequence" in told) == ("resync_required", {"reason": "deleted"}, False)
        assert kept[0]["sequence"] == first_kept["sequence"]
        assert [event["sequence"] for event in kept] == list(range(kept[0]["sequence"], events[-1]["sequence"] + 1))
        assert await read(stage, told["cursor"]) == kept  # told once: its cursor is good
        page = await stage.service.events(LOCAL_CALLER, "s-1", after=events[1]["cursor"])
        stream = sse.stream(stage.service, LOCAL_CALLER, "s-1", page, closing=None)
        frames = [await anext(stream), await anext(stream)][1].decode().split("\n\n")
        assert f"id: {told['cursor']}\nevent: resync_required\n" in frames[0]
        assert json.loads(frames[1].split("data: ")[1]) == kept[0]


async def test_a_cursor_within_what_is_kept_goes_on_exactly_there_and_none_begins_at_the_oldest() -> None:
    async with open_stage(an_agent()) as stage:
        events = await a_trimmed_session(stage)
        kept = await read(stage, None)

        assert "resync_required" not in [event["type"] for event in kept]
        assert await read(stage, kept[1]["cursor"]) == kept[2:]
        assert kept[-1]["sequence"] == events[-1]["sequence"]


async def test_an_unknown_cursor_and_one_of_another_session_are_refused() -> None:
    async with open_stage(an_agent()) as stage:
        events = await a_trimmed_session(stage)
        await stage.send("mine", "s-2")
        for after in ("c5", "", events[-1]["cursor"][:-1] + "~"):
            with pytest.raises(InvalidRequestError) as refused:
                await stage.service.events(LOCAL_CALLER, "s-1", after=after)
            assert refused.value.code == "invalid_cursor"
        with pytest.raises(InvalidRequestError) as refused:
            await stage.service.events(LOCAL_CALLER, "s-2", after=events[-1]["cursor"])
        assert refused.value.code == "invalid_cursor"


@pytest.mark.parametrize("ahead", [2, 50])
@pytest.mark.parametrize("wait_seconds", [0, 20])
async def test_a_cursor_ahead_of_its_session_is_refused_at_once_and_one_at_its_end_is_good(
    ahead: int, wait_seconds: float
) -> None:
    """A session that was restored from a copy, or begun anew in a new file: its reader would hear nothing for long."""
    async with open_stage(an_agent()) as stage:
        await stage.send("one")
        await stage.run_all()
        version = (await stage.store.load(SESSION)).head.version
        places = [Cursor(version=version + more).encode("s-1") for more in (1, ahead)]

        assert await read(stage, places[0]) == []
        for asked in (stage.service.events, stage.service.feed):
            with pytest.raises(InvalidRequestError) as refused:
                await asked(LOCAL_CALLER, "s-1", after=places[1], wait_seconds=wait_seconds)
            assert refused.value.code == "invalid_cursor"


async def test_a_cursor_is_not_refused_for_a_read_that_is_a_moment_old() -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("one")
        old = await stage.store.read(SESSION)
        await stage.run_all()
        version = (await stage.store.load(SESSION)).head.version
        assert version > old.head.version

        async def read_old(*_: Any, **__: Any) -> Any:
            return replace(old, entries=())

        stage.store.read = read_old  # type: ignore[method-assign]
        assert await read(stage, Cursor(version=version + 1).encode("s-1")) == []
