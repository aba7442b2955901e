"""Makes the picture of the README: `python -m tests.browser.picture` starts a server, talks to it, and looks at it.

With a folder as argument it makes pictures of more of the console, in both themes and on a phone, to be looked at.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

from tests.browser.conftest import ARGUMENTS
from tests.browser.dev_server import DevServer
from tests.browser.helpers import answers, say

README = Path(__file__).parents[2] / "docs" / "images" / "console.png"

DESK: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}


def main(folder: Path | None) -> None:
    """Make one picture, or all of them."""
    with opened() as page:
        converse(page)
        if folder is None:
            README.parent.mkdir(exist_ok=True)
            page.screenshot(path=README)
            return
        folder.mkdir(parents=True, exist_ok=True)
        for scheme in ("light", "dark"):
            look_around(page, folder, scheme)


@contextmanager
def opened() -> Iterator[Page]:
    """Start a server and a browser. Yields the page."""
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        server = DevServer(Path(place))
        server.start()
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=ARGUMENTS)
        try:
            page = browser.new_page(viewport=DESK, color_scheme="light", reduced_motion="reduce")
            page.goto(server.url)
            yield page
        finally:
            browser.close()
            server.kill()


def converse(page: Page) -> None:
    """Have something to look at: several sessions, the last of which waits for an approval."""
    go_to(page, "case-40")
    say(page, "Where is my order?")
    expect(page.locator("#waiting-for")).to_contain_text("an answer")
    go_to(page, "case-41")
    say(page, "Remind me of order 9 in 3 hours")
    expect(page.locator("#waiting-for")).to_contain_text("a timer")
    go_to(page, "case-42")
    say(page, "Write everything.")
    expect(answers(page).locator("tbody tr")).to_have_count(1)
    go_to(page, "case-43")
    say(page, "Where is order 7?")
    expect(answers(page)).to_have_count(2)
    expect(page.locator("#stop")).to_be_hidden()
    say(page, "Please refund order 7.")
    expect(page.locator("#waiting-for")).to_contain_text("an approval")
    expect(page.locator("#session-list .badge").first).to_have_text("waits for an approval")


def go_to(page: Page, session_id: str) -> None:
    """Open a session."""
    page.goto(f"{page.url.partition('#')[0]}#{session_id}")
    expect(page.locator("#session-title")).to_have_text(session_id)
    expect(page.locator("#connection")).to_have_text("Connected")


def look_around(page: Page, folder: Path, scheme: Literal["light", "dark"]) -> None:
    """Make the pictures of one theme."""

    def shoot(name: str) -> None:
        page.screenshot(path=folder / f"{scheme}-{name}.png")

    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size(DESK)
    shoot("approval")
    page.get_by_role("tab", name="Events").click()
    page.locator(".event summary").nth(2).click()
    shoot("events")
    page.locator(".event summary").nth(2).click()
    page.get_by_role("tab", name="Timeline").click()
    page.locator(".step summary").nth(3).click()
    page.get_by_role("button", name="Wide").click()
    shoot("wide")
    page.get_by_role("button", name="Wide").click()
    page.locator(".step summary").nth(3).click()
    page.get_by_role("button", name="Keyboard shortcuts").click()
    shoot("keys")
    page.keyboard.press("Escape")
    page.set_viewport_size(PHONE)
    for name in ("Sessions", "Inspect", "Chat"):
        page.get_by_role("group", name="Show").get_by_role("button", name=name).click()
        shoot(f"phone-{name.lower()}")
    page.set_viewport_size(DESK)
    go_to(page, "case-42")
    expect(answers(page).locator("tbody tr")).to_have_count(1)
    shoot("answer")
    go_to(page, "case-44")
    shoot("empty")
    go_to(page, "case-43")
    expect(page.get_by_role("button", name="Approve", exact=True)).to_be_visible()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
