"""Values that an application asks for and approvals ahead, on the console page, in a real browser on a real server."""

import json
import re
import subprocess
import sys

import pytest
from playwright.sync_api import Page, expect

from tests.browser.dev_server import DevServer
from tests.browser.helpers import TOO_WIDE, answers, ask, refunds, said, say
from tests.browser.test_access import NAMELESS, TOO_FAINT

pytestmark = [pytest.mark.browser, pytest.mark.processes]

# Trusted code opens the file itself, while no server does.
ASK = """
import asyncio, json, sys
import perdure
from perdure.agents.example import support_agent

async def main(file, session_id, name, prompt, schema):
    async with perdure.open(file, agents=[support_agent()]) as runtime:
        await runtime.session(session_id).request_value(name, prompt, schema=json.loads(schema))

asyncio.run(main(*sys.argv[1:]))
"""


def request_values(server: DevServer, page: Page, **wanted: tuple[str, object]) -> None:
    """Let an application ask for values of these names, while the server is down."""
    session_id = page.url.partition("#")[2]
    server.kill()
    for name, (prompt, schema) in wanted.items():
        command = [sys.executable, "-c", ASK, str(server.database), session_id, name, prompt, json.dumps(schema)]
        subprocess.run(command, check=True, timeout=60)
    server.start()
    expect(page.locator("#connection")).to_have_text("Connected")


def test_a_value_that_an_application_asks_for_is_given_in_its_type(page: Page, server: DevServer) -> None:
    say(page, "Hello")
    expect(answers(page)).to_have_count(1)
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    request_values(
        server, page, budget=("How much may it cost?", {"type": "number"}), gift=("Is it a gift?", {"type": "boolean"})
    )
    budget = page.get_by_role("group", name="Question: How much may it cost?")
    gift = page.get_by_role("group", name="Question: Is it a gift?")
    expect(page.locator("#waiting-for")).to_have_text("waits for an input and 1 more")

    budget.get_by_label("Your answer").fill("a lot")
    budget.get_by_role("button", name="Answer").click()
    expect(page.get_by_role("alert")).to_contain_text("Write a number.")
    expect(budget.get_by_label("Your answer")).to_have_value("a lot")
    budget.get_by_label("Your answer").fill("120.5")
    page.keyboard.press("Enter")
    expect(budget).to_have_count(0)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert page.evaluate(NAMELESS) == []
        assert page.evaluate(TOO_FAINT) == []
    gift.get_by_role("button", name="No", exact=True).click()

    expect(gift).to_have_count(0)
    expect(page.locator("#waiting-for")).to_be_hidden()
    events = ask(server, page, "events")["events"]
    given = [event["payload"]["answer"] for event in events if event["type"] == "interrupt_resolved"]
    assert given == [120.5, False]


def test_calls_are_approved_ahead_and_that_is_taken_back(page: Page, server: DevServer) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    say(page, "Please refund order 7.")
    form = page.get_by_role("group", name="Approval of refund_order")
    form.get_by_text("Approve calls like this one ahead").click()
    form.get_by_label("For how long").select_option("1 hour")
    form.get_by_label("same amount").uncheck()
    assert page.evaluate(TOO_WIDE) == []
    assert page.evaluate(NAMELESS) == []
    form.get_by_role("button", name="Approve, also ahead").click()
    expect(answers(page)).to_have_count(3)
    page.set_viewport_size({"width": 1360, "height": 860})
    page.get_by_role("tab", name="Schedules 1").click()
    grant = page.get_by_role("group", name="refund_order is approved ahead")
    expect(grant).to_contain_text(re.compile("ends in (1 h 0 min|59 min .*) · same order_id"))

    say(page, "Refund 5 of order 7")
    expect(answers(page)).to_have_count(5)
    expect(page.get_by_role("group", name="Tool call refund_order").last).to_contain_text("approved ahead")
    assert refunds(server) == 2
    grant.get_by_role("button", name="Take back").click()
    expect(grant).to_have_count(0)

    say(page, "Refund 6 of order 7")
    expect(form).to_be_visible()
    expect(said(page)).to_have_count(3)
    assert refunds(server) == 2
