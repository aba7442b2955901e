"""Files are references: what models, viewers and the log see of them (spec MODEL-26)."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from perdure.agents.step import StepContext
from perdure.agents.stepwise import StepwiseRunner
from perdure.core.entries import FileRef
from perdure.core.history import ModelItem, UserItem
from perdure.errors import ConfigurationError, ModelCallError, UnresolvedFileError
from perdure.models import FileData, GeneratedFile, OpenAIChatModel, Reply, ScriptedModel
from perdure.testing.fixtures import open_stage
from perdure.testing.providers import FaultProvider, answer, events
from tests.unit.agents.builders import a_turn, an_agent

RUNNER = StepwiseRunner()
CAT = FileRef(reference="https://files.test/secret/cat.png", media_type="image/png", name="cat.png")
GONE = FileRef(reference="https://files.test/secret/gone.pdf", name="gone.pdf")
PIXELS = FileData(media_type="image/png", data=b"pixels")


async def only_the_cat(file: FileRef, step: StepContext) -> FileData | None:
    return PIXELS if file == CAT else None


async def asked(unresolved: Any, *files: FileRef, resolver: Any = only_the_cat) -> Any:
    model = ScriptedModel(lambda _: "done")
    agent = an_agent(model=model, file_resolver=resolver, unresolved_files=unresolved)
    await RUNNER.run_model_step(agent, a_turn(history=(UserItem(text="look", files=files),)))
    return model.requests[-1]


async def test_a_resolver_gives_what_stands_behind_a_file_and_what_is_missing_is_left_out() -> None:
    request = await asked("omit", CAT, GONE)

    assert request.messages == (UserItem(text="look", files=(CAT,)),)
    assert request.files == {CAT.reference: PIXELS}


async def test_a_placeholder_names_a_missing_file_without_its_address() -> None:
    request = await asked("placeholder", CAT, GONE, FileRef(reference="r", media_type="image/gif"))

    (message,) = request.messages
    assert message.text == "look\n[file not shown: gone.pdf]\n[file not shown: unnamed, image/gif]"
    assert "secret" not in message.text


async def test_an_agent_may_want_an_error_that_names_the_reference() -> None:
    with pytest.raises(UnresolvedFileError, match=r"https://files\.test/secret/gone\.pdf"):
        await asked("error", CAT, GONE)
    assert (await asked("error", CAT)).files == {CAT.reference: PIXELS}


async def test_without_a_resolver_nothing_stands_behind_a_file() -> None:
    request = await asked("omit", CAT, resolver=None)

    assert (request.messages, request.files) == ((UserItem(text="look"),), {})


async def test_a_resolver_is_asked_once_for_a_file_and_knows_whose_it_is() -> None:
    seen: list[tuple[str, str, str]] = []

    def resolver(file: FileRef, step: StepContext) -> FileData:
        seen.append((file.reference, step.tenant, step.session_id))
        return PIXELS

    await asked("omit", CAT, CAT, resolver=resolver)

    assert seen == [(CAT.reference, "t", "s-1")]


def test_an_option_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="unresolved_files of agent 'support' must be one of omit"):
        an_agent(unresolved_files="hide")
    with pytest.raises(ValueError, match="exactly one of data, text and url"):
        FileData(media_type="image/png")


# --- what a model makes ---------------------------------------------------------------------------------------------


async def test_what_a_model_made_is_kept_by_the_application_and_stored_as_a_reference() -> None:
    kept: dict[str, bytes] = {}

    async def store(file: GeneratedFile, context: StepContext) -> FileRef:
        assert file.data is not None
        reference = f"{context.session_id}/{context.turn_id}/{len(kept)}"
        kept[reference] = file.data
        return FileRef(reference=reference, media_type=file.media_type)

    made = GeneratedFile(media_type="image/png", data=b"pixels")
    model = ScriptedModel(lambda _: Reply("here it is", files=(made,)))
    async with open_stage(an_agent(model=model, store_file=store)) as stage:
        await stage.send("paint")
        await stage.run_all()
        _, message = (await stage.snapshot())["messages"]
        await stage.send("again")
        await stage.run_all()

    assert kept["s-1/turn-1/0"] == b"pixels"
    assert message["parts"][1] == {"type": "file", "reference": "s-1/turn-1/0", "media_type": "image/png"}
    assert [item for item in model.requests[-1].messages if isinstance(item, ModelItem)] == [
        ModelItem(text="here it is")
    ]


async def test_a_file_alone_is_output() -> None:
    model = ScriptedModel(lambda _: Reply(files=(GeneratedFile(media_type="image/png", url="https://x.test/1"),)))
    agent = an_agent(
        model=model, acceptance="require_output", store_file=lambda file, _: FileRef(reference=file.url or "")
    )
    async with open_stage(agent) as stage:
        await stage.send("paint")
        await stage.run_all()

        assert (await stage.event_types())[-1] == "turn_completed"


async def test_without_a_hook_what_a_model_made_is_dropped_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = ScriptedModel(lambda _: Reply("here", files=(GeneratedFile(media_type="image/png", data=b"x"),)))

    outcome = await RUNNER.run_model_step(an_agent(model=model), a_turn(history=(UserItem(text="paint"),)))

    assert (outcome.text, outcome.files) == ("here", ())
    assert "store_file" in caplog.text


# --- the chat-completions wire --------------------------------------------------------------------------------------


async def test_files_go_out_as_the_parts_that_strict_providers_take() -> None:
    files = {
        "image": FileData(media_type="image/png", data=b"pixels"),
        "link": FileData(media_type="image/png", url="https://x.test/cat.png"),
        "sound": FileData(media_type="audio/mpeg", data=b"sound"),
        "page": FileData(media_type="application/pdf", data=b"page"),
        "notes": FileData(media_type="text/plain", text="remember"),
    }
    message = UserItem(text="look", files=tuple(FileRef(reference=name, name=f"{name}.x") for name in files))
    async with FaultProvider([answer("ok")]) as provider:
        model = OpenAIChatModel("stub-1", base_url=provider.base_url)
        agent = an_agent(model=model, file_resolver=lambda file, _: files[file.reference])
        await RUNNER.run_model_step(agent, a_turn(history=(message,)))
        await model.aclose()

    assert provider.refusals == []
    assert provider.requests[0].body["messages"][0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_encoded(b'pixels')}"}},
        {"type": "image_url", "image_url": {"url": "https://x.test/cat.png"}},
        {"type": "input_audio", "input_audio": {"data": _encoded(b"sound"), "format": "mp3"}},
        {
            "type": "file",
            "file": {"filename": "page.x", "file_data": f"data:application/pdf;base64,{_encoded(b'page')}"},
        },
        {"type": "text", "text": "remember"},
    ]


async def test_images_of_an_answer_are_decoded_and_what_is_no_image_is_malformed() -> None:
    def said(address: Any) -> Any:
        image = {"type": "image_url", "image_url": {"url": address}}
        return events({"choices": [{"index": 0, "delta": {"images": [image]}, "finish_reason": "stop"}]}, done=True)

    plans = [
        said(f"data:image/png;base64,{_encoded(b'pixels')}"),
        said("https://x.test/1"),
        said("data:image/png,abcd"),
        said("data:image/png;base64,a"),
        said(7),
    ]
    async with FaultProvider(plans) as provider:
        model = OpenAIChatModel("stub-1", base_url=provider.base_url)
        kept: list[GeneratedFile] = []

        def store(file: GeneratedFile, context: StepContext) -> FileRef:
            kept.append(file)
            return FileRef(reference="r")

        agent = an_agent(model=model, store_file=store)
        for _ in range(2):
            await RUNNER.run_model_step(agent, a_turn(history=(UserItem(text="paint"),)))
        for _ in range(3):
            with pytest.raises(ModelCallError, match="no chat completion"):
                await RUNNER.run_model_step(agent, a_turn(history=(UserItem(text="paint"),)))
        await model.aclose()

    assert kept == [
        GeneratedFile(media_type="image/png", data=b"pixels"),
        GeneratedFile(media_type="image/*", url="https://x.test/1"),
    ]


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
