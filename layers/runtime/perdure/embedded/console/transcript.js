// Draws the conversation: messages, live text, tool calls and what is asked about them.

import { cardNode } from "./cards.js";
import { copyButton } from "./codeblock.js";
import { el, reconcile, setAttribute, setText, show } from "./dom.js";
import { words } from "./format.js";
import { prose } from "./prose.js";
import { questionForm } from "./question.js";

/**
 * Return a function that draws items into `parent`.
 *
 * @param {{onRetry: () => void, onDismiss: (turnId: string) => void}} on - and what `approvalForm`, `questionForm` and
 *   `waitCard` want
 */
export function transcript(parent, on) {
  const nodes = {
    assistant: () => assistantNode(on),
    user: userNode,
    notice: noticeNode,
    failure: () => failureNode(on),
    request: () => requestNode(on),
  };
  return (items) => reconcile(parent, items, (item) => nodes[item.kind]());
}

function userNode() {
  const text = el("p", { class: "text", dir: "auto" });
  const note = el("p", { class: "note" });
  const node = el("article", { class: "message user", "aria-label": "You" }, text, note);
  return {
    node,
    update(item) {
      setText(text, item.text);
      setText(note, item.note ?? "");
      show(note, Boolean(item.note));
      setAttribute(node, "aria-label", item.writer ?? "You");
      setAttribute(node, "data-sending", item.sending);
    },
  };
}

function noticeNode() {
  const node = el("p", { class: "notice" });
  return {
    node,
    update(item) {
      setText(node, item.text);
      setAttribute(node, "data-tone", item.tone);
    },
  };
}

// An application asks for a value.
function requestNode(on) {
  let shown = null;
  const form = el("div", { class: "slot" });
  const title = el("h3", {}, "The application asks");
  const node = el("div", { class: "card", role: "group", tabindex: "-1", "aria-label": "The application asks" }, title, form);
  const onAnswer = (id, text, message) => on.onGive(id, shown.schema, text, message);
  return {
    node,
    update(item) {
      shown = item;
      setAttribute(node, "data-call", item.key);
      reconcile(form, [item.question], () => questionForm({ ...on, onAnswer }));
    },
  };
}

// The latest turn failed: what can be done about it.
function failureNode({ onRetry, onDismiss }) {
  let shown = null;
  const title = el("h3", {});
  const text = el("p", { class: "text", dir: "auto" });
  const retry = el("button", { type: "button", class: "primary", onclick: () => shown.doing || onRetry() }, "Retry");
  const dismiss = el("button", { type: "button", onclick: () => shown.doing || onDismiss(shown.turnId) }, "Dismiss");
  const buttons = el("div", { class: "buttons" }, retry, dismiss);
  const node = el("div", { class: "failure", role: "group", "aria-label": "Failed turn" }, title, text, buttons);
  return {
    node,
    update(item) {
      shown = item;
      setText(title, `This turn failed: ${words(item.code)}`);
      setText(text, item.text);
      setText(retry, item.doing === "retry" ? "Retrying…" : "Retry");
      setText(dismiss, item.doing === "dismiss" ? "Dismissing…" : "Dismiss");
      show(dismiss, item.held);
      setAttribute(node, "aria-busy", item.doing ? "true" : null);
    },
  };
}

function assistantNode(on) {
  let said = "";
  const thoughts = el("div", { class: "text prose" });
  const reasoning = el("details", { class: "fold" }, el("summary", {}, "Reasoning"), thoughts);
  const text = el("div", { class: "text prose" });
  const calls = el("div", { class: "calls" });
  const note = el("p", { class: "note" });
  const copy = copyButton(() => said, "Copy this answer");
  const foot = el("div", { class: "message-foot" }, note, copy);
  const node = el("article", { class: "message assistant", "aria-label": "Agent" }, reasoning, text, calls, foot);
  const drawThoughts = prose(thoughts);
  const drawText = prose(text);
  return {
    node,
    update(item) {
      said = item.text;
      drawThoughts(item.reasoning);
      show(reasoning, item.reasoning !== "");
      drawText(item.text);
      show(text, item.text !== "");
      setAttribute(node, "data-live", item.live);
      setAttribute(node, "data-status", item.status);
      setAttribute(node, "aria-busy", item.live ? "true" : "false"); // read out once it is complete
      reconcile(calls, item.calls, () => cardNode(on));
      show(calls, item.calls.length > 0);
      const notes = [item.status && words(item.status), item.attempt > 1 && `attempt ${item.attempt}`].filter(Boolean);
      setText(note, notes.join(" · "));
      show(note, notes.length > 0);
      show(copy, item.text !== "" && !item.live);
      show(foot, notes.length > 0 || !copy.hidden);
    },
  };
}
