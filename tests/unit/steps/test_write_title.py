"""Titles: one call out of band behind the first turn, and a person's title above it (spec TITLE-01, TITLE-02)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.core.expected import awaited_steps
from perdure.core.limits import LEASE_DURATION, LEASE_GRACE, MAX_ATTEMPTS
from perdure.errors import InvalidRequestError, ModelCallError
from perdure.models.scripted import ScriptedModel
from perdure.service import LOCAL_CALLER
from perdure.steps.recover import sweep_session
from perdure.steps.write_title import MAX_TITLE_CHARACTERS, WISH, cleaned
from perdure.testing.fixtures import SESSION, Stage, open_stage
from tests.unit.steps.builders import an_agent


class Titles:
    """A model that names sessions, and fails as often as it is told to."""

    provider = "titles"
    model = "titles"

    def __init__(self, *answers: str | Exception) -> None:
        self.requests: list[Any] = []
        self._answers = list(answers)

    async def stream(self, request: Any) -> Any:
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        async for item in ScriptedModel(lambda _: answer).stream(request):
            yield item


async def renamed(stage: Stage) -> list[dict[str, Any]]:
    return [event["payload"] for event in await stage.events() if event["type"] == "title_changed"]


async def test_the_first_answered_turn_gives_a_session_its_title_without_a_trace_in_its_history() -> None:
    titles = Titles('"Where order 7 is."\nmore')
    async with open_stage(an_agent(title_model=titles)) as stage:
        await stage.send("Where is order 7?")
        await stage.run_all()
        transcript = await stage.transcript()
        await stage.send("and order 8?")
        await stage.run_all()
        snapshot = await stage.snapshot()
        (row,) = (await stage.service.list_sessions(LOCAL_CALLER))["sessions"]
        usage = [event for event in await stage.events() if event["type"] == "usage_recorded"]

        assert snapshot["title"] == row["title"] == "Where order 7 is"
        assert await renamed(stage) == [{"title": "Where order 7 is", "by": "model"}]

    (request,) = titles.requests
    assert (request.instructions, request.tools) == ("", ())
    assert request.messages[0].text.startswith(WISH)
    assert "Where is order 7?" in request.messages[0].text
    assert [role for role, _ in transcript] == ["user", "assistant"]
    assert len(usage) == 3, "two turns and the title"


async def test_a_session_whose_first_turn_failed_is_named_by_the_first_that_is_answered() -> None:
    answers = [ModelCallError("no", kind="invalid", retryable=False), "Hello."]

    def reply(_: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with open_stage(an_agent(model=ScriptedModel(reply), title_model=Titles("Named"))) as stage:
        await stage.send("one")
        await stage.run_all()
        assert "title" not in await stage.snapshot()
        await stage.stop()
        await stage.send("two")
        await stage.run_all()
        assert (await stage.snapshot())["title"] == "Named"


async def test_a_title_is_written_beside_the_next_turn() -> None:
    async with open_stage(an_agent(title_model=Titles("Named"))) as stage:
        await stage.send("one")
        await stage.send("two")
        await stage.run_next()
        head = await stage.head()

        assert head.turn is not None
        assert {dispatch.kind for dispatch in awaited_steps(head)} == {"run_model", "write_title"}
        await stage.run_all()
        assert (await stage.snapshot())["title"] == "Named"
        assert (await stage.snapshot())["state"]["turn_count"] == 2


async def test_without_a_title_model_nothing_is_asked() -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hello")
        steps = await stage.run_all()

        assert [step.kind for step in steps] == ["run_model"]
        assert "title" not in await stage.snapshot()


async def test_a_persons_title_wins_whenever_it_comes() -> None:
    for early in (True, False):
        titles = Titles("a model's")
        async with open_stage(an_agent(title_model=titles)) as stage:
            await stage.send("hello")
            if early:
                await stage.session().rename("  my\n title ")
            await stage.run_next()
            if not early:
                await stage.session().rename("my title")
            await stage.run_all()

            assert (await stage.snapshot())["title"] == "my title"
            assert [told["by"] for told in await renamed(stage)] == ["person"]
            assert len(titles.requests) == 0


async def test_a_title_that_is_being_written_comes_too_late_for_a_persons() -> None:
    stages: list[Stage] = []

    class Slow(Titles):
        async def stream(self, request: Any) -> Any:
            await stages[0].session().rename("mine")
            async for item in super().stream(request):
                yield item

    async with open_stage(an_agent(title_model=Slow("a model's"))) as stage:
        stages.append(stage)
        await stage.send("hello")
        await stage.run_all()

        assert (await stage.snapshot())["title"] == "mine"
        assert [told["by"] for told in await renamed(stage)] == ["person"]


async def test_a_call_that_fails_is_tried_again_and_then_left_alone() -> None:
    broken = ModelCallError("no", kind="timeout", retryable=True)
    titles = Titles(broken, "second try")
    async with open_stage(an_agent(title_model=titles)) as stage:
        await stage.send("hello")
        await stage.run_all()
        assert (await stage.snapshot())["title"] == "second try"

    titles = Titles(*[broken] * 9)
    async with open_stage(an_agent(title_model=titles)) as stage:
        await stage.send("hello")
        await stage.run_all()
        assert "title" not in await stage.snapshot()
        assert len(titles.requests) == MAX_ATTEMPTS
        assert (await stage.head()).titling is None


async def test_a_worker_that_dies_with_the_title_is_replaced() -> None:
    titles = Titles("found")
    async with open_stage(an_agent(title_model=titles)) as stage:
        await stage.send("hello")
        await stage.run_next()
        message = stage.taken()
        assert message.kind == "write_title"
        now = stage.clock.now()
        assert await stage.leases.claim(SESSION, message.step_id, 1, "dies", now + LEASE_DURATION)

        await stage.clock.advance((LEASE_DURATION + LEASE_GRACE).total_seconds() + 1)
        await sweep_session(stage.deps, SESSION)
        await stage.run_all()

        assert (await stage.snapshot())["title"] == "found"


@pytest.mark.parametrize("title", ["", "  \n", "x" * 201])
async def test_a_title_that_is_none_is_refused(title: str) -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hello")
        with pytest.raises(InvalidRequestError):
            await stage.session().rename(title)
        assert "title" not in await stage.snapshot()


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("“Refund of order 7”", "Refund of order 7"),
        ("\n# A title\nexplained", "A title"),
        ("", ""),
        ("x" * 100, "x" * (MAX_TITLE_CHARACTERS - 1) + "…"),
    ],
)
def test_a_title_is_one_short_line(said: str, title: str) -> None:
    assert cleaned(said) == title
