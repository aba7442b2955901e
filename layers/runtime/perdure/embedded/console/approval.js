// Draws an approval: approve, perhaps with other arguments, or reject, with a word to the agent.

import { aheadChoice } from "./ahead.js";
import { changesOf, parsedArguments } from "./arguments.js";
import { countdown } from "./countdown.js";
import { el, reconcile, setAttribute, setText, show } from "./dom.js";
import { timeControl } from "./wait.js";

/**
 * Draw the form of a call that waits for a decision. It exists only as long as that.
 *
 * @param {{onDecide: Function, onChangeWait: Function}} on - `onDecide(interruptId, approved, {message, argumentsHash,
 *   changed, ahead})` resolves to why the server refused it, or to null.
 */
export function approvalForm(on) {
  let shown = null;
  let edits = false;
  let waiting = false; // for the answer of the server
  const question = el("p", { class: "question" });
  const message = el("input", {
    type: "text",
    dir: "auto",
    placeholder: "Message to the agent (optional)",
    "aria-label": "Message to the agent with your decision, optional",
  });
  const field = el("textarea", { class: "json", spellcheck: "false", autocomplete: "off", oninput: check, onkeydown: byKey });
  const problem = el("p", { class: "problem", role: "alert", hidden: true });
  const changes = changeList("What you changed");
  const editor = el("div", { class: "editor", hidden: true }, field, problem, changes.node);
  const ahead = aheadChoice({ tool: () => shown.name, onToggle: () => check() });
  const approve = el("button", { type: "button", class: "primary", onclick: () => decide(true) }, "Approve");
  const reject = el("button", { type: "button", onclick: () => decide(false) }, "Reject");
  const edit = el("button", { type: "button", "aria-expanded": "false", onclick: () => setEdits(!edits) }, "Edit arguments");
  const buttons = el("div", { class: "buttons" }, approve, reject, edit);
  const left = countdown();
  const time = timeControl((at) => on.onChangeWait(shown.interruptId, at), { label: "Another deadline", ends: false });
  const deadline = el("div", { class: "deadline" }, el("p", { class: "facts" }, "It is rejected by itself ", left.node), time.node);
  const node = el("div", { class: "approval", role: "group" }, question, editor, message, buttons, ahead.node, deadline);

  // Returns the arguments to approve with: undefined for those that are asked for, null when they can't be sent.
  function edited() {
    if (!edits) return undefined;
    const { value = null } = parsedArguments(field.value);
    return value && changesOf(shown.editable, value).length === 0 ? undefined : value;
  }

  function setEdits(isOpen) {
    edits = isOpen;
    show(editor, isOpen);
    setText(edit, isOpen ? "Discard edits" : "Edit arguments");
    setAttribute(edit, "aria-expanded", isOpen ? "true" : "false");
    if (isOpen) {
      field.value = JSON.stringify(shown.editable, null, 2);
      field.rows = Math.min(14, Math.max(3, field.value.split("\n").length));
      field.focus();
    } else edit.focus();
    check();
    buttons.scrollIntoView({ block: "nearest" });
  }

  function byKey(event) {
    if (event.key === "Escape") setEdits(false);
  }

  function check() {
    const { value, problem: why = "" } = edits ? parsedArguments(field.value) : {};
    tell(why);
    changes.update(value ? changesOf(shown.editable, value) : []);
    setText(approve, `Approve${edited() ? " with changes" : ""}${ahead.value() ? ", also ahead" : ""}`);
    approve.disabled = waiting || shown.deciding !== null || shown.blocked !== null || edited() === null;
  }

  function tell(why) {
    setText(problem, why);
    show(problem, why !== "");
    setAttribute(field, "aria-invalid", why ? "true" : "false");
  }

  async function decide(approved) {
    if (waiting || shown.deciding !== null) return; // a double click decides once
    const changed = approved ? edited() : undefined;
    if (changed === null) return;
    waiting = true;
    node.closest(".card").focus(); // the form goes away, the reader stays
    const more = { message: message.value.trim(), argumentsHash: shown.argumentsHash, changed, ahead: approved ? ahead.value() : null };
    const why = await on.onDecide(shown.interruptId, approved, more);
    waiting = false;
    if (!node.isConnected) return;
    check();
    if (why === null || changed === undefined) return;
    tell(why);
    field.focus();
  }

  return {
    node,
    update(call) {
      shown = { ...call.approval, name: call.name };
      const busy = shown.deciding !== null;
      const blocked = shown.blocked ? ` This deployment can't run it (${shown.blocked}): reject it, or deploy it again.` : "";
      setText(question, busy ? (shown.deciding ? "Approving…" : "Rejecting…") : `May ${call.name} run?${blocked}`);
      setAttribute(node, "aria-label", `Approval of ${call.name}`);
      setAttribute(field, "aria-label", `Arguments of ${call.name}, as JSON`);
      for (const control of [reject, message, edit, field]) control.disabled = busy;
      show(edit, shown.editable !== null && shown.blocked === null);
      ahead.update(shown.editable);
      show(ahead.node, !busy && shown.blocked === null && shown.editable !== null);
      left.until(shown.deadline);
      show(deadline, shown.deadline !== null && !busy);
      time.update({ at: shown.deadline, changeable: true });
      if (problem.hidden || !edits) check();
      else approve.disabled = true;
    },
  };
}

/** Return `{ node, update(changes) }` of a list of changed values, old and new. */
export function changeList(label) {
  const list = el("ul", { class: "changes", "aria-label": label });
  const node = el("div", { class: "slot" }, list);
  return {
    node,
    update(changes) {
      reconcile(list, changes, changeNode);
      show(node, changes.length > 0);
    },
  };
}

function changeNode() {
  const name = el("code", {});
  const before = el("del", { dir: "auto" });
  const arrow = el("span", { class: "hidden" }, " becomes ");
  const after = el("ins", { dir: "auto" });
  return {
    node: el("li", {}, name, " ", before, arrow, " ", after),
    update(change) {
      setText(name, change.key);
      setText(before, change.before ?? "not there");
      setText(after, change.after ?? "left out");
    },
  };
}
