"""The console as static files at an origin of its own, before an API that wants a token."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from perdure.embedded.hosted_console import Addresses, write_console
from tests.browser.conftest import DESKTOP, RECORDER, complaints_to
from tests.browser.dev_server import DevServer
from tests.browser.helpers import (
    ABOUT_7,
    answers,
    growth,
    held_in_its_answer,
    is_growing,
    say,
    send,
    shown_twice,
    timeline,
)
from tests.browser.hosted import Gate, gate, static_files

pytestmark = [pytest.mark.browser, pytest.mark.processes]

# {"sub": "ada", "exp": 4102444800}, as tokens have it; nobody checks its signature here.
TOKEN = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEiLCJleHAiOjQxMDI0NDQ4MDB9.x"


# Configures the page of the development server as `perdure console --socket` does.
WITH_SOCKET = """
new MutationObserver(() => {
  const told = document.querySelector('meta[name="perdure:socket"]');
  if (told && !told.content) told.content = `${location.origin.replace("http", "ws")}/v1/socket`;
}).observe(document, { subtree: true, childList: true });
"""


@pytest.fixture
def hosted(browser: Browser, server: DevServer, tmp_path: Path) -> Iterator[tuple[Page, type[Gate]]]:
    """The page, opened before anybody has signed in, and what its API accepts."""
    with gate(server.url) as (api, accepts), static_files(tmp_path) as origin:
        write_console(tmp_path, Addresses(api=api))
        accepts.origin = origin
        context = browser.new_context(viewport=DESKTOP)
        page = context.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", complaints_to(problems))
        page.add_init_script(RECORDER)
        page.goto(f"{origin}/#test-{uuid.uuid4().hex[:8]}")
        yield page, accepts
        context.close()
        assert problems == []


def sign_in(page: Page, token: str) -> None:
    """Give the page a token."""
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Go on").click()


def test_the_page_asks_for_a_token_and_sends_it_with_each_request(hosted: tuple[Page, type[Gate]]) -> None:
    page, accepts = hosted
    dialog = page.get_by_role("dialog", name="Sign in")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_visible()
    sign_in(page, "wrong")
    expect(dialog.get_by_role("alert")).to_contain_text("refused this token")

    accepts.tokens.add(TOKEN)
    sign_in(page, f"Bearer {TOKEN}")
    expect(dialog).to_be_hidden()
    expect(page.locator("#connection")).to_have_text("Connected")
    expect(page.locator("#who")).to_contain_text("ada, until")
    expect(page.locator("#development")).to_have_count(0)
    say(page, "Where is order 7?")

    expect(answers(page)).to_have_text(["Let me look up order 7 for you.", ABOUT_7])
    assert is_growing(growth(page, "Order 7"))
    assert shown_twice(page, "Order 7 (walking") == []
    assert page.evaluate("Object.keys(localStorage).length") == 0
    assert page.evaluate("Object.values(sessionStorage)") == [TOKEN]
    assert [asked for asked in accepts.asked if TOKEN in asked] == []
    assert TOKEN not in page.url

    page.reload()
    expect(answers(page)).to_have_count(2)
    page.get_by_role("button", name="Sign out").click()
    expect(dialog).to_be_visible()
    assert page.evaluate("Object.keys(sessionStorage).length") == 0


def test_a_token_that_ran_out_is_asked_for_again_and_nothing_is_lost(
    hosted: tuple[Page, type[Gate]], server: DevServer
) -> None:
    page, accepts = hosted
    accepts.tokens.add(TOKEN)
    sign_in(page, TOKEN)
    expect(page.locator("#connection")).to_have_text("Connected")
    server.hold("Order 7 (walking")
    say(page, "Where is order 7?")
    expect(answers(page)).to_have_count(2)

    accepts.tokens.clear()
    server.hold("")
    expect(page.get_by_role("dialog", name="Sign in")).to_contain_text("no longer accepted")
    accepts.tokens.add("next")
    sign_in(page, "next")

    expect(answers(page)).to_have_text(["Let me look up order 7 for you.", ABOUT_7])
    assert shown_twice(page, "Order 7 (walking") == []


@pytest.fixture
def on_socket(browser: Browser, server: DevServer) -> Iterator[tuple[Page, list[str]]]:
    """A page with a new session that was given a socket, and the sockets that it has opened."""
    context = browser.new_context(viewport=DESKTOP)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", complaints_to(problems))
    page.add_init_script(RECORDER)
    page.add_init_script(WITH_SOCKET)
    sockets: list[str] = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    page.goto(f"{server.url}/#test-{uuid.uuid4().hex[:8]}")
    yield page, sockets
    context.close()
    assert [problem for problem in problems if "WebSocket connection" not in problem] == []


def test_a_page_that_was_given_a_socket_follows_over_it_through_a_kill(
    on_socket: tuple[Page, list[str]], server: DevServer
) -> None:
    page, sockets = on_socket
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.headers.get("accept", "")))
    expect(page.locator("#connection")).to_have_text("Connected")
    held_in_its_answer(page, server)

    server.kill()
    expect(page.locator("#connection")).to_have_text("Reconnecting…")
    server.hold("")
    server.start()

    expect(answers(page)).to_have_text(["Let me look up order 7 for you.", ABOUT_7])
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    assert shown_twice(page, "Order 7 (walking") == []
    assert is_growing(growth(page, "Let me look"))
    assert [url.partition("?")[0] for url in sockets][:1] == [f"{server.url.replace('http', 'ws')}/v1/socket"]
    assert "text/event-stream" not in asked
    expect(timeline(page)).to_contain_text(["model", "lookup_order", "model"])
    page.get_by_role("tab", name="Events").click()
    expect(page.locator("#events .event-sequence").last).to_have_text("#1")


def test_a_session_that_begins_elsewhere_shows_on_the_socket_with_all_that_happened(
    on_socket: tuple[Page, list[str]], server: DevServer
) -> None:
    page, sockets = on_socket
    expect(page.locator("#connection")).to_have_text("Connected")
    expect(page.locator("#empty")).to_be_visible()
    send(server, page, {"text": "Where is order 7?"})

    expect(answers(page)).to_have_text(["Let me look up order 7 for you.", ABOUT_7])
    expect(timeline(page)).to_contain_text(["model", "lookup_order", "model"])
    page.get_by_role("tab", name="Events").click()
    expect(page.locator("#events .event-sequence").last).to_have_text("#1")
    assert len(sockets) == 1
