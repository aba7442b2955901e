"""The console page in a real browser, on a real server that is really killed."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.dev_server import DevServer
from tests.browser.helpers import (
    ABOUT_7,
    TOO_WIDE,
    answers,
    growth,
    held_in_its_answer,
    is_growing,
    live,
    refunds,
    said,
    say,
    shown_twice,
    stored,
    stored_answers,
    timeline,
    waiting,
)

pytestmark = [pytest.mark.browser, pytest.mark.processes]

EXPORTED = "".join(f"order {number:06d}\n" for number in range(60_000))
REFUNDED = (
    "Good news, that is done! Refunded 129.90 euros for order 7. The money will be on your account within a few days."
)


def test_an_answer_is_seen_growing_and_stays_when_it_is_stored(page: Page, server: DevServer) -> None:
    say(page, "Where is order 7?")

    expect(answers(page)).to_have_count(2)
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    expect(answers(page)).to_have_text(["Let me look up order 7 for you.", ABOUT_7])
    assert stored_answers(server, page) == ["Let me look up order 7 for you.", ABOUT_7]
    grown = growth(page, "Order 7")
    assert len(grown) > 1
    assert is_growing(grown)
    assert shown_twice(page, "Order 7 (walking") == []
    expect(timeline(page)).to_contain_text(["model", "lookup_order", "model"])


def test_a_refund_runs_once_a_person_has_approved_it(page: Page, server: DevServer) -> None:
    say(page, "Please refund order 7.")
    card = page.get_by_role("group", name="Tool call refund_order")
    expect(card).to_contain_text('"amount": 129.9')
    expect(card).to_contain_text("needs approval")
    expect(page.locator("#activity")).to_contain_text("Waits for an approval since")
    assert refunds(server) == 0

    say(page, "Hello")
    expect(waiting(page)).to_contain_text("Hello")
    card.get_by_label("Message to the agent").fill("Fine with me")
    card.get_by_role("button", name="Approve").click()

    expect(answers(page).nth(2)).to_have_text(REFUNDED)
    expect(card).to_contain_text("succeeded")
    expect(card).to_contain_text("Fine with me")
    expect(card.get_by_role("button", name="Approve")).to_have_count(0)
    expect(answers(page).nth(3)).to_contain_text("welcome to the shop")
    expect(page.locator("#inbox")).to_be_hidden()
    assert refunds(server) == 1


def test_a_rejected_refund_never_runs(page: Page, server: DevServer) -> None:
    say(page, "Please refund order 7.")

    page.get_by_role("button", name="Reject").click()

    expect(answers(page).nth(2)).to_contain_text("That was declined")
    expect(page.get_by_role("group", name="Tool call refund_order")).to_contain_text("rejected")
    assert refunds(server) == 0


def test_an_approval_that_was_given_elsewhere_is_no_longer_offered(page: Page, server: DevServer) -> None:
    say(page, "Please refund order 7.")
    other = page.context.new_page()
    other.goto(page.url)

    other.get_by_role("button", name="Approve").click()

    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    expect(answers(page).nth(2)).to_have_text(REFUNDED)
    expect(answers(other)).to_have_text(answers(page).all_inner_texts())
    assert refunds(server) == 1


def test_of_a_long_result_the_start_is_shown_and_all_of_it_when_it_is_wanted(page: Page, server: DevServer) -> None:
    say(page, "Export the orders.")
    card = page.get_by_role("group", name="Tool call export_orders")
    card.get_by_text("Result").click()
    expect(card).to_contain_text("Only the start is shown, of 780000 bytes.")
    assert card.locator(".code:visible").text_content() == EXPORTED[: 256 * 1024]

    server.kill()
    card.get_by_role("button", name="Show all").click()
    expect(card).to_contain_text("The rest could not be loaded")
    server.start()
    card.get_by_role("button", name="Show all").click()

    expect(card.get_by_role("button", name="Show all")).to_be_hidden()
    assert card.locator(".code:visible").text_content() == EXPORTED
    say(page, "Hello")
    expect(answers(page).nth(1)).to_contain_text("welcome to the shop")
    assert card.locator(".code:visible").text_content() == EXPORTED


def test_a_conversation_goes_on_after_the_server_was_killed_in_the_middle_of_an_answer(
    page: Page, server: DevServer
) -> None:
    held_in_its_answer(page, server)

    server.kill()
    expect(page.locator("#connection")).to_have_text("Reconnecting…")
    say(page, "Hello")
    expect(waiting(page)).to_contain_text("Trying again")
    server.hold("")
    server.start()

    expect(page.locator("#connection")).to_have_text("Connected")
    expect(answers(page)).to_have_count(3)
    expect(answers(page).nth(2)).to_contain_text("welcome to the shop")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    assert answers(page).all_inner_texts() == stored_answers(server, page)
    assert stored_answers(server, page)[:2] == ["Let me look up order 7 for you.", ABOUT_7]
    assert [m["role"] for m in stored(server, page)].count("user") == 2
    assert shown_twice(page, "Order 7 (walking") == []
    assert shown_twice(page, "Let me look up") == []
    interrupted = page.locator("#turns > .turn").last.locator(".step").last
    expect(interrupted).to_contain_text("attempt 2")
    expect(interrupted).to_contain_text("1 reset")


def test_an_approval_survives_a_kill_and_the_refund_is_paid_once(page: Page, server: DevServer) -> None:
    say(page, "Please refund order 7.")
    expect(page.get_by_role("button", name="Approve")).to_be_visible()

    server.kill()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("group", name="Tool call refund_order")).to_contain_text("Approving…")
    server.start()

    expect(answers(page).nth(2)).to_have_text(REFUNDED)
    expect(page.locator("#error")).to_be_hidden()
    assert answers(page).all_inner_texts() == stored_answers(server, page)
    assert refunds(server) == 1


def test_a_page_that_is_loaded_in_the_middle_of_an_answer_shows_all_of_it(page: Page, server: DevServer) -> None:
    held_in_its_answer(page, server)

    page.reload()

    expect(live(page)).to_contain_text("Order 7 (walking")
    server.hold("")
    expect(answers(page)).to_have_text(["Let me look up order 7 for you.", ABOUT_7])
    expect(page.locator("#transcript .message.user")).to_have_text(["Where is order 7?"])
    assert shown_twice(page, "Order 7 (walking") == []


def test_stop_works_on_a_resumed_stream_and_keeps_what_was_shown(page: Page, server: DevServer) -> None:
    held_in_its_answer(page, server)
    page.reload()
    expect(live(page)).to_contain_text("Order 7 (walking")

    page.get_by_role("button", name="Stop").click()

    expect(page.locator("#transcript")).to_contain_text("This turn was stopped.")
    expect(answers(page).last).to_contain_text("Order 7 (walking")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    assert [m.get("status") for m in stored(server, page)][-1] == "interrupted"
    say(page, "Hello")
    expect(answers(page).last).to_contain_text("welcome to the shop")


def test_a_refused_message_shows_the_reason_and_comes_back_to_the_field(page: Page, server: DevServer) -> None:
    field = page.get_by_label("Message", exact=True)
    field.evaluate("(field) => { field.value = 'half a pair \\ud800'; }")

    field.press("Enter")

    expect(page.get_by_role("alert")).to_contain_text("lone surrogate")
    assert field.evaluate("(field) => field.value.charCodeAt(12)") == 0xD800
    expect(page.locator("#transcript .message")).to_have_count(0)
    page.get_by_role("button", name="Close this message").click()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_text_is_shown_as_text(page: Page, server: DevServer) -> None:
    text = "<img src=x onerror=alert(1)> & <b>bold</b>"

    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("second line 🚀")
    page.keyboard.press("Enter")

    expect(said(page)).to_have_text(f"{text}\nsecond line 🚀")
    expect(page.locator("#transcript img, #transcript b")).to_have_count(0)
    expect(answers(page)).to_have_count(1)
    assert stored(server, page)[0]["parts"] == [{"type": "text", "text": f"{text}\nsecond line 🚀"}]


def test_the_page_fits_a_phone(page: Page, server: DevServer) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    say(page, "Please refund order 7. " + "verylongword" * 20)
    expect(page.get_by_role("button", name="Approve")).to_be_in_viewport()

    shows = page.get_by_role("group", name="Show")
    for panel, heading in (("Inspect", "turn 1"), ("Sessions", "Sessions"), ("Chat", "test-")):
        shows.get_by_role("button", name=panel).click()
        expect(page.get_by_role("heading", name=heading)).to_be_visible()
        assert page.evaluate(TOO_WIDE) == []


def test_several_sessions_are_kept_apart(page: Page, server: DevServer) -> None:
    first = page.url.partition("#")[2]
    say(page, "Hello")
    expect(answers(page)).to_have_count(1)

    for _ in range(8):  # more than a browser opens connections to one server
        page.get_by_role("button", name="New session").click()
        expect(page.locator("#connection")).to_have_text("Connected")
    expect(answers(page)).to_have_count(0)
    say(page, "Where is order 3?")
    expect(answers(page)).to_have_count(2)
    page.get_by_role("navigation", name="Sessions").get_by_role("link").filter(has_text=first).click()

    expect(page).to_have_url(re.compile(f"#{first}$"))
    expect(answers(page)).to_have_count(1)
    expect(page.locator("#transcript .message.user")).to_have_text(["Hello"])
