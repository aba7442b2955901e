// Draws a question to the person: choices as buttons, an answer in their own words, or none.

import { countdown } from "./countdown.js";
import { el, reconcile, setAttribute, setText, show } from "./dom.js";
import { timeControl } from "./wait.js";

/**
 * Draw an open question. What is written in the field goes along as a message when another button is pressed.
 *
 * @param {{onAnswer: Function, onDecline: Function, onChangeWait: Function, onLostAnswer: (text: string) => void}} on -
 *   `onAnswer(id, text, message)`, `onDecline(id, message)`; `onLostAnswer` gets what was written for a question that is
 *   gone.
 */
export function questionForm(on) {
  let shown = null;
  let sent = false;
  const text = el("p", { class: "question", dir: "auto" });
  const choices = el("div", { class: "choices", role: "group", "aria-label": "Answers to choose from" });
  const field = el("textarea", { rows: "2", dir: "auto", onkeydown: byKey });
  const answer = el("button", { type: "button", class: "primary", onclick: write }, "Answer");
  const decline = el("button", { type: "button", onclick: () => leave(() => on.onDecline(shown.key, written())) }, "Decline");
  const buttons = el("div", { class: "buttons" }, answer, decline);
  const left = countdown();
  const time = timeControl((at) => on.onChangeWait(shown.key, at), { label: "Another deadline", ends: false });
  const deadline = el("div", { class: "deadline" }, el("p", { class: "facts" }, "Time to answer ends ", left.node), time.node);
  const node = el("div", { class: "approval asks", role: "group" }, text, choices, field, buttons, deadline);

  const written = () => field.value.trim();

  // The form goes away, the reader stays; a double click answers once.
  function leave(action) {
    if (shown.deciding !== null) return;
    sent = true;
    node.closest(".card").focus();
    action();
  }

  function write() {
    if (shown.freeText && written()) leave(() => on.onAnswer(shown.key, field.value, ""));
    else field.focus();
  }

  function byKey(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || !shown.freeText) return;
    event.preventDefault();
    write();
  }

  function choiceNode({ key: choice }) {
    const pick = () => leave(() => on.onAnswer(shown.key, choice, written()));
    return { node: el("button", { type: "button", dir: "auto", onclick: pick }, choice), update() {} };
  }

  return {
    node,
    removed() {
      if (!sent && shown.freeText && written()) on.onLostAnswer(field.value);
    },
    update(question) {
      const busy = question.deciding !== null;
      if (shown?.deciding && !busy) sent = false; // it was refused, and what was written is still here
      shown = question;
      setText(text, busy ? (question.deciding === "answered" ? "Answering…" : "Declining…") : question.text);
      setAttribute(node, "aria-label", `Question: ${question.text}`);
      setAttribute(node, "aria-busy", busy ? "true" : null);
      reconcile(choices, question.choices.map((choice) => ({ key: choice })), choiceNode);
      show(choices, question.choices.length > 0);
      const free = question.choices.length ? "Or answer in your own words" : "Your answer";
      const label = question.freeText ? free : question.ofApplication ? "Message (optional)" : "Message to the agent (optional)";
      setAttribute(field, "placeholder", label);
      setAttribute(field, "aria-label", label);
      show(answer, question.freeText);
      for (const control of [...node.querySelectorAll(".choices button"), field, answer, decline]) control.disabled = busy;
      left.until(question.deadline);
      show(deadline, question.deadline !== null && !busy);
      time.update({ at: question.deadline, changeable: true });
    },
  };
}
