"""Stored messages for a page that loads: what following would have shown."""

from pathlib import Path

import pytest

from perdure.service import LOCAL_CALLER
from perdure.streams import ui_history
from perdure.streams.ui_token import read_token
from tests.unit.api.builders import Api, Desk, a_runtime, code
from tests.unit.api.ui_clients import a_message, chatted, chunks_of, decided, posted, resumed, shown, until

PAGE = "/v1/sessions/s-1?format=ui"


async def test_a_session_that_was_never_written_has_no_messages(api: Api) -> None:
    assert await api.get(PAGE) == (200, {"session_id": "s-1", "messages": [], "resume_token": None})


async def test_a_page_that_loads_has_what_it_would_have_streamed(api: Api) -> None:
    hello = shown(await chatted(api, "hello"))
    asked = shown(await chatted(api, "refund order 7", "ui-2"))
    refunded = shown(await chunks_of(await posted(api, decided(asked, approved=True))), asked)
    failed = shown(await chatted(api, "fail", "ui-3"))

    _, page = await api.get(PAGE)

    sent = [a_message("hello"), a_message("refund order 7", "ui-2"), a_message("fail", "ui-3")]
    assert page["messages"] == [sent[0], hello, sent[1], refunded, sent[2], failed]
    assert page["resume_token"] is None


async def test_a_page_that_loads_while_a_turn_runs_gets_the_token_to_go_on_with(api: Api, desk: Desk) -> None:
    running = await posted(api, a_message("think"))
    assert running.stream is not None
    await until(running.stream, "start-step")

    _, page = await api.get(PAGE)
    token = page["resume_token"]
    place = read_token(token, "s-1")
    desk.gate.set()
    chunks = await chunks_of(await resumed(api, x_resume_token=token))

    assert page["messages"] == [a_message("think")]
    assert place is not None
    assert (place.turn_id, place.steps) == ("turn-1", 0)
    assert [*page["messages"], shown(chunks)] == (await api.get(PAGE))[1]["messages"]


async def test_a_page_that_loads_before_a_decision_has_the_request_for_it_and_goes_on_exactly(api: Api) -> None:
    asked = shown(await chatted(api, "refund order 7"))
    _, page = await api.get(PAGE)

    query = f"?exact=true&steps={sum(part['type'] == 'step-start' for part in asked['parts'])}"
    by_count = await chunks_of(await resumed(api, query=query, x_resume_token=page["resume_token"]))

    assert page["messages"][-1] == asked
    assert shown(by_count, asked) == asked
    assert by_count[-1]["finishReason"] == "tool-calls"


async def test_what_joined_a_turn_is_shown_within_its_answer_and_what_waits_is_not_shown(api: Api, desk: Desk) -> None:
    asked = shown(await chatted(api, "refund order 7"))
    await api.post("/v1/sessions/s-1/inputs", {"text": "quickly", "message_id": "m-2", "delivery": "inject"})
    await api.post("/v1/sessions/s-1/inputs", {"text": "later", "message_id": "m-3"})
    _, waiting = await api.get(PAGE)
    whole = shown(await chunks_of(await posted(api, decided(asked, approved=True))), asked)
    await chunks_of(await posted(api, a_message("last", "m-4")))

    _, page = await api.get(PAGE)

    assert [message["id"] for message in waiting["messages"]] == ["ui-1", "turn-1-assistant"]
    assert page["messages"][1] == whole
    assert "steering-message" in [part["type"] for part in whole["parts"]]
    assert [message["id"] for message in page["messages"]] == [
        "ui-1",
        "turn-1-assistant",
        "m-3",
        "turn-2-assistant",
        "m-4",
        "turn-3-assistant",
    ]


async def test_older_turns_come_page_by_page(api: Api) -> None:
    for number in range(1, 6):
        await chatted(api, f"hello {number}", f"ui-{number}")

    _, newest = await api.get(f"{PAGE}&limit=2")
    _, older = await api.get(f"{PAGE}&limit=2&before={newest['next_before']}")
    _, oldest = await api.get(f"{PAGE}&limit=2&before={older['next_before']}")

    ids = [
        [message["id"] for message in page["messages"] if message["role"] == "user"] for page in (newest, older, oldest)
    ]
    assert ids == [["ui-4", "ui-5"], ["ui-2", "ui-3"], ["ui-1"]]
    assert "next_before" not in oldest
    assert (await api.get(f"{PAGE}&before=turn-1"))[1]["messages"] == []


async def test_a_page_is_never_larger_than_a_reply_may_be(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 4):
        await chatted(api, f"hello {number} {'x' * 500}", f"ui-{number}")
    monkeypatch.setattr(ui_history, "MAX_PAGE_BYTES", 2_000)

    _, page = await api.get(PAGE)

    assert [message["id"] for message in page["messages"]] == ["ui-3", "turn-3-assistant"]
    assert page["next_before"] == "turn-3"


@pytest.mark.parametrize("query", ["before=turn-2", "limit=3", "format=ui&before=turn-x", "format=ui&before=7"])
async def test_what_is_asked_wrong_is_refused(api: Api, query: str) -> None:
    assert code(await api.get(f"/v1/sessions/s-1?{query}"))[0] == 400


async def test_an_imported_history_comes_first(tmp_path: Path) -> None:
    async with a_runtime(tmp_path) as runtime:
        history = [{"role": "user", "text": "Hi"}, {"role": "assistant", "text": "Hello"}]
        await runtime.service.seed(LOCAL_CALLER, "s-1", messages=history)
        api = Api(runtime.service)
        await chatted(api, "hello")

        _, page = await api.get(PAGE)

    assert [message["role"] for message in page["messages"]] == ["user", "assistant", "user", "assistant"]
    assert page["messages"][1]["parts"] == [{"type": "step-start"}, {"type": "text", "text": "Hello", "state": "done"}]
