"""One turn by its id: found by halving, read without its neighbours, whatever became of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import turn_reading
from perdure.api.turn_shapes import TurnView
from perdure.core.entries import Actor
from perdure.errors import ModelCallError, NotFoundError
from perdure.models.base import ModelRequest
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results, user_texts
from perdure.ports import SessionKey, SessionStore
from perdure.service import LOCAL_CALLER, Caller
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.desk import Desk, booking, pending
from tests.unit.orders import look_up
from tests.unit.steps.builders import an_agent

ECHO = ScriptedModel(lambda request: f"you said {user_texts(request)[-1]}")
LOOKING_UP = ScriptedModel(
    lambda request: "On its way." if tool_results(request) else Reply(calls=(call("look_up", order="7"),))
)
AT_NOON = "2026-11-30T12:00:00.000Z"


async def turn(stage: Stage, turn_id: str = "turn-1") -> dict[str, Any]:
    """Return a turn as it is shown, which is as the document says."""
    shown = await stage.session().turn(turn_id)
    TurnView.model_validate_json(json.dumps(shown))
    return shown


async def test_a_completed_turn_is_shown_with_its_answer() -> None:
    async with open_stage(an_agent(look_up, model=LOOKING_UP)) as stage:
        await stage.send("Where is order 7?", message_id="m-1")
        await stage.clock.advance(2)
        await stage.run_all()
        answer = (await stage.snapshot())["messages"][-1]
        usage = (await stage.events())[-1]["payload"]["usage"]

        shown = await turn(stage)

    assert shown == {
        "turn_id": "turn-1",
        "status": "completed",
        "started_at": AT_NOON,
        "ended_at": "2026-11-30T12:00:02.000Z",
        "message_ids": ["m-1"],
        "answer": answer,
        "tool_calls": {"total": 1, "succeeded": 1, "failed": 0, "rejected": 0, "outcome_unknown": 0},
        "usage": usage,
        "cursor": shown["cursor"],
    }
    assert answer["role"] == "assistant"


@pytest.mark.parametrize("size", [1, 4, 8])
async def test_each_of_many_turns_is_found_and_its_cursor_stands_before_its_first_event(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(turn_reading, "FIRST_READ", size)
    monkeypatch.setattr(turn_reading, "LONGEST_READ", 2 * size)
    monkeypatch.setattr(turn_reading, "ENTRIES_PER_PROBE", min(size, 4))
    async with open_stage(an_agent(model=ECHO)) as stage:
        for number in range(1, 12):
            await stage.send(f"{number}", message_id=f"m-{number}")
            if number % 3 == 0:
                await stage.send(f"{number}b", message_id=f"m-{number}b")  # its turn opens as the other one closes
            await stage.run_all()
            await stage.session().update_settings({"approval_mode": "ask"})
        count = (await stage.head()).turn_count

        turns = [await turn(stage, f"turn-{number}") for number in range(1, count + 1)]

        assert count == 14
        assert [shown["message_ids"] for shown in turns[:5]] == [["m-1"], ["m-2"], ["m-3"], ["m-3b"], ["m-4"]]
        for shown in turns:
            said = shown["message_ids"][0].removeprefix("m-")
            assert shown["answer"]["parts"] == [{"type": "text", "text": f"you said {said}"}]
            first = (await stage.events(after=shown["cursor"], limit=1))[0]
            assert (first["type"], first["turn_id"]) == ("turn_started", shown["turn_id"])


async def test_reading_one_turn_does_not_grow_with_the_history() -> None:
    class Counting:
        def __init__(self, store: SessionStore) -> None:
            self._store = store
            self.entries = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

        async def read(self, key: SessionKey, **wanted: Any) -> Any:
            log = await self._store.read(key, **wanted)
            self.entries += len(log.entries)
            return log

    async with open_stage(an_agent(model=ECHO), wrap_store=Counting) as stage:
        counts = []
        for turns in (20, 160):
            for _ in range(turns - (await stage.head()).turn_count):
                await stage.send("again")
                await stage.run_all()
            stage.store.entries = 0  # type: ignore[attr-defined]
            await turn(stage, "turn-7")
            counts.append(stage.store.entries)  # type: ignore[attr-defined]

    assert counts[1] <= counts[0] + 3 * turn_reading.ENTRIES_PER_PROBE, "eight times the history: three probes more"


async def test_a_turn_that_waits_is_running_and_says_for_what() -> None:
    async with open_stage(Desk().agent(booking("r1", "r2"))) as stage:
        await stage.send("go")
        await stage.run_all()
        await stage.approve("call-2-0", approved=False)

        shown = await turn(stage)

    assert shown["status"] == "running"
    assert shown["tool_calls"] == {"total": 2, "succeeded": 0, "failed": 0, "rejected": 1, "outcome_unknown": 0}
    assert [(item["kind"], item["id"]) for item in shown["waiting_for"]] == [("approval", "call-2-1")]
    assert shown["usage"]["model_calls"] == 1
    assert "ended_at" not in shown
    assert "answer" not in shown


async def test_a_failed_turn_has_its_error_and_its_retry_names_it() -> None:
    broken = [True]

    def reply(_: ModelRequest) -> str:
        if broken.pop():
            broken.append(False)
            raise ModelCallError("no such model", kind="invalid", retryable=False)
        broken.append(False)
        return "there"

    async with open_stage(an_agent(model=ScriptedModel(reply))) as stage:
        await stage.send("go", message_id="m-1")
        await stage.run_all()
        await stage.session().retry()
        await stage.run_all()

        failed, again = await turn(stage), await turn(stage, "turn-2")

    assert (failed["status"], failed["error"]["code"]) == ("failed", "provider")
    assert "answer" not in failed
    assert (again["status"], again["retry_of"], again["message_ids"]) == ("completed", "turn-1", [])
    assert again["answer"]["parts"] == [{"type": "text", "text": "there"}]


async def test_a_stopped_turn_is_cancelled_and_one_that_gave_way_says_to_what() -> None:
    async with open_stage(Desk().agent(booking("r1"))) as stage:
        await stage.send("go")
        await stage.run_all()
        await stage.stop()
        await stage.send("again")
        await stage.run_all()
        await stage.send("no, this", delivery="supersede")
        await stage.run_all()

        stopped, superseded = await turn(stage), await turn(stage, "turn-2")

    assert (stopped["status"], stopped["reason"]) == ("cancelled", "stopped")
    assert superseded["status"] == "superseded"


async def test_a_message_that_went_back_to_the_inbox_is_none_of_the_turns() -> None:
    async with open_stage(Desk().agent(booking("r1"))) as stage:
        await stage.send("go", message_id="m-1")
        await stage.send("and this", message_id="m-2", delivery="inject")
        await stage.run_all()
        await stage.approve((await pending(stage))["r1"])
        await stage.run_next()
        joined = await turn(stage)
        await stage.stop()
        await stage.run_all()

        stopped = await turn(stage)

    assert joined["message_ids"] == ["m-1", "m-2"]
    assert stopped["message_ids"] == ["m-1"]


@pytest.mark.parametrize("turn_id", ["turn-0", "turn-2", "turn-99999999999999", "turn-01", "seed", "x", "turn-1 "])
async def test_a_turn_that_there_is_not_is_not_found(turn_id: str) -> None:
    async with open_stage(an_agent(model=ECHO)) as stage:
        await stage.send("go")

        with pytest.raises(NotFoundError) as caught:
            await stage.session().turn(turn_id)

        assert caught.value.code == "turn_not_found"


async def test_nothing_is_told_of_a_session_of_others_or_of_none() -> None:
    stranger = Caller(tenant="local", actor=Actor(issuer="local", subject="u2"))
    async with open_stage(an_agent(model=ECHO)) as stage:
        await stage.send("go")

        for caller, session_id, code in [
            (stranger, "s-1", "session_not_found"),
            (LOCAL_CALLER, "never-written", "turn_not_found"),
        ]:
            with pytest.raises(NotFoundError) as caught:
                await stage.service.turn(caller, session_id, "turn-1")
            assert caught.value.code == code


async def test_a_long_answer_is_cut_so_that_the_reply_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_reading, "MAX_PAGE_BYTES", 40_000)
    async with open_stage(an_agent(model=ScriptedModel(lambda _: "x" * 30_000))) as stage:
        await stage.send("go")
        await stage.run_all()

        part = (await turn(stage))["answer"]["parts"][0]

    assert part["truncated"]
    assert part["bytes"] == 30_000
    assert len(part["text"]) < 20_000
