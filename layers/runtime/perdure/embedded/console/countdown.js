// Times that tick. Only the text of the element changes: nothing around it is drawn again, and nothing is read out.

import { el, setAttribute, setText } from "./dom.js";
import { remaining } from "./format.js";

/** Return `{ node, until(at, what) }`: text that says how far away a time is, behind `what`; null hides it. */
export function countdown(attributes = {}) {
  const node = el("span", { class: "countdown", role: "timer", ...attributes });
  return {
    node,
    until(at, what = null) {
      setAttribute(node, "data-until", at);
      setAttribute(node, "data-what", what);
      node.hidden = !at;
      paint(node, Date.now());
    },
  };
}

/** Bring every countdown of the page up to date. */
export function tick() {
  const now = Date.now();
  for (const node of document.querySelectorAll("[data-until]")) paint(node, now);
}

function paint(node, now) {
  const at = node.getAttribute("data-until");
  const what = node.getAttribute("data-what");
  setText(node, at ? `${what ? `${what} ` : ""}${remaining(at, now)}` : "");
}
