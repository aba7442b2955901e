// Draws what waits: edit in place, another order by dragging or by keys, another delivery, and back to the field.

import { DELIVERIES } from "./deliveries.js";
import { dragging } from "./drag.js";
import { el, reconcile, setAttribute, setText, show } from "./dom.js";

const BUTTONS = [
  { name: "interrupt_next", label: "Send now", tells: "Stops what runs, and this is next" },
  ...DELIVERIES.filter(({ name }) => name !== "interrupt_next"),
];

/**
 * Return a function that draws the rows of the inbox into `list`.
 *
 * @param {{rows: () => object[], onEdit: Function, onMove: Function, onDeliver: Function, onRecall: Function,
 *   onLost: Function, announce: (text: string) => void}} on - `rows()` are those of this moment;
 *   `onMove(id, before, ids)`, `before` null: at the end; `onLost(text)` gets what was written about a message that is gone.
 */
export function inbox(list, on) {
  let emptied = () => {};

  const ids = () => on.rows().filter((row) => !row.sending).map((row) => row.key);

  function move(id, place) {
    const order = ids().filter((other) => other !== id);
    on.onMove(id, order[place] ?? null, ids());
    on.announce(`Moved to place ${Math.min(place, order.length) + 1} of ${order.length + 1}.`);
  }

  // From where the row is now: a key may be pressed again before the row is drawn at its new place.
  function step(id, by) {
    const row = on.rows().find(({ key }) => key === id);
    if (row && (by < 0 ? row.up : row.down)) move(id, row.place - 1 + by);
  }

  dragging(list, { ids, onDrop: (id, place) => move(id, place) });

  function draw(shown) {
    const focused = list.contains(document.activeElement) ? document.activeElement : null;
    reconcile(list, shown, () => rowNode(on, step));
    if (!focused || focused === document.activeElement) return;
    if (focused.isConnected) focused.focus(); // a row that moved
    else (list.querySelector("button") ?? { focus: emptied }).focus();
  }

  return Object.assign(draw, {
    /** What gets the focus when the last row goes. */
    onEmptied(focus) {
      emptied = focus;
    },
  });
}

function rowNode(on, step) {
  let row = null;
  let draft = null; // the field of an edit that is open
  const grip = el("button", { type: "button", class: "grip", "data-grip": true, onkeydown: byKey }, "⠿");
  const text = el("p", { class: "text", dir: "auto" });
  const note = el("p", { class: "note" });
  const form = el("div", { class: "slot" });
  const unless = (action) => () => row.busy || action();
  const button = (label, action, more) =>
    el("button", { type: "button", class: "small", onclick: unless(action), ...more }, label);
  const deliveries = BUTTONS.map(({ name, label, tells }) => ({
    name,
    node: button(label, () => on.onDeliver(row.key, name), { title: tells }),
  }));
  const edit = button("Edit", open);
  const back = button("Take back", () => on.onRecall(row.key), { title: "Back to the message field" });
  const up = button("↑", () => step(row.key, -1), { "aria-label": "Move up", title: "Move up" });
  const down = button("↓", () => step(row.key, 1), { "aria-label": "Move down", title: "Move down" });
  const actions = el("div", { class: "actions", role: "group" }, ...deliveries.map(({ node }) => node), edit, back, up, down);
  const more = el("button", { type: "button", class: "more", "aria-expanded": "false", onclick: unfold }, "⋯");
  const node = el("li", { class: "waiting" }, grip, el("div", { class: "waiting-body" }, text, form, note, actions), more);

  function byKey(event) {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    if (!row.busy) step(row.key, by);
  }

  // Where there is little room, the buttons of a row are shown when they are asked for.
  function unfold() {
    const unfolded = node.toggleAttribute("data-unfolded");
    setAttribute(more, "aria-expanded", unfolded ? "true" : "false");
    if (unfolded) node.scrollIntoView({ block: "nearest" });
  }

  function open() {
    draft = editForm({ text: row.text, onSave: save, onCancel: close });
    form.replaceChildren(draft.node);
    drawForm();
    draft.focus();
  }

  function close() {
    draft = null;
    form.replaceChildren();
    drawForm();
    edit.focus();
  }

  async function save(changed) {
    if (!changed.trim()) return;
    const { key } = row;
    close();
    if (!(await on.onEdit(key, changed))) on.onLost(changed);
  }

  function drawForm() {
    show(form, draft !== null);
    show(text, draft === null);
    show(actions, draft === null && !row.sending);
  }

  return {
    node,
    /** What was being written when the row goes away. */
    removed() {
      if (draft && draft.value() !== row.text) on.onLost(draft.value());
    },
    update(next) {
      row = next;
      const name = row.text.length > 60 ? `${row.text.slice(0, 60)}…` : row.text;
      setAttribute(node, "data-id", row.sending ? null : row.key);
      setAttribute(node, "aria-busy", row.busy ? "true" : null);
      setAttribute(grip, "aria-label", `Place ${row.place} of ${row.count}: “${name}”. Arrow keys move it`);
      setAttribute(more, "aria-label", `More for “${name}”`);
      show(more, !row.sending);
      setAttribute(actions, "aria-label", `What to do with “${name}”`);
      setText(text, row.text);
      setText(note, row.note);
      show(note, row.note !== "");
      show(grip, !row.sending);
      for (const delivery of deliveries) show(delivery.node, row.deliveries.includes(delivery.name));
      setText(deliveries[0].node, row.sendLabel);
      show(edit, row.editable);
      show(up, row.up);
      show(down, row.down);
      drawForm();
    },
  };
}

function editForm({ text, onSave, onCancel }) {
  const field = el("textarea", { rows: Math.min(8, text.split("\n").length + 1), dir: "auto", "aria-label": "Change the message" });
  field.value = text;
  const save = el("button", { type: "button", class: "small primary", onclick: () => onSave(field.value) }, "Save");
  const cancel = el("button", { type: "button", class: "small", onclick: onCancel }, "Cancel");
  const node = el("div", { class: "edit" }, field, el("div", { class: "actions" }, save, cancel));
  node.addEventListener("keydown", (event) => {
    if (event.key === "Escape") onCancel();
    else if (event.key === "Enter" && event.target === field && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      onSave(field.value);
    }
  });
  return { node, value: () => field.value, focus: () => field.focus() };
}
