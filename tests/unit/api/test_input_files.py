"""Files that go with a message: over HTTP, in this process, and what is refused (spec MODEL-26)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.core.entries import FileRef
from perdure.core.history import UserItem
from perdure.errors import InvalidRequestError, RequestConflictError
from perdure.input_files import checked_files
from perdure.models import FileData, ScriptedModel
from perdure.testing.fixtures import open_stage
from tests.unit.steps.builders import an_agent

CAT = {"reference": "uploads/cat.png", "media_type": "image/png", "name": "cat.png"}


async def test_the_files_of_a_message_come_back_with_it_and_reach_the_model_also_from_the_queue() -> None:
    model = ScriptedModel(lambda _: "a cat")
    agent = an_agent(model=model, file_resolver=lambda file, _: FileData(media_type="image/png", data=b"x"))
    async with open_stage(agent) as stage:
        await stage.send("first")
        await stage.session().send("what is this?", files=[CAT])
        await stage.run_all()
        messages = (await stage.snapshot())["messages"]

    assert messages[2]["parts"] == [{"type": "text", "text": "what is this?"}, {"type": "file", **CAT}]
    assert model.requests[-1].messages[-1] == UserItem(text="what is this?", files=(FileRef(**CAT),))
    assert list(model.requests[-1].files) == ["uploads/cat.png"]


async def test_another_file_under_one_key_is_another_message() -> None:
    async with open_stage(an_agent()) as stage:
        first = await stage.send("look", files=[CAT], idempotency_key="k")
        again = await stage.send("look", files=[CAT], idempotency_key="k")

        assert (again["message_id"], again["duplicate"]) == (first["message_id"], True)
        with pytest.raises(RequestConflictError):
            await stage.send("look", files=[CAT | {"name": "dog.png"}], idempotency_key="k")
        with pytest.raises(RequestConflictError):
            await stage.send("look", idempotency_key="k")


@pytest.mark.parametrize(
    ("file", "complaint"),
    [
        ({}, "a file is {reference"),
        (CAT | {"data": "aGk="}, "a file is {reference"),
        ({"reference": ""}, "the reference of a file must have 1 to 1024"),
        ({"reference": "x" * 1025}, "the reference of a file must have 1 to 1024"),
        ({"reference": 7}, "the reference of a file must have"),
        ({"reference": "a\ud800"}, "the reference of a file must have"),
        ({"reference": "a\nb"}, "the reference of a file must have"),
        (CAT | {"name": "n" * 256}, "the name of a file must have 1 to 255"),
        (CAT | {"media_type": "png"}, "'png' is no media type"),
    ],
)
def test_what_is_no_reference_is_refused(file: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidRequestError, match=complaint):
        checked_files([file])


def test_a_reference_is_taken_up_to_its_limits() -> None:
    largest = {"reference": "x" * 1024, "media_type": f"{'a' * 127}/{'b' * 127}", "name": "n" * 255}

    assert checked_files([largest, {"reference": "x", "name": None}]) == (FileRef(**largest), FileRef(reference="x"))


def test_a_message_has_at_most_twenty_files() -> None:
    assert len(checked_files([CAT] * 20)) == 20
    with pytest.raises(InvalidRequestError, match="takes 20 files, not 21"):
        checked_files([CAT] * 21)
