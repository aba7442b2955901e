"""A Chromium, a server, and a page that must not report an error of its own."""

import shutil
import uuid
from collections.abc import Callable, Iterator

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


@pytest.fixture(scope="session")
def dev_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """One `perdure dev` for all tests: each has a session of its own, and a start takes as long as a test."""
    server = DevServer(tmp_path_factory.mktemp("dev"))
    yield server
    server.kill()


@pytest.fixture
def server(dev_server: DevServer) -> Iterator[DevServer]:
    """The server, running, with an agent that no test has directed yet. A test may kill it."""
    dev_server.reset()
    dev_server.start()
    yield dev_server
    dev_server.reset()  # whatever is held goes on, and out of the next test's way


def complaints_to(problems: list[str]) -> Callable[[ConsoleMessage], None]:
    """Collect the errors of the browser's console; answers that refuse, and lost connections, are part of the tests."""

    def take(message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            problems.append(message.text)

    return take


@pytest.fixture
def page(browser: Browser, server: DevServer) -> Iterator[Page]:
    """The console with a new session, connected. An exception or an error in its console fails the test."""
    context = browser.new_context(viewport=DESKTOP)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", complaints_to(problems))
    page.add_init_script(RECORDER)
    page.goto(f"{server.url}/#test-{uuid.uuid4().hex[:8]}")
    expect(page.locator("#connection")).to_have_text("Connected")
    yield page
    context.close()
    assert problems == []
