// The dialog in which a schedule is written: what comes, and when.

import { setAttribute, setText, show } from "./dom.js";
import { localInput } from "./format.js";
import { formOf, whenOf } from "./when.js";

const HOUR_MS = 3_600_000;
const SHOWN = { at: ["at", "zone"], after: ["amount"], cron: ["cron", "zone"], interval: ["amount", "zone"] };

/**
 * Return `open(schedule)` of the form in `dialog`; without a schedule it is a new one.
 *
 * `onSave(id, { text, ...when })` resolves to null, or to why the server refused; `id` null: a new one.
 */
export function scheduleForm(dialog, { onSave }) {
  const field = (name) => dialog.querySelector(`[name=${name}]`);
  const alert = dialog.querySelector("[role=alert]");
  const save = dialog.querySelector("[type=submit]");
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const names = ["mode", "at", "amount", "unit", "cron", "zone"];
  let editing = null; // the schedule that is changed
  let before = ""; // its form as it was opened

  const values = () => Object.fromEntries(names.map((name) => [name, field(name).value]));

  function tell(problem) {
    setText(alert, problem);
    show(alert, problem !== "");
  }

  // What was not touched stays as it is; a time that counts from now would begin to count again.
  const keptTime = () => (editing.when.every ? {} : { at: editing.nextAt });

  function draw() {
    const shown = SHOWN[field("mode").value];
    for (const part of dialog.querySelectorAll("[data-part]")) show(part, shown.includes(part.dataset.part));
    tell("");
  }

  async function submit(event) {
    event.preventDefault();
    if (save.disabled) return;
    const text = field("text").value;
    const { when, problem } = whenOf(values());
    if (!text.trim()) return tell("Write what the agent is to be told.");
    if (problem) return tell(problem);
    save.disabled = true;
    const sameTime = editing !== null && JSON.stringify(values()) === before;
    const refused = await onSave(editing?.key ?? null, { text, ...(sameTime ? keptTime() : when) });
    save.disabled = false;
    if (refused === null) dialog.close();
    else tell(refused);
  }

  field("mode").addEventListener("change", draw);
  dialog.querySelector("form").addEventListener("submit", submit);
  dialog.querySelector("[data-close]").addEventListener("click", () => dialog.close());

  return (schedule = null) => {
    editing = schedule;
    const soon = new Date(Date.now() + HOUR_MS).toISOString();
    const form = formOf(schedule?.when ?? {}, schedule?.nextAt ?? soon, here, localInput);
    for (const name of names) field(name).value = form[name];
    field("text").value = schedule?.text ?? "";
    before = JSON.stringify(values());
    setText(dialog.querySelector("h2"), schedule ? "Change the schedule" : "New schedule");
    setAttribute(field("text"), "rows", "2");
    draw();
    dialog.showModal();
    field("text").focus();
  };
}
