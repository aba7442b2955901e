// Draws what a call waits for besides people, and the controls of a time: skip it, move it, do without it.

import { countdown } from "./countdown.js";
import { el, setAttribute, setText, show } from "./dom.js";
import { clock, localInput } from "./format.js";

const HOUR_MS = 3_600_000;
const STEPS = [["+1 h", HOUR_MS, "One hour later"], ["+1 day", 24 * HOUR_MS, "One day later"]];

/**
 * Draw the wait of a call.
 *
 * @param {{onSkip: Function, onChangeWait: Function, onCancelWait: Function}} on - each gets the wait's id, `onChangeWait`
 *   the new time as well and resolves to whether it was taken.
 */
export function waitCard(on) {
  let shown = null;
  const text = el("p", { class: "question", dir: "auto" });
  const since = el("span", {});
  const left = countdown();
  const facts = el("p", { class: "facts" }, left.node, since);
  const unless = (action) => () => ["skip", "cancel"].includes(shown.doing?.does) || action();
  const skip = el("button", { type: "button", class: "small", onclick: unless(() => leave(() => on.onSkip(shown.key))) });
  const cancel = el("button", { type: "button", class: "small", onclick: unless(() => leave(() => on.onCancelWait(shown.key))) }, "Cancel it");
  const time = timeControl((at) => on.onChangeWait(shown.key, at), { before: [skip], after: [cancel] });
  const node = el("div", { class: "wait", role: "group" }, text, facts, time.node);

  // The box goes away, the reader stays.
  function leave(action) {
    node.closest(".card").focus();
    action();
  }

  return {
    node,
    update({ wait, name, looks }) {
      shown = wait;
      const now = Date.now();
      const title = titleOf(wait, name);
      setText(text, wait.doing?.does === "skip" ? "Going on…" : wait.doing?.does === "cancel" ? "Cancelling…" : title);
      setAttribute(node, "aria-label", title);
      setAttribute(node, "aria-busy", wait.doing ? "true" : null);
      const look = wait.kind === "task" ? wait.lookAt : null;
      const ends = wait.doing?.until ?? look ?? wait.until;
      left.until(ends, look ? "next look" : null);
      const looked = wait.kind === "task" ? `looked ${looks === 1 ? "once" : `${looks ?? 0} times`}` : null;
      const until = wait.until && !look ? `until ${clock(wait.until, now)}` : null;
      const told = [looked, until, `since ${clock(wait.since, now)}`].filter(Boolean).join(" · ");
      setText(since, ends ? ` · ${told}` : told);
      setText(skip, wait.kind === "task" ? "Look now" : "Don't wait");
      show(skip, wait.does.includes("skip"));
      show(cancel, wait.does.includes("cancel"));
      time.update({ at: look ?? wait.until, changeable: wait.does.includes("change") });
    },
  };
}

function titleOf({ kind, name, reason }, tool) {
  if (kind === "task") return `${tool} has started work elsewhere, which is looked at from time to time.`;
  if (kind === "event" && name) return `${tool} waits for “${name}”.`;
  if (kind === "event" || kind === "result") return `${tool} waits for something from outside.`;
  if (reason) return `The agent waits: ${reason}`;
  return name ? `${tool} waits (${name}).` : "The agent waits.";
}

/**
 * Return `{ node, update({ at, changeable }) }` of the buttons that move a time, by steps or to any other.
 *
 * `onChange(at)` resolves to whether the new time was taken. The field stays open, and as it is, until then. `ends`
 * false: it may be taken away, by `onChange(null)`.
 */
export function timeControl(onChange, { before = [], after = [], label = "Another time", ends = true } = {}) {
  let shown = { at: null };
  let asked = null; // the time that is on its way to the server: steps that follow quickly add up
  const steps = STEPS.map(([text, ms, tells]) =>
    el("button", { type: "button", class: "small", title: tells, "aria-label": tells, onclick: () => later(ms) }, text),
  );
  const open = el("button", { type: "button", class: "small", "aria-expanded": "false", onclick: unfold }, `${label}…`);
  const none = el("button", { type: "button", class: "small", onclick: () => change(null) }, "No deadline");
  const field = el("input", { type: "datetime-local", step: "1", "aria-label": `${label} (your local time)` });
  const save = el("button", { type: "submit", class: "small primary" }, "Save");
  const back = el("button", { type: "button", class: "small", onclick: fold }, "Back");
  const form = el("form", { class: "time-form", novalidate: true, hidden: true }, field, save, back);
  const buttons = el("div", { class: "actions" }, ...before, ...steps, open, ...(ends ? [] : [none]), ...after);
  const node = el("div", { class: "time" }, buttons, form);

  async function change(at) {
    asked = at;
    const taken = await onChange(at);
    if (asked === at) asked = null;
    return taken;
  }

  const later = (ms) => change(new Date(Math.max(Date.parse(asked ?? shown.at), Date.now()) + ms).toISOString());

  function unfold() {
    field.value = localInput(shown.at ?? new Date().toISOString());
    setOpen(true);
    field.focus();
  }

  function fold() {
    setOpen(false);
    open.focus();
  }

  function setOpen(isOpen) {
    show(form, isOpen);
    show(buttons, !isOpen);
    setAttribute(open, "aria-expanded", isOpen ? "true" : "false");
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    event.stopPropagation();
    if (field.value && (await change(new Date(field.value).toISOString()))) fold();
  });
  form.addEventListener("keydown", (event) => event.key === "Escape" && fold());

  return {
    node,
    update(next) {
      shown = next;
      for (const step of steps) show(step, next.changeable && Boolean(next.at));
      show(open, next.changeable);
      if (!next.changeable) setOpen(false);
    },
  };
}
