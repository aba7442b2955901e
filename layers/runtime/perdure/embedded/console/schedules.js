// Draws a session's schedules: messages that come by themselves, and what can be done about each.

import { countdown } from "./countdown.js";
import { el, reconcile, setAttribute, setText, show } from "./dom.js";
import { clock } from "./format.js";
import { timeControl } from "./wait.js";
import { whenText } from "./when.js";

/**
 * Return a function that draws schedules into `list`.
 *
 * @param {{onSkip: Function, onChangeWait: Function, onEdit: Function, onCancel: Function}} on - the first two get the id
 *   of the schedule's wait, `onEdit(schedule)`, `onCancel(id)`
 */
export function scheduleList(list, on) {
  return (schedules) => {
    const focused = list.contains(document.activeElement) ? document.activeElement : null;
    reconcile(list, schedules, () => scheduleNode(on));
    if (focused && !focused.isConnected) (list.querySelector("button") ?? document.getElementById("new-schedule")).focus();
  };
}

function scheduleNode(on) {
  let shown = null;
  const text = el("p", { class: "text", dir: "auto" });
  const left = countdown();
  const facts = el("span", {});
  const again = el("p", { class: "facts" });
  const button = (label, action, tells) =>
    el("button", { type: "button", class: "small", title: tells, onclick: () => shown.busy || action() }, label);
  const now = button("Send now", () => on.onSkip(shown.wait), "The next message comes at once; those behind it keep their times");
  const edit = button("Edit", () => on.onEdit(shown));
  const cancel = button("Delete", () => on.onCancel(shown.key), "A message that has come stays");
  const time = timeControl((at) => on.onChangeWait(shown.wait, at), { before: [now], after: [edit, cancel], label: "Next at" });
  const node = el("li", { class: "schedule", role: "group" }, text, el("p", { class: "facts" }, left.node, facts), again, time.node);
  return {
    node,
    update(schedule) {
      shown = schedule;
      const name = schedule.text.length > 60 ? `${schedule.text.slice(0, 60)}…` : schedule.text;
      setAttribute(node, "aria-label", `Schedule “${name}”`);
      setAttribute(node, "aria-busy", schedule.busy ? "true" : null);
      setText(text, schedule.text);
      left.until(schedule.nextAt, "next");
      const tried = schedule.attempt > 1 ? `try ${schedule.attempt}` : null;
      setText(facts, ["", clock(schedule.nextAt, Date.now()), tried].filter((fact) => fact !== null).join(" · "));
      setText(again, whenText(schedule.when));
      time.update({ at: schedule.nextAt, changeable: true });
    },
  };
}
