"""Who wrote a message, and who changed it, when several people share a session (spec INBOX-18)."""

from __future__ import annotations

from typing import Any

from perdure.api import shapes
from perdure.checks import Caller
from perdure.core.entries import Actor
from perdure.models.scripted import ScriptedModel
from perdure.service import Service
from perdure.testing.fixtures import open_stage
from tests.unit.api.builders import Api, a_caller
from tests.unit.api.test_openapi import fits
from tests.unit.steps.builders import an_agent

SESSION = "/v1/sessions/s-1"
ANNA = Caller(tenant="local", actor=Actor(issuer="https://issuer.example.com/", subject="anna"))
BERT = Caller(tenant="local", actor=Actor(issuer="https://issuer.example.com/", subject="bert"))


def subjects(items: list[dict[str, Any]]) -> list[str]:
    return [item["actor"]["subject"] for item in items]


async def test_each_message_names_its_own_writer_also_when_somebody_else_changes_it() -> None:
    async with open_stage(an_agent(model=ScriptedModel(lambda _: "Fine."))) as stage:
        service = Service(stage.deps, authorize=lambda *_: True)
        await service.send_input(ANNA, "s-1", text="first")
        waits = await service.send_input(BERT, "s-1", text="second")
        await service.send_input(ANNA, "s-1", text="third")

        await service.edit(ANNA, "s-1", waits["message_id"], text="zwei")
        await service.move(BERT, "s-1", waits["message_id"], position="last")

        inbox = (await service.inbox(ANNA, "s-1"))["entries"]
        assert [entry["text"] for entry in inbox] == ["third", "zwei"]
        assert subjects(inbox) == ["anna", "bert"]
        events = (await service.events(ANNA, "s-1"))["events"]
        changes = {e["type"]: e["payload"]["actor"]["subject"] for e in events if e["type"].startswith("inbox.")}
        assert changes == {"inbox.edited": "anna", "inbox.moved": "bert"}
        await stage.run_all()
        users = [m for m in (await service.messages(ANNA, "s-1"))["messages"] if m["role"] == "user"]
        assert subjects(users) == ["anna", "anna", "bert"]


async def test_a_waiting_message_tells_who_wrote_it_whether_it_is_urgent_and_its_files(api: Api) -> None:
    """Spec INBOX-18."""
    anna = Api(api.service, a_caller("anna", tenant="local"))
    await anna.post(f"{SESSION}/inputs", {"text": "think"})
    await anna.post(f"{SESSION}/pause", {})
    file = {"reference": "r-1", "name": "a.png"}
    await anna.post(f"{SESSION}/inputs", {"text": "see", "files": [file]})
    await anna.post(f"{SESSION}/inputs", {"text": "first", "delivery": "interrupt_next"})

    _, inbox = await anna.get(f"{SESSION}/inbox")
    _, snapshot = await anna.get(SESSION)

    fits(shapes.Inbox, inbox)
    by = {"source": "person", "actor": {"issuer": "https://issuer.example.com/", "subject": "anna"}}
    urgent, later = ({name: e.get(name) for name in ("urgent", "files", "source", "actor")} for e in inbox["entries"])
    assert urgent == {"urgent": True, "files": None, **by}
    assert later == {"urgent": None, "files": [{"type": "file", **file}], **by}
    assert snapshot["inbox"] == inbox["entries"]
    assert {name: snapshot["messages"][0][name] for name in by} == by
