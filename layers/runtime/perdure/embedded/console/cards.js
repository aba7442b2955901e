// Draws a tool call: what it is given, what it waits for, what it did on its way, what came of it.

import { approvalForm, changeList } from "./approval.js";
import { codeBlock } from "./codeblock.js";
import { el, reconcile, setAttribute, setText, show } from "./dom.js";
import { clock, effectWords, tone, words } from "./format.js";
import { pretty, resultNode } from "./outputs.js";
import { questionForm } from "./question.js";
import { waitCard } from "./wait.js";

const SHORT = 72; // characters

const RECORDS = {
  step: ({ name }) => `did “${name}”`,
  sleep: ({ name, until }, now) => `waits: ${name}${until ? `, until ${clock(until, now)}` : ""}`,
  awaits: ({ name, until }, now) => `waits for “${name}”${until ? `, until ${clock(until, now)}` : ""}`,
  arrived: ({ name }) => `“${name}” came`,
  skipped: ({ by }) => `wait cut short${by ? ` by ${by}` : ""}`,
  changed: ({ by, until }, now) => `time moved${until ? ` to ${clock(until, now)}` : ""}${by ? ` by ${by}` : ""}`,
  cancelled: ({ by }) => `cancelled${by ? ` by ${by}` : ""}`,
  stopped: () => "the work elsewhere was asked to stop",
  not_stopped: () => "the work elsewhere could not be asked to stop",
};

/** Draw a tool call; `on` as in `transcript`. */
export function cardNode(on) {
  const name = el("h3", {});
  const effect = el("span", { class: "effect" });
  const badge = el("span", { class: "badge" });
  const given = codeBlock({ label: "Arguments" });
  const changes = changeList("What was changed");
  const asked = codeBlock({ label: "Requested arguments" });
  const requested = el("details", { class: "fold" }, el("summary", {}, "Requested arguments"), asked.node);
  const questions = el("ul", { class: "asked", "aria-label": "Questions" });
  const records = el("ol", { class: "records", "aria-label": "What it did so far" });
  const sofar = codeBlock({ label: "What it has so far" });
  const early = el("div", { class: "slot" }, el("p", { class: "facts" }, "So far; the agent does not see this:"), sofar.node);
  const result = resultNode(on.onOutput);
  const note = el("p", { class: "note" });
  const slots = [slot(() => approvalForm(on)), slot(() => questionForm(on)), slot(() => waitCard(on))];
  const [approval, question, wait] = slots;
  const head = el("div", { class: "card-head" }, name, effect, badge);
  const parts = [head, given.node, changes.node, requested, questions, records, early, ...slots.map(({ node }) => node), result.node, note];
  const node = el("div", { class: "card", role: "group", tabindex: "-1" }, ...parts);
  return {
    node,
    update(call) {
      setText(name, call.name);
      setAttribute(node, "aria-label", `Tool call ${call.name}`);
      setAttribute(node, "data-call", call.key);
      setText(effect, call.effect ? effectWords(call.effect) : "");
      setText(badge, words(call.status));
      setAttribute(badge, "data-tone", tone(call.status));
      given.update(onOneLine(call.arguments));
      show(given.node, call.arguments !== null && call.arguments !== "{}");
      changes.update(call.changes);
      asked.update(onOneLine(call.requested));
      show(requested, call.requested !== null);
      reconcile(questions, call.questions, askedNode);
      show(questions, call.questions.length > 0);
      reconcile(records, call.records, recordNode);
      show(records, call.records.length > 0);
      sofar.update(call.sofar === null ? "" : pretty(call.sofar));
      show(early, call.sofar !== null);
      result.update(call);
      approval.update(call.approval && { key: call.approval.interruptId, name: call.name, approval: call.approval });
      question.update(call.question);
      wait.update(call.wait && { key: call.key, name: call.name, looks: call.looks, wait: call.wait });
      const told = notesOf(call);
      setText(note, told.join(" · "));
      show(note, told.length > 0);
    },
  };
}

// What is short enough is read at a glance.
function onOneLine(json) {
  if (json === null || json.length > SHORT * 2 || !json.startsWith("{\n")) return json;
  const line = json.replace(/\n\s*/g, " ");
  return line.length > SHORT ? json : line;
}

// What is there only while there is something to do.
function slot(create) {
  const node = el("div", { class: "slot" });
  return {
    node,
    update(item) {
      reconcile(node, item ? [item] : [], create);
      show(node, Boolean(item));
    },
  };
}

function askedNode() {
  const question = el("p", { class: "asked-question", dir: "auto" });
  const answer = el("p", { class: "text", dir: "auto" });
  const by = el("p", { class: "note" });
  return {
    node: el("li", {}, question, answer, by),
    update(item) {
      setText(question, item.question);
      setText(answer, item.answer ?? "");
      show(answer, item.answer !== null);
      const said = item.message ? `: “${item.message}”` : "";
      setText(by, `${words(item.outcome)}${item.by ? ` by ${item.by}` : ""}${said}`);
    },
  };
}

function recordNode() {
  const what = el("span", { dir: "auto" });
  const when = el("time", {});
  return {
    node: el("li", {}, what, " ", when),
    update(record) {
      const now = Date.now();
      setText(what, RECORDS[record.kind](record, now));
      setText(when, clock(record.at, now));
      setAttribute(when, "datetime", record.at);
    },
  };
}

function notesOf(call) {
  const progress = call.progress && (call.progress.message ?? call.progress.text);
  const { decision } = call;
  const spoken = decision?.message ?? decision?.rejection_message;
  const said = spoken ? `: “${spoken}”` : "";
  const by = decision?.actor?.subject ? ` by ${decision.actor.subject}` : "";
  const other = call.requested === null ? "" : " with other arguments";
  const looked = call.looks === 1 ? "looked once" : `looked ${call.looks} times`;
  return [
    progress && String(progress),
    decision && decision.approved === true && `approved${other}${by}${said}`,
    decision && decision.approved === false && `rejected${by}${said}`,
    call.ahead && "approved ahead",
    !decision && call.cancellationReason && words(call.cancellationReason),
    call.looks && !call.wait && looked,
    call.attempt > 1 && `attempt ${call.attempt}`,
  ].filter(Boolean);
}
