"""A Chromium, a server, and a page that must not report an error of its own."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, ViewportSize, expect, sync_playwright

from tests.browser.dev_server import DevServer

ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

DESKTOP: ViewportSize = {"width": 1360, "height": 860}

# Keeps what the conversation showed after each change: one list of texts a moment.
RECORDER = """
window.moments = [];
new MutationObserver(() => {
  const shown = [...document.querySelectorAll("#transcript .message > .text")].map((text) => text.textContent);
  if (JSON.stringify(shown) !== JSON.stringify(window.moments.at(-1))) window.moments.push(shown);
}).observe(document, { subtree: true, childList: true, characterData: true });
"""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests, with a profile of its own that is thrown away."""
    chromium = shutil.which("chromium")
    assert chromium, "the browser tests need Debian's `chromium` on PATH"
    expect.set_options(timeout=30_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[DevServer]:
    """A running `perdure dev`; its parameter is how slowly the agent writes (`pace_ms`)."""
    server = DevServer(tmp_path, pace_ms=getattr(request, "param", 50))
    server.start()
    yield server
    server.kill()


def breaches_to(problems: list[str]) -> Callable[[ConsoleMessage], None]:
    """Collect what the browser says about breaches of the content policy; lost connections are part of the tests."""

    def take(message: ConsoleMessage) -> None:
        if "Security Policy" in message.text:
            problems.append(message.text)

    return take


@pytest.fixture
def page(browser: Browser, server: DevServer) -> Iterator[Page]:
    """The console, connected. An exception in it, or a breach of its content policy, fails the test."""
    context = browser.new_context(viewport=DESKTOP)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", breaches_to(problems))
    page.add_init_script(RECORDER)
    page.goto(server.url)
    expect(page.locator("#connection")).to_have_text("Connected")
    yield page
    context.close()
    assert problems == []
