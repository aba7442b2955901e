"""The output of a call, piece by piece: by the session object, over HTTP, and through the size limit of every host."""

from __future__ import annotations

import hashlib
from typing import Any

import httpx
import pytest

from perdure import function_tool
from perdure.api.result_shapes import ToolOutput
from perdure.core.outputs import MOST_OUTPUT_CHARACTERS, OUTPUT_CHARACTERS
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.api.builders import Api, a_caller, code
from tests.unit.api.test_client import Wire
from tests.unit.api.test_large_replies import replies_of
from tests.unit.api.test_openapi import fits
from tests.unit.steps.builders import an_agent

LISTED = "\U0001f600é" * 400_000
PATH = "/v1/sessions/s-1/tool-calls/call-2-0/output"


@function_tool(effect="read")
async def dump(what: str) -> str:
    """Dump."""
    return {"listed": LISTED, "nuls": "\0" * 600_000}[what]


def dumping(what: str = "listed") -> Any:
    model = ScriptedModel(lambda r: "done" if tool_results(r) else Reply(calls=(call("dump", what=what),)))
    return an_agent(dump, model=model)


async def after_a_turn(stage: Stage) -> Api:
    await stage.send("go")
    await stage.run_all()
    return Api(stage.service)


async def test_all_of_an_output_is_read_piece_by_piece_and_its_hash_is_that_of_the_whole() -> None:
    async with open_stage(dumping()) as stage:
        await after_a_turn(stage)
        pieces: list[str] = []
        offset: int | None = 0
        while offset is not None:
            page = await stage.session().tool_output("call-2-0", offset)
            assert len(page["output"]) == OUTPUT_CHARACTERS
            pieces.append(page["output"])
            offset = page.get("next_offset")

        assert "".join(pieces) == LISTED
        assert page["total_characters"] == len(LISTED)
        assert page["sha256"] == hashlib.sha256(LISTED.encode()).hexdigest()


async def test_over_http_it_is_the_same_and_as_the_document_says() -> None:
    async with open_stage(dumping()) as stage:
        api = await after_a_turn(stage)

        _, first = await api.get(f"{PATH}?limit=3")
        _, last = await api.get(f"{PATH}?offset={len(LISTED) - 2}")
        _, behind = await api.get(f"{PATH}?offset={len(LISTED)}")

        assert (first["output"], first["next_offset"]) == ("\U0001f600é\U0001f600", 3)
        assert (last["output"], "next_offset" in last) == ("\U0001f600é", False)
        assert (behind["output"], "next_offset" in behind) == ("", False)
        for page in (first, last, behind):
            fits(ToolOutput, page)


async def test_no_piece_is_too_large_for_its_host_whatever_is_asked_for() -> None:
    async with open_stage(dumping("nuls")) as stage:
        await after_a_turn(stage)

        page = await replies_of(stage, PATH, "limit=999999999")

        assert page["output"] == "\0" * MOST_OUTPUT_CHARACTERS
        assert page["next_offset"] == MOST_OUTPUT_CHARACTERS


async def test_what_is_not_there_not_finished_or_somebody_elses_is_refused() -> None:
    async with open_stage(dumping()) as stage:
        api = Api(stage.service)
        assert code(await api.get(PATH)) == (404, "tool_call_not_found")
        await stage.send("go")
        await stage.run_next()

        assert code(await api.get(PATH)) == (409, "not_finished")
        await stage.run_all()
        assert code(await api.get(PATH.replace("call-2-0", "call-2-1"))) == (404, "tool_call_not_found")
        assert code(await api.get(PATH.replace("call-2-0", "%2e%2e"))) == (404, "tool_call_not_found")
        assert code(await api.get(f"{PATH}?offset=-1")) == (400, "invalid_request")
        assert code(await api.get(f"{PATH}?offset=x")) == (400, "invalid_request")
        stranger = Api(stage.service, a_caller("mallory", tenant="local"))
        assert code(await stranger.get(PATH)) == (404, "session_not_found")
        assert code(await Api(stage.service, a_caller("mallory")).get(PATH)) == (404, "tool_call_not_found")


async def test_who_may_see_a_session_may_see_its_outputs() -> None:
    async with open_stage(dumping(), authorize=lambda _, operation, __: operation == "read" or None) as stage:
        await after_a_turn(stage)

        status, page = await Api(stage.service, a_caller("auditor", tenant="local")).get(f"{PATH}?limit=2")

        assert (status, page["output"]) == (200, "\U0001f600é")


async def test_a_client_asks_for_a_piece_with_one_request_and_raises_what_the_server_says() -> None:
    page = {"output": "b", "total_characters": 2, "sha256": "0"}
    refusals = [(404, "tool_call_not_found"), (409, "not_finished"), (400, "invalid_request")]
    wire = Wire(
        httpx.Response(200, json=page),
        *(
            httpx.Response(status, json={"error": {"code": reason, "message": "no", "retryable": False}})
            for status, reason in refusals
        ),
    )
    session = wire.client().session("s-1")

    assert await session.tool_output("call-2-0", 1, 5) == page
    assert str(wire.requests[0].url).endswith("/v1/sessions/s-1/tool-calls/call-2-0/output?offset=1&limit=5")
    for error in (NotFoundError, RequestConflictError, InvalidRequestError):
        with pytest.raises(error):
            await session.tool_output("..")
    assert "/tool-calls/%2E%2E/output" in str(wire.requests[1].url)
