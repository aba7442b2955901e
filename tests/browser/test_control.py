"""What a person does to a session that runs, on the console page, in a real browser on a real server."""

import json
import re

import pytest
from playwright.sync_api import Page, Request, Route, expect

from tests.browser.dev_server import DevServer
from tests.browser.helpers import (
    ABOUT_7,
    answers,
    ask,
    field,
    held_in_its_answer,
    live,
    refunds,
    row,
    said,
    say,
    send,
    stored,
    text_of,
    waiting,
    waiting_texts,
)

pytestmark = [pytest.mark.browser, pytest.mark.processes]

HELLO = re.compile("welcome to the shop")


def test_what_waits_is_edited_put_in_another_order_and_taken_back(page: Page, server: DevServer) -> None:
    held_in_its_answer(page, server)
    for text in ("Where is order 3?", "Where is order 4?", "Where is order 5?"):
        say(page, text)
    expect(waiting_texts(page)).to_have_text(["Where is order 3?", "Where is order 4?", "Where is order 5?"])

    row(page, "order 3").get_by_role("button", name="Edit").click()
    page.get_by_label("Change the message").fill("Where is order 2?")
    page.keyboard.press("Enter")
    row(page, "order 5").locator(".grip").drag_to(row(page, "order 2"), target_position={"x": 20, "y": 2})
    expect(waiting_texts(page)).to_have_text(["Where is order 5?", "Where is order 2?", "Where is order 4?"])
    row(page, "order 4").get_by_role("button", name="Move up").click()
    expect(waiting_texts(page)).to_have_text(["Where is order 5?", "Where is order 4?", "Where is order 2?"])
    field(page).fill("half a thought")
    row(page, "order 5").get_by_role("button", name="Take back").click()
    expect(field(page)).to_have_value("Where is order 5?\n\nhalf a thought")
    expect(field(page)).to_be_focused()
    field(page).fill("")
    server.hold("")

    expect(said(page)).to_have_text(["Where is order 7?", "Where is order 4?", "Where is order 2?"])
    expect(answers(page)).to_have_count(6)
    expect(page.locator("#inbox")).to_be_hidden()
    assert [text_of(m) for m in stored(server, page) if m["role"] == "user"] == said(page).all_inner_texts()


def test_the_files_of_a_message_that_is_taken_back_go_with_what_is_sent_next(page: Page, server: DevServer) -> None:
    held_in_its_answer(page, server)
    files = [{"reference": "r-1", "name": "boots.png"}, {"reference": "r-2", "media_type": "text/plain"}]
    send(server, page, {"text": "See these", "files": files})
    expect(row(page, "See these").locator(".note")).to_have_text("Files: boots.png, r-2")

    row(page, "See these").get_by_role("button", name="Take back").click()
    attached = page.get_by_role("list", name="Files of the message").get_by_role("listitem")
    expect(attached).to_contain_text(["boots.png", "r-2"])
    page.get_by_role("button", name="Leave out r-2").click()
    say(page, "See this")

    expect(row(page, "See this").locator(".note")).to_have_text("File: boots.png")
    expect(attached).to_have_count(0)
    (entry,) = ask(server, page, "inbox")["entries"]
    assert entry["files"] == [{"type": "file", "reference": "r-1", "name": "boots.png"}]


def test_a_change_of_a_message_that_is_delivered_meanwhile_is_not_lost(page: Page, server: DevServer) -> None:
    held_in_its_answer(page, server)
    say(page, "Hello")
    row(page, "Hello").get_by_role("button", name="Edit").click()
    page.get_by_label("Change the message").fill("Hello, and where is order 3?")

    server.hold("")

    expect(field(page)).to_have_value("Hello, and where is order 3?")
    expect(said(page).last).to_have_text("Hello")
    expect(page.locator("#announce")).to_contain_text("no longer waiting")


def test_a_steer_lets_no_write_begin_and_is_next(page: Page, server: DevServer) -> None:
    say(page, "Please refund order 7.")
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    say(page, "Where is order 3?")
    say(page, "Hello")

    row(page, "Hello").get_by_role("button", name="Redirect").click()

    expect(page.locator(".notice")).to_have_text("This turn was redirected by the next message.")
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    expect(said(page)).to_have_text(["Please refund order 7.", "Hello", "Where is order 3?"])
    expect(answers(page).nth(2)).to_have_text(HELLO)
    assert refunds(server) == 0


def test_an_injected_message_joins_the_turn_that_runs(page: Page, server: DevServer) -> None:
    server.hold("Let me look")
    say(page, "Where is order 7?")
    expect(live(page)).to_contain_text("Let me look")

    say(page, "And where is order 3?", "Alt+Enter")
    expect(row(page, "order 3")).to_contain_text("joins this turn at its next model call")
    server.hold("")

    expect(page.locator("#transcript .message.user").last).to_contain_text("Added while the agent worked")
    expect(answers(page).last).to_contain_text("Order 3")
    assert {message["turn_id"] for message in stored(server, page)} == {"turn-1"}


def test_interrupt_and_send_stops_what_runs_and_goes_before_all_that_waits(page: Page, server: DevServer) -> None:
    held_in_its_answer(page, server)
    say(page, "Where is order 3?")
    expect(waiting(page)).to_have_count(1)

    say(page, "Hello", "Control+Shift+Enter")
    server.hold("")

    expect(said(page)).to_have_text(["Where is order 7?", "Hello", "Where is order 3?"])
    expect(page.locator(".notice")).to_have_text("This turn was stopped for the next message.")
    expect(page.locator(".message[data-status=interrupted]")).to_contain_text("stopped here")
    expect(answers(page).nth(2)).to_have_text(HELLO)


def test_stop_cuts_the_answer_where_the_screen_stood_and_shows_at_once(page: Page, server: DevServer) -> None:
    held_in_its_answer(page, server)
    other = page.context.new_page()
    other.goto(page.url)
    expect(live(other)).to_contain_text("Order 7 (walking")
    shown = live(page).inner_text()
    on_its_way: list[Route] = []
    page.route("**/stop", lambda route: on_its_way.append(route))

    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Stopping…")).to_be_visible()
    server.hold("delivered")
    expect(live(other)).to_contain_text("delivered")
    assert answers(page).last.inner_text() == shown
    expect(page.locator(".message[data-status=interrupted]")).to_contain_text("stopped here")
    on_its_way[0].continue_()

    expect(page.locator(".notice")).to_have_text("This turn was stopped.")
    expect(answers(other).last).to_have_text(shown)
    assert answers(page).last.inner_text() == shown
    last = stored(server, page)[-1]
    assert (text_of(last), last["status"]) == (shown, "interrupted")


def test_a_stop_that_comes_too_late_gives_the_whole_answer_back(page: Page, server: DevServer) -> None:
    held_in_its_answer(page, server)
    on_its_way: list[Route] = []
    page.route("**/stop", lambda route: on_its_way.append(route))

    field(page).press("Escape")
    expect(page.get_by_role("button", name="Stopping…")).to_be_visible()
    server.hold("")
    expect(page.locator("#stop")).to_be_hidden()  # the turn is over
    on_its_way[0].continue_()

    expect(answers(page).last).to_have_text(ABOUT_7)
    expect(page.locator(".message[data-status], .notice")).to_have_count(0)
    expect(page.locator("#error")).to_be_hidden()


def test_a_refused_stop_restores_the_turn(page: Page, server: DevServer) -> None:
    held_in_its_answer(page, server)
    page.route("**/stop", lambda route: route.fulfill(json={"result": "not_controllable"}))

    page.get_by_role("button", name="Stop").click()

    expect(page.get_by_role("alert")).to_contain_text("not controllable")
    expect(page.get_by_role("button", name="Stop")).to_be_enabled()
    expect(live(page)).to_contain_text("Order 7 (walking")
    server.hold("")
    expect(answers(page).last).to_have_text(ABOUT_7)


def test_a_failed_turn_is_retried_with_a_fresh_id_per_click_and_what_waits_follows(
    page: Page, server: DevServer
) -> None:
    retries: list[str] = []

    def note(request: Request) -> None:
        if request.url.endswith("/retry"):
            retries.append(json.loads(request.post_data or "")["retry_id"])

    page.on("request", note)
    server.fail("unavailable", message="404: no such model")
    say(page, "Where is order 7?")
    card = page.get_by_role("group", name="Failed turn")
    expect(card).to_contain_text("404: no such model")
    say(page, "Hello")
    expect(page.locator("#gate")).to_contain_text("wait until you retry or dismiss")

    card.get_by_role("button", name="Retry").click()
    expect(page.locator(".notice")).to_contain_text("and was tried again")
    expect(card).to_have_count(1)
    server.fail(None)
    card.get_by_role("button", name="Retry").click()

    expect(answers(page)).to_have_text(["Let me look up order 7 for you.", ABOUT_7, HELLO])
    expect(said(page)).to_have_text(["Where is order 7?", "Hello"])
    expect(card).to_have_count(0)
    assert len(set(retries)) == len(retries) == 2


def test_a_failed_turn_that_is_dismissed_lets_the_inbox_go_on(page: Page, server: DevServer) -> None:
    server.fail("unavailable")
    say(page, "Where is order 7?")
    expect(page.get_by_role("group", name="Failed turn")).to_be_visible()
    say(page, "Hello")
    expect(waiting(page)).to_have_count(1)
    server.fail(None)

    page.get_by_role("button", name="Dismiss").click()

    expect(answers(page)).to_have_text([HELLO])
    expect(page.locator(".notice")).to_contain_text("This turn failed (provider)")
    expect(page.locator("#inbox, #gate, .failure").locator("visible=true")).to_have_count(0)


def test_a_wait_for_the_provider_is_counted_down_cut_short_and_given_up(page: Page, server: DevServer) -> None:
    server.fail("rate_limited", retryable=True, retry_after_seconds=60)
    say(page, "Where is order 7?")
    expect(page.locator("#activity")).to_have_text("The model's provider failed (rate limited).")
    first = re.search(r"Next attempt in (\d+) s", page.get_by_role("timer").inner_text())
    assert first
    assert 40 < int(first[1]) <= 60
    expect(page.get_by_role("timer")).not_to_have_text(first[0])  # it counts

    server.fail(None)
    page.get_by_role("button", name="Retry now").click()
    expect(answers(page).last).to_have_text(ABOUT_7)
    expect(page.get_by_role("timer")).to_have_count(0)

    server.fail("rate_limited", retryable=True, retry_after_seconds=60)
    say(page, "Where is order 3?")
    page.get_by_role("button", name="Give up").click()
    expect(page.locator(".notice")).to_have_text("This turn was stopped.")
    expect(page.locator("#stop")).to_be_hidden()


def test_a_refused_credential_blocks_until_there_is_another_one(page: Page, server: DevServer) -> None:
    server.fail("auth", message="401: wrong key")
    say(page, "Where is order 7?")
    expect(page.locator("#gate")).to_contain_text("refused the credential")
    expect(page.get_by_role("group", name="Failed turn")).to_contain_text("401: wrong key")
    say(page, "Where is order 3?")
    expect(waiting(page)).to_have_count(1)

    server.credential("second")
    server.fail(None)
    say(page, "Hello")

    expect(page.locator("#gate")).to_be_hidden()
    expect(said(page)).to_have_text(["Where is order 7?", "Where is order 3?", "Hello"])
    expect(answers(page).last).to_have_text(HELLO)


def test_a_pause_survives_a_kill_and_ends_with_a_resume(page: Page, server: DevServer) -> None:
    say(page, "Please refund order 7.")
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#gate")).to_contain_text("Paused")
    say(page, "Hello")
    expect(waiting(page)).to_have_count(1)

    server.kill()
    server.start()
    expect(page.locator("#connection")).to_have_text("Connected")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("group", name="Tool call refund_order")).to_contain_text("ready to run")
    expect(page.locator("#activity")).to_have_text("Paused in the middle of a turn.")
    assert refunds(server) == 0
    page.get_by_role("button", name="Resume").click()

    expect(answers(page).last).to_have_text(HELLO)
    expect(page.locator("#gate")).to_be_hidden()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    assert refunds(server) == 1


def test_settings_are_checked_saved_and_hold(page: Page, server: DevServer) -> None:
    say(page, "Hello")
    expect(answers(page)).to_have_count(1)
    page.get_by_role("button", name="Settings").click()
    dialog = page.get_by_role("dialog", name="Settings of this session")
    text = dialog.get_by_label("All settings, as JSON")

    text.fill('{"tone": ')
    expect(dialog.get_by_role("alert")).to_contain_text("This is no JSON")
    expect(dialog.get_by_role("button", name="Save")).to_be_disabled()
    text.fill('{"tone": "kind"}')
    dialog.get_by_label("Approvals").select_option("always_ask")
    dialog.get_by_label("Model").select_option("small (s-1)")
    dialog.get_by_role("button", name="Save").click()

    expect(dialog).to_have_count(0)
    assert ask(server, page)["settings"] == {"approval_mode": "always_ask", "model": "small", "tone": "kind"}
    say(page, "Where is order 3?")
    expect(page.get_by_role("group", name="Tool call lookup_order")).to_contain_text("needs approval")
    page.get_by_role("button", name="Settings").click()
    expect(dialog.get_by_label("Approvals")).to_have_value("always_ask")
    expect(dialog.get_by_label("Model")).to_have_value("small")
