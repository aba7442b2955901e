// Draws the conversation: messages, live text, tool calls and their approvals.

import { el, reconcile, setAttribute, setText, show } from "./dom.js";
import { clock, effectWords, tone, words } from "./format.js";
import { resultNode } from "./outputs.js";

/**
 * Return a function that draws items into `parent`.
 *
 * @param {{onDecide: Function, onOutput: Function, onRetry: () => void, onDismiss: (turnId: string) => void}} on
 *   - `onDecide(interruptId, approved, {message, argumentsHash})`, `onOutput(callId, onPiece)` as in outputs.js
 */
export function transcript(parent, on) {
  const nodes = {
    assistant: () => assistantNode(on),
    user: userNode,
    notice: noticeNode,
    failure: () => failureNode(on),
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
  const thoughts = el("p", { class: "text", dir: "auto" });
  const reasoning = el("details", { class: "fold" }, el("summary", {}, "Reasoning"), thoughts);
  const text = el("p", { class: "text", dir: "auto" });
  const calls = el("div", { class: "calls" });
  const note = el("p", { class: "note" });
  const node = el("article", { class: "message assistant", "aria-label": "Agent" }, reasoning, text, calls, note);
  return {
    node,
    update(item) {
      setText(thoughts, item.reasoning);
      show(reasoning, item.reasoning !== "");
      setText(text, item.text);
      show(text, item.text !== "");
      setAttribute(node, "data-live", item.live);
      setAttribute(node, "data-status", item.status);
      setAttribute(node, "aria-busy", item.live ? "true" : "false"); // read out once it is complete
      reconcile(calls, item.calls, () => cardNode(on));
      show(calls, item.calls.length > 0);
      const notes = [item.status && words(item.status), item.attempt > 1 && `attempt ${item.attempt}`].filter(Boolean);
      setText(note, notes.join(" · "));
      show(note, notes.length > 0);
    },
  };
}

function cardNode(on) {
  const name = el("h3", {});
  const effect = el("span", { class: "effect" });
  const badge = el("span", { class: "badge" });
  const given = el("pre", { class: "code" });
  const result = resultNode(on.onOutput);
  const note = el("p", { class: "note" });
  const approval = el("div", { class: "slot" });
  const head = el("div", { class: "card-head" }, name, effect, badge);
  const node = el("div", { class: "card", role: "group", tabindex: "-1" }, head, given, approval, result.node, note);
  return {
    node,
    update(call) {
      setText(name, call.name);
      setAttribute(node, "aria-label", `Tool call ${call.name}`);
      setText(effect, call.effect ? effectWords(call.effect) : "");
      setText(badge, words(call.status));
      setAttribute(badge, "data-tone", tone(call.status));
      setText(given, call.arguments ?? "");
      show(given, call.arguments !== null && call.arguments !== "{}");
      result.update(call);
      const told = notesOf(call);
      setText(note, told.join(" · "));
      show(note, told.length > 0);
      reconcile(approval, call.approval ? [call] : [], (first) => approvalForm(on.onDecide, first));
      show(approval, call.approval !== null);
    },
  };
}

function notesOf(call) {
  const progress = call.progress && (call.progress.message ?? call.progress.text);
  const { decision } = call;
  const spoken = decision?.message ?? decision?.rejection_message;
  const said = spoken ? `: “${spoken}”` : "";
  const by = decision?.actor?.subject ? ` by ${decision.actor.subject}` : "";
  return [
    progress && String(progress),
    decision && decision.approved === true && `approved${by}${said}`,
    decision && decision.approved === false && `rejected${by}${said}`,
    !decision && call.cancellationReason && words(call.cancellationReason),
    call.attempt > 1 && `attempt ${call.attempt}`,
  ].filter(Boolean);
}

// The form exists only while there is something to decide.
function approvalForm(onDecide, first) {
  let shown = first.approval;
  const question = el("p", { class: "question" });
  const message = el("input", {
    type: "text",
    dir: "auto",
    placeholder: "Message to the agent (optional)",
    "aria-label": "Message to the agent with your decision, optional",
  });
  const approve = el("button", { type: "button", class: "primary", onclick: () => decide(true) }, "Approve");
  const reject = el("button", { type: "button", onclick: () => decide(false) }, "Reject");
  const buttons = el("div", { class: "buttons" }, approve, reject);
  const node = el("div", { class: "approval", role: "group" }, question, message, buttons);

  function decide(approved) {
    if (shown.deciding !== null) return; // a double click decides once
    node.closest(".card").focus(); // the form goes away, the reader stays
    onDecide(shown.interruptId, approved, { message: message.value.trim(), argumentsHash: shown.argumentsHash });
  }

  return {
    node,
    update(call) {
      shown = call.approval;
      const busy = shown.deciding !== null;
      const until = shown.deadline ? ` It is rejected by itself at ${clock(shown.deadline, Date.now())}.` : "";
      const blocked = shown.blocked ? ` This deployment can't run it (${shown.blocked}): reject it, or deploy it again.` : "";
      setText(question, busy ? (shown.deciding ? "Approving…" : "Rejecting…") : `May ${call.name} run?${until}${blocked}`);
      setAttribute(node, "aria-label", `Approval of ${call.name}`);
      for (const control of [reject, message]) control.disabled = busy;
      approve.disabled = busy || shown.blocked !== null;
    },
  };
}
