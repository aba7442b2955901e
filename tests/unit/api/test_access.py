"""What an `authorize` hook allows, over every route of a session: it is asked before anything is done (API-02)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, get_args

import pytest

from perdure.access import Operation, Principal, SessionFacts
from perdure.api.routes import ROUTES
from perdure.aws.bootstrap import authorize_of
from perdure.embedded.runtime import EmbeddedRuntime
from perdure.service import LOCAL_CALLER, Service
from tests.unit.api.builders import Api, Desk, a_runtime, code

PLACES = {"{session_id}": "s-1", "{turn_id}": "turn-1", "{interrupt_id}": "call-2-0", "{call_id}": "call-2-0"}
PLACES |= {"{message_id}": "m-2", "{wait_id}": "call-2-0", "{schedule_id}": "daily", "{grant_id}": "grant-1-0"}

READS = ("get_session", "list_messages", "get_turn", "list_events", "get_inbox", "list_waits", "list_schedules")
COMMANDS: dict[str, tuple[Operation, Any]] = {
    "send_input": ("send", {"text": "hi"}),
    "start_session": ("send", {}),
    "resolve_interrupt": ("approve", {"approved": True}),
    "change_wait": ("approve", {"until": None}),
    "stop": ("stop", {}),
    "retry": ("control", {"retry_id": "r-1"}),
    "pause": ("control", None),
    "set_title": ("control", {"title": "another"}),
    "resume": ("control", None),
    "update_settings": ("control", {}),
    "change_message": ("control", {"text": "other"}),
    "remove_message": ("control", None),
    "deliver_message": ("control", {"delivery": "steer"}),
    "skip_wait": ("control", None),
    "cancel_wait": ("control", None),
    "set_schedule": ("control", {"text": "hi", "after": {"hours": 1}}),
    "change_schedule": ("control", {"text": "hi"}),
    "cancel_schedule": ("control", None),
    "revoke_grant": ("control", None),
}
ELSEWHERE = {"get_tool_output", "resume_chat"}
"""Routes of a session with tests of their own: what is there to be read needs a state of its own."""

BY_OPERATION = {route.operation: route for route in ROUTES}


class Hook:
    """Says yes to some operations, no to all others, and knows what it was asked."""

    def __init__(self) -> None:
        self.allowed: set[Operation] = set()
        self.asked: list[tuple[Principal, Operation, SessionFacts]] = []

    def __call__(self, who: Principal, operation: Operation, session: SessionFacts) -> bool | None:
        self.asked.append((who, operation, session))
        return operation in self.allowed


@pytest.fixture
def hook() -> Hook:
    return Hook()


@pytest.fixture
async def embedded(tmp_path: Path, desk: Desk) -> AsyncIterator[EmbeddedRuntime]:
    """A session of the local user that waits for the approval of a refund, with a message behind it."""
    async with a_runtime(tmp_path, desk) as runtime:
        mine = Api(runtime.service)
        await mine.refund_that_waits("s-1")
        await mine.post("/v1/sessions/s-1/inputs", {"text": "next", "message_id": "m-2"})
        yield runtime


@pytest.fixture
def theirs(embedded: EmbeddedRuntime, hook: Hook) -> Api:
    return Api(Service(embedded.service._deps, authorize=hook))


async def asked(api: Api, operation: str) -> tuple[int, Any]:
    route = BY_OPERATION[operation]
    path = route.path
    for name, value in PLACES.items():
        path = path.replace(name, value)
    if route.method == "GET":
        return await api.get(path)
    return await api.command(route.method, path, COMMANDS[operation][1])


def test_every_route_of_a_session_is_looked_at_here() -> None:
    of_a_session = {route.operation for route in ROUTES if "{session_id}" in route.path}

    assert {*READS, *COMMANDS, *ELSEWHERE} == of_a_session


@pytest.mark.parametrize("operation", [*READS, *COMMANDS])
async def test_who_may_not_read_a_session_is_told_that_there_is_none(
    theirs: Api, embedded: EmbeddedRuntime, hook: Hook, operation: str
) -> None:
    before = await embedded.session("s-1").snapshot()

    assert code(await asked(theirs, operation)) == (404, "session_not_found")
    assert await embedded.session("s-1").snapshot() == before
    facts = hook.asked[0][2]
    assert (facts.session_id, facts.agent, facts.owner) == ("s-1", "support", LOCAL_CALLER.actor)


@pytest.mark.parametrize("operation", READS)
async def test_who_may_read_reads_everything(theirs: Api, hook: Hook, operation: str) -> None:
    hook.allowed = {"read"}

    assert (await asked(theirs, operation))[0] == 200


@pytest.mark.parametrize("operation", COMMANDS)
async def test_who_may_do_all_but_the_one_thing_is_forbidden_that(
    theirs: Api, embedded: EmbeddedRuntime, hook: Hook, operation: str
) -> None:
    hook.allowed = set(get_args(Operation)) - {COMMANDS[operation][0]}
    before = await embedded.session("s-1").snapshot()

    assert code(await asked(theirs, operation)) == (403, "forbidden")
    assert await embedded.session("s-1").snapshot() == before


async def test_who_may_approve_does_what_the_owner_could_and_the_record_names_them(
    theirs: Api, embedded: EmbeddedRuntime, hook: Hook, desk: Desk
) -> None:
    hook.allowed = {"read", "approve"}

    status, reply = await asked(theirs, "resolve_interrupt")

    assert (status, reply) == (200, {"result": "resolved"})
    await Api(embedded.service).until("s-1", "turn_completed")
    assert desk.refunds == ["7"]


async def test_a_hook_may_take_from_the_owner_and_leaves_new_sessions_to_whoever_begins_them(
    theirs: Api, hook: Hook
) -> None:
    """The caller of these requests is the owner: what the hook says stands above that."""
    assert code(await theirs.get("/v1/sessions/s-1")) == (404, "session_not_found")

    assert (await theirs.post("/v1/sessions/s-new/inputs", {"text": "hi"}))[0] == 202


def test_on_aws_the_hook_stands_beside_the_agents_in_their_module() -> None:
    assert authorize_of("tests.unit.api.test_access:agents") is authorize
    assert authorize_of("tests.unit.api.builders:agents") is None


def authorize(who: Principal, operation: Operation, session: SessionFacts) -> bool | None:
    """The hook of this module, as a deployment would have one."""
    return None
