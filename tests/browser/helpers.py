"""What the browser tests read and do on the page, and what they ask the server."""

import json
import urllib.request
from itertools import pairwise
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.browser.dev_server import DevServer

ABOUT_7 = (
    "Order 7 (walking boots, 129.90 euros) is delivered. It goes to 7 Castle Hill, Lincoln. "
    "Is there anything else that I can do for you?"
)

# What does not fit into a phone's 390 pixels, or into its own place.
TOO_WIDE = """
[document.documentElement, ...document.querySelectorAll("body, .panel, .foot, .foot *, dialog[open], dialog[open] *")]
  .filter((box) => box.offsetParent !== null || box.matches("html, body"))
  .filter((box) => !box.matches("button, kbd, .text, .hidden, option"))
  .filter((box) => box.scrollWidth > Math.min(box.clientWidth || 390, 390) || box.getBoundingClientRect().right > 390.5)
  .map((box) => box.id || box.className || box.tagName)
"""


def field(page: Page) -> Locator:
    """The message field."""
    return page.get_by_label("Message", exact=True)


def say(page: Page, text: str, keys: str = "Enter") -> None:
    """Type a message and press the keys that send it."""
    field(page).fill(text)
    page.keyboard.press(keys)


def answers(page: Page) -> Locator:
    """The texts that the agent said, live or stored."""
    return page.locator("#transcript .message.assistant > .text:visible")


def live(page: Page) -> Locator:
    """The text that is being written right now."""
    return page.locator("#transcript .message.assistant[data-live] > .text")


def said(page: Page) -> Locator:
    """The user's messages in the conversation."""
    return page.locator("#transcript .message.user > .text")


def waiting(page: Page) -> Locator:
    """The rows of the inbox."""
    return page.locator("#inbox-list > .waiting")


def waiting_texts(page: Page) -> Locator:
    """The texts of what waits."""
    return page.locator("#inbox-list .waiting-body > .text")


def row(page: Page, text: str) -> Locator:
    """The row of one waiting message."""
    return waiting(page).filter(has_text=text)


def timeline(page: Page) -> Locator:
    """The steps of the newest turn."""
    return page.locator("#turns > .turn").first.locator(".step")


def send(server: DevServer, page: Page, body: dict[str, Any]) -> None:
    """Send a message to the open session past the page, as another program would."""
    address = f"{server.url}/v1/sessions/{page.url.partition('#')[2]}/inputs"
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(address, json.dumps(body).encode(), headers)
    urllib.request.urlopen(request, timeout=10).close()


def ask(server: DevServer, page: Page, *path: str) -> Any:
    """Return what the server answers about the open session."""
    session_id = page.url.partition("#")[2]
    address = "/".join([server.url, "v1/sessions", session_id, *path])
    with urllib.request.urlopen(address, timeout=10) as response:
        return json.load(response)


def stored(server: DevServer, page: Page) -> list[dict[str, Any]]:
    """The messages that the server has of the open session."""
    messages: list[dict[str, Any]] = ask(server, page, "messages")["messages"]
    return messages


def text_of(message: dict[str, Any]) -> str:
    """The text of a message."""
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


def stored_answers(server: DevServer, page: Page) -> list[str]:
    """The texts that the agent said, as the server has them."""
    texts = [text_of(message) for message in stored(server, page) if message["role"] == "assistant"]
    return [text for text in texts if text]


def growth(page: Page, start: str) -> list[str]:
    """The texts that one answer had, from its first piece on."""
    moments: list[list[str]] = page.evaluate("window.moments")
    texts = [message for shown in moments for message in shown if message.startswith(start)]
    return list(dict.fromkeys(texts))


def is_growing(texts: list[str]) -> bool:
    """Whether each text begins with the one before."""
    return all(later.startswith(earlier) for earlier, later in pairwise(texts))


def shown_twice(page: Page, text: str) -> list[list[str]]:
    """The moments at which a text stood in the conversation more than once."""
    moments: list[list[str]] = page.evaluate("window.moments")
    return [shown for shown in moments if sum(text in message for message in shown) > 1]


def refunds(server: DevServer) -> int:
    """How often money was really paid back."""
    if not server.books.exists():
        return 0
    return sum(json.loads(line)["kind"] == "refund" for line in server.books.read_text().splitlines())


def held_in_its_answer(page: Page, server: DevServer) -> None:
    """Ask about order 7, and return when the answer stands in its middle."""
    server.hold("Order 7 (walking")
    say(page, "Where is order 7?")
    expect(live(page)).to_contain_text("Order 7 (walking")
