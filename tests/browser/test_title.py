"""A session is renamed in its heading, in the room that there is."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.dev_server import DevServer
from tests.browser.helpers import answers, ask, say

pytestmark = [pytest.mark.browser, pytest.mark.processes]

# The visible things of the heading that stand on one another, or reach out of it.
COLLISIONS = """
() => {
  const head = document.querySelector("#chat .panel-head");
  const things = [...head.querySelectorAll("h2, p, button, input")].filter((thing) => thing.offsetParent);
  const boxes = things.map((thing) => [thing, thing.getBoundingClientRect()]);
  const name = (thing) => thing.id || thing.textContent.trim() || thing.tagName;
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const outside = boxes.filter(([, box]) => box.right > head.getBoundingClientRect().right + 1);
  const over = ([one, a], at) =>
    boxes.slice(at + 1).filter(([, b]) => meet(a, b)).map(([two]) => `${name(one)} on ${name(two)}`);
  return [...outside.map(([thing]) => name(thing)), ...boxes.flatMap(over)];
}
"""


def test_a_session_is_renamed_without_one_thing_on_another(page: Page, server: DevServer) -> None:
    say(page, "Please refund order 7.")
    expect(page.get_by_role("button", name="Approve", exact=True)).to_be_visible()
    for width in (1280, 1000, 390):
        page.set_viewport_size({"width": width, "height": 800})
        page.get_by_role("button", name="Rename this session").click()
        assert page.evaluate(COLLISIONS) == []
        page.get_by_role("button", name="Cancel", exact=True).click()
        assert page.evaluate(COLLISIONS) == []

    page.set_viewport_size({"width": 1440, "height": 800})
    page.locator("body").press("r")
    page.get_by_label("Title of this session").fill("The refund of order seven")
    page.keyboard.press("Enter")

    heading = page.get_by_role("heading", name="The refund of order seven")
    expect(heading).to_be_visible()
    assert heading.evaluate("(heading) => heading.scrollWidth <= heading.clientWidth")  # all of it: the id gives way
    assert ask(server, page)["title"] == "The refund of order seven"
    assert answers(page).count() == 2
