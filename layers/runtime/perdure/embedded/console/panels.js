// Draws the session list and the timeline.

import { el, reconcile, setAttribute, setText, show } from "./dom.js";
import { countdown } from "./countdown.js";
import { between, clock, duration, tone, words } from "./format.js";
import { waitingBadge } from "./wording.js";

/** Return a function that draws the rows of the session list, `current` marked. */
export function sessionList(parent) {
  const create = () => {
    const preview = el("span", { class: "preview", dir: "auto" });
    const badge = el("span", { class: "badge" });
    const left = countdown({ role: null, class: "facts" });
    const name = el("span", { class: "session-name" });
    const when = el("time", {});
    const state = el("span", { class: "row state" }, badge, left.node);
    const link = el("a", {}, preview, el("span", { class: "row" }, name, when), state);
    return {
      node: el("li", {}, link),
      update(row) {
        setAttribute(link, "href", `#${encodeURIComponent(row.key)}`);
        setAttribute(link, "aria-current", row.current ? "page" : null);
        setText(preview, row.preview || "(no text)");
        setText(name, row.key);
        setText(badge, row.badge?.text ?? "");
        setAttribute(badge, "data-tone", row.badge?.tone ?? null);
        left.until(row.badge?.until ?? null);
        show(state, row.badge !== null);
        setText(when, row.at ? clock(row.at, Date.now()) : "");
        setAttribute(when, "datetime", row.at);
      },
    };
  };
  return (summaries, current) => {
    const rows = summaries.map((summary) => ({
      key: summary.session_id,
      preview: summary.preview ?? "",
      badge: badgeOf(summary),
      at: summary.last_activity_at ?? null,
      current: summary.session_id === current,
    }));
    reconcile(parent, rows, create);
  };
}

function badgeOf(summary) {
  const waits = waitingBadge(summary.waiting_for ?? []);
  if (waits) return waits;
  const runs = summary.status && summary.status !== "waiting_for_user_message";
  return runs ? { text: words("running"), tone: tone("running") } : null;
}

/** Return a function that draws the turns; `now` in milliseconds gives running steps their duration. */
export function timeline(parent) {
  return (turns, now) => {
    const shown = turns.map((turn) => ({ ...turn, facts: turnFacts(turn, now), steps: turn.steps.map(stepOf(now)) }));
    reconcile(parent, shown, turnNode);
  };
}

function turnNode() {
  const title = el("h3", {});
  const badge = el("span", { class: "badge" });
  const facts = el("p", { class: "facts" });
  const steps = el("ol", { class: "steps" });
  return {
    node: el("li", { class: "turn" }, el("div", { class: "row" }, title, badge), facts, steps),
    update(turn) {
      setText(title, turn.key.replace("-", " "));
      setText(badge, words(turn.status));
      setAttribute(badge, "data-tone", tone(turn.status));
      setText(facts, turn.facts);
      reconcile(steps, turn.steps, stepNode);
    },
  };
}

function stepNode() {
  const name = el("span", { class: "step-name" });
  const badge = el("span", { class: "badge" });
  const facts = el("p", { class: "facts" });
  const node = el("li", { class: "step" }, el("div", { class: "row" }, name, badge), facts);
  return {
    node,
    update(step) {
      setAttribute(node, "data-kind", step.kind);
      setAttribute(node, "data-tone", tone(step.status));
      setText(name, step.name);
      setText(badge, words(step.status));
      setAttribute(badge, "data-tone", tone(step.status));
      setText(facts, step.facts);
    },
  };
}

// A line breaks behind a dot, never before it.
function inLine(facts) {
  return facts.join("\u00a0· ");
}

function turnFacts(turn, now) {
  if (!turn.startedAt) return "";
  const parts = [clock(turn.startedAt, now)];
  if (turn.retryOf) parts.unshift(`retry of ${turn.retryOf.replace("-", " ")}`);
  if (turn.endedAt) parts.push(duration(between(turn.startedAt, turn.endedAt, now)));
  return inLine(parts);
}

function stepOf(now) {
  return (step) => ({ key: step.key, kind: step.kind, name: step.name, status: step.status, facts: factsOf(step, now) });
}

function factsOf(step, now) {
  const facts = [];
  if (step.askedAt) {
    const waited = duration(between(step.askedAt, step.decidedAt, now));
    facts.push(step.decidedAt ? `${step.asks ? "answered" : "decided"} after ${waited}` : `asked ${clock(step.askedAt, now)}`);
  }
  if (step.startedAt) {
    facts.push(clock(step.startedAt, now));
    facts.push(duration(between(step.startedAt, step.endedAt, now)));
  }
  if (step.looks === null) facts.push(`attempt ${step.attempt}`);
  else facts.push(step.looks === 1 ? "looked once" : `looked ${step.looks} times`);
  if (step.recorded.length) facts.push(`did ${step.recorded.join(", ")}`);
  if (step.reconnects) facts.push(`${step.reconnects} ${step.reconnects === 1 ? "reconnect" : "reconnects"}`);
  if (step.resets) facts.push(`${step.resets} ${step.resets === 1 ? "reset" : "resets"}`);
  if (step.tokens) facts.push(`${step.tokens.read ?? "?"} in, ${step.tokens.written ?? "?"} out`);
  return inLine(facts);
}
