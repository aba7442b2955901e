"""Questions, waits, remote work and changed arguments on the console page, in a real browser on a real server."""

import json
import re
from typing import Literal

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.dev_server import DevServer
from tests.browser.helpers import ABOUT_7, TOO_WIDE, answers, ask, field, refunds, said, say, send, stored, timeline
from tests.browser.test_access import NAMELESS, TOO_FAINT, tab_to

pytestmark = [pytest.mark.browser, pytest.mark.processes]


def card(page: Page, tool: str) -> Locator:
    """The card of a tool's call."""
    return page.get_by_role("group", name=f"Tool call {tool}")


def question(page: Page) -> Locator:
    """The form of the question that is open."""
    return page.get_by_role("group", name=re.compile("^Question: "))


def wait(page: Page) -> Locator:
    """The box of what a call waits for."""
    return page.locator(".wait")


def output(server: DevServer, page: Page) -> str:
    """The result of the only call, as the server has it."""
    parts = [part for message in stored(server, page) for part in message["parts"] if part["type"] == "tool_result"]
    told: str = parts[0]["output"]
    return told


def waiting_until(server: DevServer, page: Page) -> str:
    """The time that the session waits for, as the server has it."""
    until: str = ask(server, page)["state"]["waiting_for"][0]["until"]
    return until


# --- questions ----------------------------------------------------------------------------------


def test_a_question_is_answered_with_one_of_its_choices_and_a_word(page: Page, server: DevServer) -> None:
    say(page, "Where is my order?")
    expect(question(page)).to_contain_text("Which order is it?")
    expect(page.locator("#waiting-for")).to_have_text("waits for an answer")
    expect(page.locator("#session-list a[aria-current]")).to_contain_text("waits for an answer")

    question(page).get_by_label("Or answer in your own words").fill("the left one leaks")
    question(page).get_by_role("button", name="Order 7, the walking boots").click()

    expect(answers(page).last).to_have_text(ABOUT_7)
    expect(card(page, "ask_user").get_by_role("list", name="Questions")).to_contain_text(
        re.compile(
            r"Which order is it\?.*Order 7, the walking boots.*answered by local: “the left one leaks”", re.DOTALL
        )
    )
    expect(page.locator("#waiting-for")).to_be_hidden()
    told = {"status": "answered", "answer": "Order 7, the walking boots", "message": "the left one leaks"}
    assert json.loads(output(server, page)) == told


def test_a_question_is_answered_in_own_words_by_keyboard_alone(page: Page, server: DevServer) -> None:
    page.keyboard.type("Where is my order?")
    page.keyboard.press("Enter")
    expect(question(page)).to_be_visible()

    tab_to(page, page.locator("#waiting-for"), "Shift+Tab")
    page.keyboard.press("Enter")  # goes to what it waits for
    expect(question(page).get_by_role("button", name="Order 3")).to_be_focused()
    tab_to(page, question(page).get_by_label("Or answer in your own words"))
    page.keyboard.type("Number 7")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("please")
    page.keyboard.press("Enter")

    expect(answers(page).last).to_have_text(ABOUT_7)
    expect(card(page, "ask_user")).to_be_focused()
    assert json.loads(output(server, page)) == {"status": "answered", "answer": "Number 7\nplease"}


def test_a_question_is_declined_with_a_reason(page: Page, server: DevServer) -> None:
    say(page, "Ask me in words")
    expect(question(page)).to_contain_text("What is it about?\nA few words will do.")
    expect(question(page).get_by_role("group", name="Answers to choose from")).to_be_hidden()

    question(page).get_by_role("button", name="Answer").click()  # nothing is written: the field is where to go on
    expect(question(page).get_by_label("Your answer")).to_be_focused()
    page.keyboard.type("I would rather not say")
    question(page).get_by_role("button", name="Decline").click()

    expect(card(page, "ask_user")).to_contain_text("declined by local: “I would rather not say”")
    expect(answers(page).last).to_have_text("It says: I would rather not say")


def test_a_tool_asks_twice_before_it_acts_and_a_deadline_is_moved_and_taken_away(page: Page, server: DevServer) -> None:
    say(page, "Ship order 7")
    expect(question(page)).to_contain_text(re.compile(r"Time to answer ends in (2 h|1 h 59)"))
    expect(question(page).get_by_role("button", name="Answer", exact=True)).to_be_hidden()
    before = waiting_until(server, page)

    question(page).get_by_role("button", name="One day later").click()
    expect(question(page)).to_contain_text(re.compile(r"ends in 1 d [12] h"))
    assert (waiting_until(server, page)[10:], waiting_until(server, page) > before) == (before[10:], True)
    question(page).get_by_role("button", name="No deadline").click()
    expect(question(page)).not_to_contain_text("ends in")
    question(page).get_by_role("button", name="Tuesday").click()
    expect(question(page)).to_contain_text("What shall the card say?")
    question(page).get_by_label("Your answer").fill("For you")
    question(page).get_by_role("button", name="Answer").click()

    expect(answers(page).last).to_have_text("It says: Order 7 is sent on Tuesday. The card says: For you")
    expect(card(page, "ship_order").get_by_role("list", name="Questions").get_by_role("listitem")).to_have_count(2)


def test_the_message_field_answers_the_open_question_unless_told_otherwise(page: Page, server: DevServer) -> None:
    say(page, "Ask me in words")
    expect(page.get_by_role("radio", name="Answer")).to_be_checked()
    expect(page.locator("#composer-hint")).to_contain_text("Answers the question that is open.")
    page.get_by_role("radio", name="Queue").check()
    say(page, "Hello")
    expect(page.locator("#inbox-list")).to_contain_text("Hello")

    expect(page.get_by_role("radio", name="Answer")).to_be_checked()
    say(page, "Boots")

    expect(card(page, "ask_user").get_by_role("list", name="Questions")).to_contain_text("Boots")
    expect(said(page)).to_have_text(["Ask me in words", "Hello"])
    expect(page.get_by_role("radio", name="Answer")).to_be_hidden()


def test_what_is_being_written_does_not_turn_into_an_answer(page: Page, server: DevServer) -> None:
    server.hold("I will see")
    say(page, "Ask me in words")
    expect(answers(page)).to_have_text(re.compile("I will see"))
    field(page).fill("And where is order 3?")

    server.hold("")

    expect(question(page)).to_be_visible()
    expect(page.get_by_role("radio", name="Queue")).to_be_checked()


def test_a_message_of_another_program_that_answers_a_question_is_no_message(page: Page, server: DevServer) -> None:
    say(page, "Ask me in words")
    expect(question(page)).to_be_visible()

    send(server, page, {"text": "Boots"})

    expect(card(page, "ask_user").get_by_role("list", name="Questions")).to_contain_text("Boots")
    expect(said(page)).to_have_text(["Ask me in words"])


def test_what_was_written_for_a_question_that_somebody_else_answered_is_not_lost(page: Page, server: DevServer) -> None:
    say(page, "Ask me in words")
    question(page).get_by_label("Your answer").fill("half an answ")
    other = page.context.new_page()
    other.goto(page.url)

    question(other).get_by_label("Your answer").fill("Boots")
    question(other).get_by_role("button", name="Answer").click()

    expect(field(page)).to_have_value("half an answ")
    expect(page.locator("#announce")).to_contain_text("no longer open")
    expect(answers(page).last).to_contain_text("Boots")
    expect(field(other)).to_have_value("")


def test_an_answer_that_the_server_refuses_stays_in_its_field(page: Page, server: DevServer) -> None:
    say(page, "Ask me in words")
    refusal = {"error": {"code": "invalid_request", "message": "not today", "retryable": False}}
    page.route("**/interrupts/*", lambda route: route.fulfill(status=400, json=refusal))

    question(page).get_by_label("Your answer").fill("Boots")
    page.keyboard.press("Enter")

    expect(page.get_by_role("alert")).to_contain_text("not today")
    expect(question(page).get_by_label("Your answer")).to_have_value("Boots")
    expect(question(page).get_by_role("button", name="Answer")).to_be_enabled()


def test_what_is_begun_in_one_session_is_not_there_in_another_with_calls_of_the_same_ids(
    page: Page, server: DevServer
) -> None:
    first = page.url.partition("#")[2]
    for _ in range(2):
        say(page, "Please refund order 7.")
        expect(page.get_by_role("button", name="Edit arguments")).to_be_visible()
        if page.url.endswith(first):
            page.get_by_role("button", name="New session").click()
            expect(said(page)).to_have_count(0)
    page.get_by_role("button", name="Edit arguments").click()
    message = page.get_by_label("Message to the agent with your decision")
    message.fill("only for this one")

    page.get_by_role("navigation", name="Sessions").get_by_role("link").filter(has_text=first).click()

    expect(page.locator("#session-title")).to_have_text(first)
    expect(page.get_by_role("button", name="Edit arguments")).to_be_visible()
    expect(message).to_have_value("")


# --- waits --------------------------------------------------------------------------------------


def test_a_wait_is_counted_down_without_touching_what_is_typed_moved_and_skipped(page: Page, server: DevServer) -> None:
    say(page, "Remind me of order 7 in 30 minutes")
    expect(wait(page)).to_contain_text("The agent waits: Remind me of order 7 in 30 minutes")
    expect(page.locator("#session-list a[aria-current]")).to_contain_text(
        re.compile("waits for a timer.*in (30|29) min")
    )
    before = waiting_until(server, page)

    wait(page).get_by_role("button", name="Another time").click()
    time = wait(page).get_by_label("Another time (your local time)")
    time.fill("2026-01-01T10:00")  # is not sent before it is saved
    left = wait(page).locator(".countdown")
    shown = left.inner_text()
    expect(left).not_to_have_text(shown)
    expect(time).to_be_focused()
    expect(time).to_have_value("2026-01-01T10:00")
    page.keyboard.press("Escape")
    expect(wait(page).get_by_role("button", name="Another time")).to_be_focused()
    on_its_way: list[Route] = []
    page.route("**/waits/call-*", lambda route: route.continue_() if on_its_way else on_its_way.append(route))
    wait(page).get_by_role("button", name="One hour later").click()
    wait(page).get_by_role("button", name="One hour later").click()
    on_its_way[0].continue_()
    expect(left).to_have_text(re.compile("in 2 h (30|29) min"))
    assert waiting_until(server, page) > before
    wait(page).get_by_role("button", name="Don't wait").click()

    expect(answers(page).last).to_have_text(ABOUT_7)
    expect(card(page, "durable_wait").get_by_role("list", name="What it did so far")).to_contain_text("wait cut short")
    expect(wait(page)).to_have_count(0)
    assert json.loads(output(server, page))["status"] == "skipped"


def test_a_wait_until_a_time_that_has_passed_is_over(page: Page, server: DevServer) -> None:
    say(page, "Wait 20 minutes")

    wait(page).get_by_role("button", name="Another time").click()
    wait(page).get_by_label("Another time (your local time)").fill("2020-01-01T10:00:00")
    wait(page).get_by_role("button", name="Save").click()

    expect(answers(page).last).to_have_text("The time is over. You wrote: “Wait 20 minutes”.")


def test_a_time_that_is_too_far_away_is_refused_and_the_field_stays(page: Page, server: DevServer) -> None:
    say(page, "Wait 20 minutes")
    expect(wait(page)).to_be_visible()
    before = waiting_until(server, page)

    wait(page).get_by_role("button", name="Another time").click()
    wait(page).get_by_label("Another time (your local time)").fill("2999-01-01T10:00:00")
    wait(page).get_by_role("button", name="Save").click()

    expect(page.get_by_role("alert")).to_contain_text("365 days")
    expect(wait(page).get_by_label("Another time (your local time)")).to_be_visible()
    assert waiting_until(server, page) == before


def test_a_tool_tells_what_it_did_and_shows_what_it_has_while_it_waits(page: Page, server: DevServer) -> None:
    say(page, "Pack order 7")
    expect(wait(page)).to_contain_text("pack_order waits (dry).")
    records = card(page, "pack_order").get_by_role("list", name="What it did so far").get_by_role("listitem")
    expect(records).to_contain_text(["did “weigh”", "waits: dry, until"])
    expect(card(page, "pack_order")).to_contain_text('"label": "not printed yet"')
    expect(timeline(page).last).to_contain_text("did weigh")

    server.kill()
    server.start()
    expect(page.locator("#connection")).to_have_text("Connected")
    wait(page).get_by_role("button", name="Don't wait").click()
    expect(wait(page)).to_contain_text("pack_order waits for “courier”.")
    expect(page.locator("#waiting-for")).to_contain_text("waits for an event")
    wait(page).get_by_role("button", name="Cancel it").click()

    expect(card(page, "pack_order")).to_contain_text("cancelled by local")
    expect(card(page, "pack_order")).to_contain_text("outcome unknown")
    expect(card(page, "pack_order")).not_to_contain_text("not printed yet")


def test_remote_work_is_looked_at_asks_and_is_done(page: Page, server: DevServer) -> None:
    say(page, "Report every 1 second")
    expect(wait(page)).to_contain_text("make_report has started work elsewhere")
    expect(wait(page)).to_contain_text("next look in")
    expect(wait(page)).to_contain_text(re.compile(r"looked (once|\d+ times)"))

    server.task("asks")
    expect(question(page)).to_contain_text("May the report hold names?")
    question(page).get_by_role("button", name="Yes").click()

    server.task("done")
    expect(answers(page).last).to_have_text("It says: The report is at report-1.")
    expect(card(page, "make_report").locator(".note").last).to_contain_text(re.compile("looked"))
    expect(timeline(page).nth(1)).to_contain_text("looked")


def test_remote_work_that_is_cancelled_is_asked_to_stop(page: Page, server: DevServer) -> None:
    say(page, "Report every 60 seconds")
    expect(wait(page).locator(".countdown")).to_have_text(re.compile(r"in (1 min|\d+ s)"))

    wait(page).get_by_role("button", name="Cancel it").click()

    expect(card(page, "make_report")).to_contain_text("outcome unknown")
    expect(card(page, "make_report")).to_contain_text("the work elsewhere was asked to stop")
    assert server.told("task") == "stopped"


# --- changed arguments --------------------------------------------------------------------------


def test_a_refund_is_approved_with_another_amount_and_both_are_on_record(page: Page, server: DevServer) -> None:
    say(page, "Please refund order 7.")
    form = page.get_by_role("group", name="Approval of refund_order")
    form.get_by_role("button", name="Edit arguments").click()
    text = form.get_by_label("Arguments of refund_order, as JSON")
    expect(text).to_be_focused()
    changes = page.get_by_role("list", name="What you changed")

    text.fill('{"order_id": "7", ')
    expect(form.get_by_role("alert")).to_contain_text("This is no JSON")
    expect(form.get_by_role("button", name="Approve")).to_be_disabled()
    text.fill('{"order_id": "7", "amount": -100}')
    expect(changes).to_have_text("amount 129.9 becomes -100")
    form.get_by_role("button", name="Approve with changes").click()
    expect(form.get_by_role("alert")).to_contain_text("greater than 0")  # the server's word
    expect(text).to_have_value('{"order_id": "7", "amount": -100}')
    expect(page.locator("#error")).to_be_hidden()
    text.fill('{"order_id": "7", "amount": 100}')
    form.get_by_role("button", name="Approve with changes").click()

    expect(answers(page).last).to_contain_text("Refunded 100.00 euros for order 7")
    refund = card(page, "refund_order")
    expect(refund.get_by_role("list", name="What was changed")).to_have_text("amount 129.9 becomes 100")
    expect(refund).to_contain_text("approved with other arguments by local")
    refund.get_by_text("Requested arguments").click()
    expect(refund).to_contain_text('"amount": 129.9')
    page.reload()
    expect(card(page, "refund_order").get_by_role("list", name="What was changed")).to_contain_text("100")
    assert refunds(server) == 1


def test_edits_that_are_discarded_change_nothing(page: Page, server: DevServer) -> None:
    say(page, "Please refund order 7.")
    form = page.get_by_role("group", name="Approval of refund_order")
    form.get_by_role("button", name="Edit arguments").click()
    form.get_by_label("Arguments of refund_order, as JSON").fill('{"order_id": "7", "amount": 100}')
    page.keyboard.press("Escape")
    expect(form.get_by_role("button", name="Edit arguments")).to_be_focused()

    form.get_by_role("button", name="Approve", exact=True).click()

    expect(answers(page).last).to_contain_text("Refunded 129.90 euros")
    expect(card(page, "refund_order")).not_to_contain_text("other arguments")


# --- everywhere ---------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_cards_of_questions_and_waits_fit_a_phone_have_names_and_contrast(
    page: Page, server: DevServer, scheme: Literal["light", "dark"]
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")

    def check() -> None:
        assert page.evaluate(TOO_WIDE) == []
        assert page.evaluate(NAMELESS) == []
        assert page.evaluate(TOO_FAINT) == []

    say(page, "Ship order 7")
    question(page).get_by_role("button", name="Another deadline").click()
    expect(question(page).get_by_label("Another deadline (your local time)")).to_be_focused()
    expect(page.locator("#waiting-for")).to_be_in_viewport(ratio=1)
    check()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".notice")).to_be_visible()
    say(page, "Pack order 7")
    expect(wait(page).get_by_role("button", name="Cancel it")).to_be_in_viewport(ratio=1)
    check()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".notice")).to_have_count(2)
    say(page, "Please refund order 7.")
    page.get_by_role("button", name="Edit arguments").click()
    page.get_by_label("Arguments of refund_order, as JSON").fill('{"order_id": "' + "7" * 90 + '", "amount": 100}')
    page.get_by_role("button", name="Approve with changes").scroll_into_view_if_needed()
    check()
    page.get_by_role("button", name="Sessions").click()
    expect(page.locator("#session-list a[aria-current]")).to_contain_text("waits for an approval")
    check()
