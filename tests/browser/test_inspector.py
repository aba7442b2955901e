"""What stands around the conversation: the list and its search, the timeline, the graph, the raw events, the themes."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.dev_server import DevServer
from tests.browser.helpers import (
    ABOUT_7,
    answers,
    ask,
    field,
    held_in_its_answer,
    live,
    say,
    shown_twice,
    stored_answers,
    timeline,
)

pytestmark = [pytest.mark.browser, pytest.mark.processes]


def graph(page: Page) -> Locator:
    """The graph of the newest turn."""
    return page.locator("#turns > .turn").first.get_by_role("img")


def events(page: Page) -> Locator:
    """The rows of the raw events."""
    return page.locator("#events .event")


def types(page: Page) -> list[str]:
    """The types of the raw events that are shown, the newest first."""
    return page.locator("#events .event-type").all_text_contents()


def copied(page: Page, button: Locator) -> str:
    """Press a button that copies. Returns what it copied."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button.click()
    expect(button).to_have_text("Copied")
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def test_the_timeline_tells_who_decided_after_how_long_and_in_which_commit(page: Page, server: DevServer) -> None:
    say(page, "Please refund order 7.")
    expect(page.get_by_role("button", name="Approve", exact=True)).to_be_visible()
    turn = page.locator("#turns > .turn").first
    expect(turn.locator("summary .badge").first).to_have_text("needs approval")
    expect(graph(page)).to_have_accessible_name(re.compile(r"then refund_order needs approval \(now\), then answer$"))

    page.get_by_role("button", name="Approve", exact=True).click()
    expect(answers(page)).to_have_count(3)

    expect(turn.locator("summary .badge").first).to_have_text("completed")
    expect(turn).to_contain_text("3 model calls · 3,600 in (3,000 cached), 240 out (90 reasoning), 0.0063 USD")
    expect(page.locator("#usage")).to_contain_text("0.0063 USD")
    expect(graph(page)).to_have_accessible_name(re.compile(r"^Run: admitted, then model completed, .* then answered$"))
    expect(graph(page).locator("[data-current]")).to_have_count(0)
    expect(timeline(page)).to_contain_text(["model", "lookup_order", "model", "refund_order", "model"])
    refund = timeline(page).nth(3)
    expect(refund).to_contain_text(re.compile(r"approved after [\d.]+ m?s"))
    refund.locator("summary").click()
    moments = refund.locator(".moment")
    expect(moments).to_contain_text(
        ["asks for refund_order", "approval asked for", "approved by local", "starts", "succeeded"]
    )
    told = ask(server, page, "events")["events"]
    (decided,) = [event for event in told if event["type"] == "interrupt_resolved"]
    expect(moments.nth(2)).to_contain_text(f"#{decided['sequence']}")
    expect(moments.nth(2)).to_have_attribute("data-commit", f"commit {decided['version']}")

    refund.get_by_role("button", name="Raw events of this step").click()
    expect(page.get_by_role("tab", name="Events")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_label("Search events")).to_be_focused()
    expect(events(page)).to_have_count(5)


def test_raw_events_are_filtered_shown_with_sequence_and_cursor_and_copied(page: Page, server: DevServer) -> None:
    say(page, "Where is order 7?")
    expect(answers(page)).to_have_text(["Let me look up order 7 for you.", ABOUT_7])
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    page.get_by_role("tab", name="Events").click()
    durable: list[dict[str, Any]] = ask(server, page, "events")["events"]
    expect(events(page).first).to_contain_text("turn_completed")
    assert "text_delta" in types(page)

    page.get_by_label("With live progress").uncheck()
    expect(events(page)).to_have_count(len(durable))
    assert types(page) == [event["type"] for event in reversed(durable)]
    assert json.loads(copied(page, page.get_by_role("button", name="Copy the events that are shown"))) == durable

    page.get_by_label("Tools", exact=True).check()
    expect(events(page)).to_have_count(sum(event["type"].startswith("tool_") for event in durable))
    page.get_by_label("Search events").fill("SUCCEEDED")
    expect(events(page)).to_have_count(1)
    finished = next(event for event in durable if event["type"] == "tool_call_finished")
    events(page).locator("summary").click()
    expect(events(page)).to_contain_text(f"#{finished['sequence']}")
    expect(events(page)).to_contain_text(f"cursor {finished['cursor']}")
    assert json.loads(copied(page, events(page).get_by_role("button", name="Copy: the event as JSON"))) == finished
    page.get_by_label("Search events").fill("no such thing")
    expect(page.locator("#events .hint")).to_have_text("No event fits the filter.")


def test_the_list_is_searched_and_filtered_by_what_sessions_wait_for(page: Page, server: DevServer) -> None:
    mark = page.url.partition("#test-")[2]
    say(page, f"Please refund order 7. {mark}")
    expect(page.get_by_role("button", name="Approve", exact=True)).to_be_visible()
    page.goto(f"{server.url}/#other-{mark}")
    say(page, "Hello")
    expect(answers(page)).to_have_count(1)
    rows = page.locator("#session-list > li")
    search = page.get_by_label("Search sessions")

    search.fill(mark.upper())
    expect(rows).to_have_count(2)
    expect(page.locator(".found")).to_have_text("2 found")
    page.get_by_label("Which sessions").select_option("Waits for an approval")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("waits for an approval")
    page.get_by_label("Which sessions").select_option("Waits for a timer")
    expect(page.get_by_text("No session fits.")).to_be_visible()
    page.get_by_role("button", name="Show all").click()
    expect(search).to_have_value("")
    expect(rows.filter(has_text=mark)).to_have_count(2)


def test_a_server_that_dies_in_the_middle_is_told_in_the_timeline_once(page: Page, server: DevServer) -> None:
    held_in_its_answer(page, server)
    page.get_by_role("tab", name="Events").click()
    expect(events(page).first).to_contain_text("text_delta")

    server.kill()
    expect(page.locator("#connection")).to_have_text("Reconnecting…")
    expect(live(page)).to_contain_text("Order 7 (walking")
    server.hold("")
    server.start()

    expect(page.locator("#connection")).to_have_text("Connected")
    expect(answers(page)).to_have_text(["Let me look up order 7 for you.", ABOUT_7])
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    assert answers(page).all_inner_texts() == stored_answers(server, page)
    assert shown_twice(page, "Order 7 (walking") == []
    page.get_by_label("With live progress").uncheck()
    durable = ask(server, page, "events")["events"]
    expect(events(page)).to_have_count(len(durable))
    assert page.locator("#events .event-sequence").all_text_contents() == [
        f"#{event['sequence']}" for event in reversed(durable)
    ]
    page.get_by_role("tab", name="Timeline").click()
    expect(timeline(page).last).to_contain_text("attempt 2")
    timeline(page).last.locator("summary").click()
    expect(timeline(page).last.locator(".attempts > li")).to_contain_text(["attempt 1", "attempt 2"])


def test_a_cut_that_lasts_is_counted_down_given_up_and_taken_up_again(page: Page, server: DevServer) -> None:
    held_in_its_answer(page, server)
    server.kill()
    line = page.locator("#link")
    expect(line).to_contain_text(re.compile(r"can't be reached.*next try (in \d+ s|now)"))

    line.get_by_role("button", name="Stop trying").click()
    expect(page.locator("#connection")).to_have_text("Not connected")
    expect(line).to_contain_text("what you see may be old")
    server.hold("")
    server.start()
    line.get_by_role("button", name="Connect now").click()

    expect(page.locator("#connection")).to_have_text("Connected")
    expect(line).to_be_hidden()
    expect(answers(page)).to_have_text(["Let me look up order 7 for you.", ABOUT_7])
    assert shown_twice(page, "Order 7 (walking") == []


def test_answers_are_drawn_as_they_are_written_and_never_as_html(page: Page, server: DevServer) -> None:
    say(page, "Write everything.")
    answer = answers(page)
    expect(answer.get_by_role("heading", name="Order")).to_be_visible()
    expect(answer.locator("tbody tr")).to_have_count(1)
    expect(answer.locator("strong")).to_have_text("129.90")
    expect(answer.locator("pre")).to_have_text("print('<b>')")
    expect(answer).to_contain_text("<img src=x onerror=alert(1)> [no](javascript:alert(1))")
    assert answer.locator("a").evaluate_all("(links) => links.map(({ href, rel }) => [href, rel])") == [
        ["https://shop.example/7", "noopener noreferrer nofollow"]
    ]
    expect(answer.locator("img, b, script")).to_have_count(0)
    assert copied(page, answer.get_by_role("button", name="Copy: Code")) == "print('<b>')"
    whole = page.locator(".message.assistant")
    whole.hover()
    assert copied(page, whole.get_by_role("button", name="Copy this answer")) == stored_answers(server, page)[0]


def test_a_new_session_begins_with_the_agent_that_is_chosen_and_keeps_it(page: Page, server: DevServer) -> None:
    choice = page.get_by_role("combobox", name="Agent")
    expect(choice).to_have_value("support")
    choice.select_option("night-shift")

    say(page, "Hello")

    expect(answers(page)).to_have_count(1)
    expect(page.locator("#agent")).to_have_text("agent night-shift")
    expect(choice).to_be_hidden()
    assert ask(server, page)["agent"] == "night-shift"


def test_the_theme_follows_the_system_until_it_is_chosen_and_is_kept(page: Page, server: DevServer) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(ground)
    page.emulate_media(color_scheme="light")
    light = page.evaluate(ground)
    assert dark != light

    theme = page.get_by_role("button", name="Theme: System")
    theme.click()
    page.get_by_role("button", name="Theme: Light").click()
    expect(page.get_by_role("button", name="Theme: Dark")).to_be_visible()
    assert page.evaluate(ground) == dark
    page.reload()
    expect(page.get_by_role("button", name="Theme: Dark")).to_be_visible()
    assert page.evaluate(ground) == dark
    page.emulate_media(color_scheme="dark")
    page.get_by_role("button", name="Theme: Dark").click()
    page.get_by_role("button", name="Theme: System").click()
    assert page.evaluate(ground) == light


def test_single_keys_go_everywhere_but_not_into_what_is_written_and_can_be_turned_off(
    page: Page, server: DevServer
) -> None:
    page.keyboard.type("t?n")
    expect(field(page)).to_have_value("t?n")
    field(page).fill("")
    page.get_by_role("button", name="Keyboard shortcuts").focus()

    page.keyboard.press("e")
    expect(page.get_by_role("tab", name="Events")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Schedules")).to_be_focused()
    expect(page.locator("#no-schedules")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_label("Search sessions")).to_be_focused()
    page.get_by_role("tab", name="Schedules").focus()
    page.keyboard.press("m")
    expect(field(page)).to_be_focused()
    page.get_by_role("tab", name="Schedules").focus()
    before = page.url
    page.keyboard.press("n")
    expect(page).not_to_have_url(before)
    expect(field(page)).to_be_focused()

    page.get_by_role("tab", name="Schedules").focus()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_contain_text("search sessions")
    dialog.get_by_label("Single keys are shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("e")
    expect(page.get_by_role("tab", name="Events")).to_have_attribute("aria-selected", "false")
    page.reload()
    expect(page.locator("#connection")).to_have_text("Connected")
    page.get_by_role("tab", name="Timeline").focus()
    page.keyboard.press("?")
    expect(dialog).to_have_count(0)


def test_the_skip_link_is_first_and_leads_to_the_message_field(page: Page, server: DevServer) -> None:
    page.reload()
    expect(page.locator("#connection")).to_have_text("Connected")
    page.evaluate("document.body.tabIndex = -1; document.body.focus()")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the message field")).to_be_focused()
    page.keyboard.press("Enter")
    expect(field(page)).to_be_focused()


def test_the_development_server_says_that_it_asks_for_no_login(page: Page, server: DevServer) -> None:
    expect(page.locator("#development")).to_contain_text("asks for no login")
    expect(page.locator("#development")).to_have_attribute("data-exposed", "false")
    assert "development mode: no authentication" in server.stderr()
