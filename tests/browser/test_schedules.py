"""Schedules on the console page, in a real browser on a real server."""

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.dev_server import DevServer
from tests.browser.helpers import TOO_WIDE, answers, ask, said, say
from tests.browser.test_access import NAMELESS, TOO_FAINT, tab_to

pytestmark = [pytest.mark.browser, pytest.mark.processes]


def rows(page: Page) -> Locator:
    """The schedules of the open session."""
    return page.locator("#schedule-list > .schedule")


def dialog(page: Page) -> Locator:
    """The form of a schedule."""
    return page.get_by_role("dialog", name=re.compile("schedule"))


def stored_schedules(server: DevServer, page: Page) -> list[dict[str, Any]]:
    """The schedules as the server has them."""
    schedules: list[dict[str, Any]] = ask(server, page, "schedules")["schedules"]
    return schedules


def write(page: Page, text: str, mode: str, **fields: str) -> None:
    """Open the form and fill it."""
    page.get_by_role("tab", name="Schedules").click()
    page.get_by_role("button", name="New schedule").click()
    dialog(page).get_by_label("Message to the agent").fill(text)
    dialog(page).get_by_label("When").select_option(mode)
    for label, value in fields.items():
        control = dialog(page).get_by_label(label.replace("_", " "))
        if label == "Unit":
            control.select_option(value)
        else:
            control.fill(value)


def test_a_session_begins_with_a_schedule_whose_message_is_sent_now(page: Page, server: DevServer) -> None:
    page.get_by_role("tab", name="Schedules").click()
    expect(page.locator("#no-schedules")).to_be_visible()
    write(page, "Where is order 7?", "cron", Minute="0 9 * * mon-fri", Time_zone="Europe/Berlin")
    dialog(page).get_by_role("button", name="Save").click()
    expect(rows(page)).to_contain_text(["by the clock: 0 9 * * mon-fri · Europe/Berlin"])
    expect(rows(page)).to_contain_text([re.compile(r"next in \d+ (d|h)")])
    (before,) = stored_schedules(server, page)
    assert before["when"] == {"every": "0 9 * * mon-fri", "time_zone": "Europe/Berlin"}

    rows(page).get_by_role("button", name="Send now").click()

    expect(said(page)).to_have_text("Where is order 7?")
    expect(page.locator("#transcript .message.user .note")).to_contain_text("From schedule")
    expect(answers(page)).to_have_count(2)
    (later,) = stored_schedules(server, page)
    assert later["next_at"] > before["next_at"]


def test_a_schedule_is_moved_changed_and_deleted(page: Page, server: DevServer) -> None:
    say(page, "Hello")
    expect(answers(page)).to_have_count(1)
    write(page, "Where is order 3?", "after", How_many="2", Unit="hours")
    dialog(page).get_by_role("button", name="Save").click()
    expect(rows(page)).to_contain_text([re.compile(r"next in (2 h|1 h 59)")])

    rows(page).get_by_role("button", name="One day later").click()
    expect(rows(page)).to_contain_text([re.compile(r"next in 1 d [12] h")])
    (moved,) = stored_schedules(server, page)
    rows(page).get_by_role("button", name="Edit").click()
    dialog(page).get_by_label("Message to the agent").fill("Where is order 4?")
    dialog(page).get_by_role("button", name="Save").click()  # the time was not touched, and stays
    expect(rows(page)).to_contain_text(["Where is order 4?"])
    (changed,) = stored_schedules(server, page)
    assert (changed["text"], changed["next_at"]) == ("Where is order 4?", moved["next_at"])
    rows(page).get_by_role("button", name="Edit").click()
    dialog(page).get_by_label("When").select_option("interval")
    dialog(page).get_by_label("How many").fill("90")
    dialog(page).get_by_label("Unit").select_option("minutes")
    dialog(page).get_by_role("button", name="Save").click()
    expect(rows(page)).to_contain_text(["every 90 minutes"])
    rows(page).get_by_role("button", name="Delete").click()

    expect(rows(page)).to_have_count(0)
    expect(page.get_by_role("button", name="New schedule")).to_be_focused()
    assert stored_schedules(server, page) == []


def test_what_is_wrong_with_a_schedule_is_said_in_its_form(page: Page, server: DevServer) -> None:
    write(page, " ", "cron", Minute="61 * * * *")
    dialog(page).get_by_role("button", name="Save").click()
    expect(dialog(page).get_by_role("alert")).to_contain_text("Write what the agent is to be told.")
    dialog(page).get_by_label("Message to the agent").fill("Hello")

    dialog(page).get_by_role("button", name="Save").click()

    expect(dialog(page).get_by_role("alert")).to_contain_text("61 is out of range")  # the server's word
    expect(dialog(page).get_by_label("Minute")).to_have_value("61 * * * *")
    page.keyboard.press("Escape")
    expect(dialog(page)).to_have_count(0)
    expect(rows(page)).to_have_count(0)


def test_a_schedule_that_somebody_else_sets_is_shown_and_comes_while_the_page_is_open(
    page: Page, server: DevServer
) -> None:
    other = page.context.new_page()
    page.get_by_role("tab", name="Schedules").click()
    other.goto(page.url)
    expect(other.locator("#connection")).to_have_text("Connected")
    write(other, "Hello", "after", How_many="2", Unit="seconds")

    dialog(other).get_by_role("button", name="Save").click()

    expect(rows(page)).to_have_count(1)
    expect(said(page)).to_have_text("Hello")
    expect(rows(page)).to_have_count(0)


def test_schedules_work_by_keyboard_fit_a_phone_and_have_names_and_contrast(page: Page, server: DevServer) -> None:
    tab_to(page, page.get_by_role("tab", name="Timeline"))
    page.keyboard.press("End")
    tab_to(page, page.get_by_role("button", name="New schedule"))
    page.keyboard.press("Enter")
    expect(dialog(page).get_by_label("Message to the agent")).to_be_focused()
    page.keyboard.type("Where is order 7? " + "verylongword" * 20)
    tab_to(page, dialog(page).get_by_label("When"))
    page.keyboard.press("End")
    expect(dialog(page).get_by_label("Minute")).to_be_visible()
    assert page.evaluate(NAMELESS) == []
    tab_to(page, dialog(page).get_by_role("button", name="Save"))
    page.keyboard.press("Enter")
    expect(rows(page)).to_have_count(1)

    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_role("group", name="Show").get_by_role("button", name="Inspect").click()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert page.evaluate(TOO_WIDE) == []
        assert page.evaluate(NAMELESS) == []
        assert page.evaluate(TOO_FAINT) == []
    rows(page).get_by_role("button", name="Edit").click()
    expect(dialog(page).get_by_role("button", name="Save")).to_be_in_viewport(ratio=1)
    assert page.evaluate(TOO_WIDE) == []
    assert page.evaluate(TOO_FAINT) == []
