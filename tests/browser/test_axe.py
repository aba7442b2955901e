"""The console as axe-core sees it, which looks for what keeps people out: both themes, on a desk and on a phone."""

from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Page, ViewportSize, expect

from tests.browser.dev_server import DevServer
from tests.browser.helpers import TOO_WIDE, answers, field, held_in_its_answer, say, waiting

pytestmark = [pytest.mark.browser, pytest.mark.processes]

PHONE: ViewportSize = {"width": 390, "height": 844}

AXE = Axe()


def violations(page: Page) -> list[tuple[str, list[Any]]]:
    """What axe finds fault with: its rules, and the elements that break them. On a phone, also what does not fit."""
    if page.viewport_size == PHONE:
        assert page.evaluate(TOO_WIDE) == []
    found = AXE.run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in found]


@pytest.mark.parametrize("size", ["desk", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_anybody_out(
    page: Page, server: DevServer, scheme: Literal["light", "dark"], size: Literal["desk", "phone"]
) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    if size == "phone":
        page.set_viewport_size(PHONE)
    say(page, "Write everything.")
    expect(answers(page).locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    say(page, "Please refund order 7.")
    page.get_by_role("button", name="Edit arguments").click()
    say_meanwhile(page)
    assert violations(page) == []

    shows = page.get_by_role("group", name="Show")
    if size == "phone":
        shows.get_by_role("button", name="Inspect").click()
    page.locator(".step summary").last.click()
    assert violations(page) == []
    for tab in ("Events", "Schedules"):
        page.get_by_role("tab", name=tab).click()
        if tab == "Events":
            page.locator(".event summary").first.click()
        assert violations(page) == []
    page.get_by_role("button", name="New schedule").click()
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Keyboard shortcuts").click()
    assert violations(page) == []
    page.keyboard.press("Escape")
    if size == "phone":
        shows.get_by_role("button", name="Sessions").click()
        assert violations(page) == []


def say_meanwhile(page: Page) -> None:
    """Let a message wait behind the turn that waits."""
    field(page).fill("Thanks")
    field(page).press("Enter")
    expect(waiting(page)).to_have_count(1)


def test_a_page_that_reconnects_a_failed_turn_and_an_empty_session_keep_nobody_out(
    page: Page, server: DevServer
) -> None:
    page.emulate_media(reduced_motion="reduce")
    assert violations(page) == []
    held_in_its_answer(page, server)
    server.kill()
    expect(page.locator("#connection")).to_have_text("Reconnecting…")
    assert violations(page) == []
    server.fail("auth", message="401: wrong key")
    server.hold("")
    server.start()
    expect(page.get_by_role("group", name="Failed turn")).to_be_visible()
    page.get_by_role("button", name="Settings").click()
    assert violations(page) == []
