"""The console page without a mouse, on a phone, and in both colour schemes."""

import re
from typing import Literal

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.dev_server import DevServer
from tests.browser.helpers import (
    TOO_WIDE,
    answers,
    field,
    held_in_its_answer,
    live,
    row,
    said,
    say,
    waiting,
    waiting_texts,
)

pytestmark = [pytest.mark.browser, pytest.mark.processes]

# Visible controls without a name, which a sign is not.
NAMELESS = """
[...document.querySelectorAll("button, input, textarea, select, [role=group], [role=region], dialog[open]")]
  .filter((control) => control.checkVisibility())
  .filter((control) => {
    const labelled = document.getElementById(control.getAttribute("aria-labelledby") ?? "")?.textContent;
    const labels = [...(control.labels ?? [])].map((label) => label.textContent).join("");
    const own = control.matches("button") ? control.textContent : "";
    return !/\\p{L}/u.test(control.getAttribute("aria-label") ?? labelled ?? (labels || own));
  })
  .map((control) => control.outerHTML)
"""

# Texts with less contrast than 4.5 to 1 (WCAG 2.2, 1.4.3), with their figures. What is faded out is not in use.
TOO_FAINT = """
() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const luminance = (color) => {
    const [r, g, b] = [...rgba(color)].slice(0, 3).map((byte) => {
      const part = byte / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const up = (node) => (node ? [node, ...up(node.parentElement)] : []);
  const ground = (node) => up(node).map((box) => getComputedStyle(box).backgroundColor).find((c) => rgba(c)[3] === 255);
  const faded = (node) => up(node).some((box) => getComputedStyle(box).opacity < 1);
  const spoken = (node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
  return [...document.body.querySelectorAll("*")]
    .filter((node) => spoken(node) && node.checkVisibility() && !faded(node) && !node.closest(".hidden, .skip"))
    .map((node) => {
      const [one, other] = [getComputedStyle(node).color, ground(node)].map(luminance);
      const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
      return [Math.round(ratio * 100) / 100, node.className || node.tagName, node.textContent.slice(0, 40)];
    })
    .filter(([ratio]) => ratio < 4.5);
}
"""

OUTLINED = "(node) => [node, node.parentElement].some((box) => getComputedStyle(box).outlineStyle !== 'none')"


def tab_to(page: Page, target: Locator, keys: str = "Tab") -> None:
    """Press a key until a control has the focus, and see that it shows it."""
    for _ in range(60):
        if target.count() == 1 and target.evaluate("(node) => node === document.activeElement"):
            assert target.evaluate(OUTLINED), "the focus can't be seen"
            return
        page.keyboard.press(keys)
    raise AssertionError(f"{keys} does not come to {target}")


def drag_by_touch(page: Page, grip: Locator, target: Locator) -> None:
    """Put a finger on a grip, move it to the top of another row, and lift it."""
    start, end = grip.bounding_box(), target.bounding_box()
    assert start
    assert end
    x, y = start["x"] + start["width"] / 2, start["y"] + start["height"] / 2
    fingers = page.context.new_cdp_session(page)
    fingers.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    fingers.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    for part in (0.2, 0.6, 1.0):
        place = {"x": x, "y": y + (end["y"] + 4 - y) * part}
        fingers.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [place]})
    fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    fingers.detach()


def test_everything_works_by_keyboard_alone(page: Page, server: DevServer) -> None:
    server.hold("Let me look")
    page.keyboard.type("Where is order 7?")  # the message field has the focus
    page.keyboard.press("Enter")
    expect(answers(page)).to_have_text("Let me look ")
    for text in ("Where is order 3?", "Where is order 4?", "Thank you", "Hello"):
        page.keyboard.type(text)
        page.keyboard.press("Enter")
    expect(row(page, "Hello").get_by_role("button", name="Take back")).to_be_visible()

    page.keyboard.press("ArrowUp")  # takes the last one back
    expect(field(page)).to_have_value("Hello")
    tab_to(page, page.get_by_role("radio", name="Queue"), "Shift+Tab")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#composer-hint")).to_contain_text("Joins the running turn")
    page.keyboard.press("ArrowLeft")
    tab_to(page, row(page, "order 4").locator(".grip"), "Shift+Tab")
    page.keyboard.press("ArrowUp")
    expect(waiting_texts(page)).to_have_text(["Where is order 4?", "Where is order 3?", "Thank you"])
    expect(page.locator("#announce")).to_have_text("Moved to place 1 of 3.")
    expect(row(page, "order 4").locator(".grip")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(waiting_texts(page)).to_have_text(["Where is order 3?", "Thank you", "Where is order 4?"])
    tab_to(page, row(page, "order 3").get_by_role("button", name="Edit"), "Shift+Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Control+A")
    page.keyboard.type("Where is order 2?")
    page.keyboard.press("Enter")
    expect(waiting_texts(page).first).to_have_text("Where is order 2?")
    expect(row(page, "order 2").get_by_role("button", name="Edit")).to_be_focused()
    tab_to(page, row(page, "Thank you").get_by_role("button", name="Add"))
    page.keyboard.press("Space")
    expect(row(page, "Thank you")).to_contain_text("joins this turn")

    tab_to(page, page.get_by_role("button", name="Pause"), "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#gate")).to_contain_text("Paused")
    page.keyboard.press("Enter")
    expect(page.locator("#gate")).to_be_hidden()
    tab_to(page, page.get_by_role("button", name="Settings"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    expect(page.get_by_label("Approvals")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Settings")).to_be_focused()

    tab_to(page, field(page))
    page.keyboard.press("Escape")
    server.hold("")
    expect(page.locator(".notice")).to_have_text("This turn was stopped.")
    expect(said(page)).to_have_text(["Where is order 7?", "Where is order 2?", "Where is order 4?", "Thank you"])
    expect(field(page)).to_have_value("Hello")


def test_the_controls_fit_a_phone_and_a_finger(page: Page, server: DevServer) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    held_in_its_answer(page, server)
    say(page, "Where is order 3? " + "verylongword" * 20)
    for text in ("Where is order 4?", "Hello"):
        say(page, text)
    expect(waiting(page)).to_have_count(3)
    for control in ("Stop", "Queue", "Pause", "Settings"):
        expect(page.get_by_role("button", name=control, exact=True)).to_be_in_viewport(ratio=1)
    expect(page.get_by_role("radio", name="Redirect")).to_be_in_viewport()

    row(page, "Hello").get_by_role("button", name="More for").click()
    for action in ("Send now", "Add", "Redirect", "Edit", "Take back", "Move up"):
        expect(row(page, "Hello").get_by_role("button", name=action)).to_be_visible()
    assert page.evaluate(TOO_WIDE) == []
    row(page, "Hello").get_by_role("button", name="Move up").click()
    expect(waiting_texts(page).nth(1)).to_have_text("Hello")
    drag_by_touch(page, row(page, "Hello").locator(".grip"), waiting(page).first)
    expect(waiting_texts(page).first).to_have_text("Hello")
    page.get_by_role("radio", name="Interrupt").check()
    expect(page.get_by_role("button", name="Interrupt")).to_be_in_viewport(ratio=1)
    assert page.evaluate(TOO_WIDE) == []
    page.get_by_role("button", name="Settings").click()
    expect(page.get_by_role("button", name="Save")).to_be_in_viewport(ratio=1)
    assert page.evaluate(TOO_WIDE) == []
    page.get_by_role("button", name="Cancel").click()
    page.set_viewport_size({"width": 844, "height": 390})  # on its side
    for control in ("Stop", "Interrupt", "Pause"):
        expect(page.get_by_role("button", name=control, exact=True)).to_be_in_viewport(ratio=1)
    expect(live(page)).to_be_in_viewport()
    assert page.locator(".foot").evaluate("(foot) => foot.getBoundingClientRect().bottom") <= 390
    page.set_viewport_size({"width": 390, "height": 844})

    page.get_by_role("button", name="Stop").click()
    server.fail("rate_limited", retryable=True, retry_after_seconds=60)
    server.hold("")
    expect(page.get_by_role("button", name="Retry now")).to_be_in_viewport(ratio=1)
    expect(page.get_by_role("button", name="Give up")).to_be_in_viewport(ratio=1)
    assert page.evaluate(TOO_WIDE) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_control_has_a_name_and_every_text_its_contrast(
    page: Page, server: DevServer, scheme: Literal["light", "dark"]
) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    server.fail("auth", message="401: wrong key")
    say(page, "Where is order 7?")
    expect(page.get_by_role("group", name="Failed turn")).to_be_visible()
    say(page, "Hello")
    expect(row(page, "Hello").get_by_role("button", name="Send now")).to_be_visible()
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(TOO_FAINT) == []

    server.fail(None)
    server.hold("welcome")
    row(page, "Hello").get_by_role("button", name="Send now").click()
    expect(answers(page)).to_have_text(re.compile("welcome"))
    say(page, "Please refund order 7.", "Alt+Enter")
    say(page, "Thanks")
    row(page, "Thanks").get_by_role("button", name="Edit").click()
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#gate")).to_contain_text("Paused")
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(TOO_FAINT) == []
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("All settings, as JSON").fill("[]")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_be_visible()
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(TOO_FAINT) == []
