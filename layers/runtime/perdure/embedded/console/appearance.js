// The switch between light, dark, and what the system says. `theme.js` sets the kept one before the page is drawn.

import { setAttribute, setText } from "./dom.js";
import { keep, recalled } from "./kept.js";

const THEMES = [
  { name: "system", label: "System", sign: "◐" },
  { name: "light", label: "Light", sign: "☀" },
  { name: "dark", label: "Dark", sign: "☾" },
];

/** Make `button` go through the themes. Returns `{ next() }`. */
export function themeSwitch(button) {
  const sign = button.querySelector("[data-sign]");
  let at = Math.max(0, THEMES.findIndex(({ name }) => name === (recalled("theme") ?? "system")));

  function draw() {
    const { name, label, sign: drawn } = THEMES[at];
    setAttribute(document.documentElement, "data-theme", name === "system" ? null : name);
    setText(sign, drawn);
    setAttribute(button, "aria-label", `Theme: ${label}. Change it`);
    setAttribute(button, "title", `Theme: ${label}`);
  }

  function next() {
    at = (at + 1) % THEMES.length;
    keep("theme", THEMES[at].name === "system" ? null : THEMES[at].name);
    draw();
  }

  button.addEventListener("click", next);
  draw();
  return { next };
}
