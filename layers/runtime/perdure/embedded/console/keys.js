// Shortcuts. Single keys count only where nobody writes, and can be turned off (WCAG 2.2, 2.1.4).

import { el, show } from "./dom.js";
import { keep, recalled } from "./kept.js";

const IN_FIELD = [
  ["Enter", "send, or queue while a turn runs"],
  ["Alt+Enter", "add to the running turn"],
  ["Ctrl+Enter", "redirect the running turn"],
  ["Ctrl+Shift+Enter", "interrupt the running turn"],
  ["Shift+Enter", "new line"],
  ["↑", "in the empty field: take the last waiting message back"],
  ["Esc", "stop the running turn"],
];

/**
 * Listen for shortcuts, and tell of them in `dialog`.
 *
 * @param {{key: string, tells: string, run: () => void}[]} shortcuts
 */
export function shortcutKeys(dialog, shortcuts) {
  const all = [{ key: "?", tells: "this help", run: open }, ...shortcuts];
  const box = dialog.querySelector("[name=shortcuts]");
  box.checked = recalled("shortcuts") !== "off";
  box.addEventListener("change", () => keep("shortcuts", box.checked ? null : "off"));
  dialog.querySelector(".anywhere").append(...rows(all.map(({ key, tells }) => [key, tells])));
  dialog.querySelector(".writing").append(...rows(IN_FIELD));
  dialog.querySelector("[data-close]").addEventListener("click", () => dialog.close());

  function open() {
    show(dialog.querySelector(".is-off"), !box.checked);
    dialog.showModal();
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
    if (!box.checked || document.querySelector("dialog[open]") || isWriting(event.target)) return;
    const shortcut = all.find(({ key }) => key === event.key);
    if (!shortcut) return;
    event.preventDefault();
    shortcut.run();
  });

  return { open };
}

function isWriting(target) {
  return target instanceof Element && target.closest("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]") !== null;
}

function rows(keys) {
  return keys.map(([key, tells]) => el("div", {}, el("dt", {}, el("kbd", {}, key)), el("dd", {}, tells)));
}
