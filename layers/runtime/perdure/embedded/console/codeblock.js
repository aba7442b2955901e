// A block of code or JSON that scrolls in itself, with a button that copies all of it.

import { el, setAttribute, setText, show } from "./dom.js";

const TALL_LINES = 11; // from here on it may scroll, and has to be reached by keyboard
const LONG_CHARACTERS = 700;
const TOLD_MS = 1600;

/** Copy a text. Resolves to whether that worked. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text); // without https there is no clipboard but this one
  }
}

function copyBySelection(text) {
  const field = el("textarea", { class: "hidden", "aria-hidden": "true", tabindex: "-1" });
  field.value = text;
  const focused = document.activeElement;
  (focused?.closest("dialog") ?? document.body).append(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  focused?.focus?.({ preventScroll: true });
  return copied;
}

/** Return a button that copies what `text()` returns at that moment. `label` tells what that is. */
export function copyButton(text, label) {
  const word = el("span", {}, "Copy");
  const told = el("span", { class: "hidden", role: "status" });
  let timer = null;
  const button = el("button", { type: "button", class: "copy", "aria-label": label, title: label, onclick: run }, word);
  async function run() {
    const copied = await copy(text());
    setText(word, copied ? "Copied" : "Not copied");
    setText(told, copied ? "Copied" : "The browser did not allow copying");
    clearTimeout(timer);
    timer = setTimeout(() => {
      setText(word, "Copy");
      setText(told, "");
    }, TOLD_MS);
  }
  return el("span", { class: "copy-box" }, button, told);
}

/** Return `{ node, code, update(text, title) }`; the node is hidden while there is no text. */
export function codeBlock({ label }) {
  const code = el("pre", { class: "code" });
  const title = el("span", { class: "code-title" });
  const node = el("div", { class: "code-box" }, title, code, copyButton(() => code.textContent, `Copy: ${label}`));
  return {
    node,
    code,
    update(text, heading = null) {
      setText(code, text ?? "");
      setText(title, heading ?? "");
      show(title, heading !== null);
      const scrolls = (text ?? "").length > LONG_CHARACTERS || (text ?? "").split("\n", TALL_LINES).length === TALL_LINES;
      setAttribute(code, "tabindex", scrolls ? "0" : null);
      setAttribute(code, "role", scrolls ? "region" : null);
      setAttribute(code, "aria-label", scrolls ? label : null);
      setAttribute(node, "data-short", !scrolls && !(text ?? "").includes("\n"));
    },
  };
}
