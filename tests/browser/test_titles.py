"""Titles on the console page: given by a person and by a model, in a real browser on a real server."""

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.dev_server import DevServer
from tests.browser.helpers import answers, ask, say

pytestmark = [pytest.mark.browser, pytest.mark.processes]


def heading(page: Page) -> Locator:
    """What the open session is called."""
    return page.locator("#session-title")


def listed(page: Page) -> Locator:
    """What the list calls it."""
    return page.locator("#session-list a[aria-current] .session-title")


def title_field(page: Page) -> Locator:
    """Where a person writes another title."""
    return page.get_by_label("Title of this session")


def test_a_session_is_renamed_by_mouse_and_by_keyboard_and_keeps_its_title(page: Page, server: DevServer) -> None:
    session_id = page.url.partition("#")[2]
    expect(heading(page)).to_have_text(session_id)
    expect(page.get_by_role("button", name="Rename this session")).to_be_hidden()  # there is nothing to name yet
    say(page, "Hello")
    expect(answers(page)).to_have_count(1)

    page.get_by_role("button", name="Rename this session").click()
    title_field(page).fill("  A first <b>greeting</b> ")
    page.get_by_role("button", name="Save").click()
    expect(heading(page)).to_have_text("A first <b>greeting</b>")
    expect(listed(page)).to_have_text("A first <b>greeting</b>")
    expect(page.get_by_role("button", name="Rename this session")).to_be_focused()

    page.keyboard.press("r")
    expect(title_field(page)).to_have_value("A first <b>greeting</b>")
    page.keyboard.type("Dropped")
    page.keyboard.press("Escape")
    expect(heading(page)).to_have_text("A first <b>greeting</b>")
    page.keyboard.press("r")
    page.keyboard.type("Greetings")
    page.keyboard.press("Enter")
    expect(heading(page)).to_have_text("Greetings")
    expect(listed(page)).to_have_text("Greetings")

    page.reload()
    expect(heading(page)).to_have_text("Greetings")
    expect(listed(page)).to_have_text("Greetings")
    expect(page.locator("#agent")).to_contain_text(session_id)
    told = [event["payload"] for event in ask(server, page, "events")["events"] if event["type"] == "title_changed"]
    assert [(payload["title"], payload["by"]) for payload in told] == [
        ("A first <b>greeting</b>", "person"),
        ("Greetings", "person"),
    ]


def test_a_title_by_a_model_shows_by_itself_and_a_persons_replaces_it(page: Page, server: DevServer) -> None:
    page.get_by_role("combobox", name="Agent").select_option("night-shift")
    say(page, "Hello")

    expect(heading(page)).to_have_text("Greetings at night")
    expect(listed(page)).to_have_text("Greetings at night")
    page.get_by_role("tab", name="Events").click()
    expect(page.locator("#events")).to_contain_text("title: “Greetings at night”, by a model")

    page.get_by_role("button", name="Rename this session").click()
    title_field(page).fill("Mine")
    page.keyboard.press("Enter")
    expect(heading(page)).to_have_text("Mine")
    expect(listed(page)).to_have_text("Mine")
    assert ask(server, page)["title"] == "Mine"


def test_a_title_that_is_refused_says_why_and_can_be_shortened(page: Page, server: DevServer) -> None:
    say(page, "Hello")
    expect(answers(page)).to_have_count(1)
    page.get_by_role("button", name="Rename this session").click()
    title_field(page).evaluate("(field) => field.removeAttribute('maxlength')")
    title_field(page).fill("x" * 201)
    page.keyboard.press("Enter")

    expect(page.locator("#error-text")).to_contain_text("201 characters")
    expect(title_field(page)).to_have_value("x" * 201)
    title_field(page).fill("x" * 200)
    page.keyboard.press("Enter")
    expect(heading(page)).to_have_text("x" * 200)
    expect(page.locator("#error")).to_be_hidden()
