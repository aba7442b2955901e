// Draws the timeline: turns with their graph, steps with their bars, and what happened in each, commit by commit.

import { el, reconcile, setAttribute, setText, show } from "./dom.js";
import { attemptFacts, barsOf, stepFacts, turnCost, turnFacts } from "./facts.js";
import { preciseClock, tone, words } from "./format.js";
import { graphOf } from "./graph.js";
import { graphView } from "./graph_view.js";
import { momentOf, toneOf } from "./moments.js";

/**
 * Return a function that draws turns, the newest first; `now` in milliseconds gives running steps their duration.
 *
 * `onEvents(text)` shows the raw events of a step.
 */
export function timelineView(parent, { onEvents }) {
  return (turns, now) => {
    const newest = turns[0]?.key;
    const rows = turns.map((turn) => rowOf(turn, now, turn.key === newest));
    reconcile(parent, rows, () => turnNode(onEvents));
  };
}

function rowOf(turn, now, newest) {
  return {
    key: turn.key,
    newest,
    status: statusOf(turn),
    facts: turnFacts(turn, now),
    cost: turnCost(turn),
    error: turn.error ? `${words(turn.error.code)}: ${turn.error.message}` : "",
    graph: graphOf(turn),
    steps: turn.steps.map((step) => ({
      key: step.key,
      kind: step.kind,
      name: step.name,
      status: step.retry && !step.endedAt ? "waiting_to_retry" : step.status,
      facts: stepFacts(step, now),
      attempts: attemptFacts(step, now),
      bars: barsOf(step, turn, now).map(({ from, to, tone: of }) => ({ from: Math.round(from * 1000) / 10, to: Math.round(to * 1000) / 10, tone: of })),
      moments: momentsOf(step.moments),
    })),
    moments: momentsOf(turn.moments),
  };
}

// Of a turn that runs it is said when it waits: for a person first.
function statusOf(turn) {
  if (turn.status !== "running") return turn.status;
  const open = turn.steps.filter(({ endedAt }) => !endedAt).map(({ status, retry }) => (retry ? "waiting_to_retry" : status));
  if (open.includes("running")) return turn.status;
  return open.find((status) => status.startsWith("awaiting_")) ?? open.find((status) => status.startsWith("waiting_")) ?? turn.status;
}

// A commit is named at its first moment.
function momentsOf(events) {
  let version = null;
  return events.map((event, index) => {
    const commit = event.version !== undefined && event.version !== version ? event.version : null;
    version = event.version ?? version;
    return { key: event.sequence ?? `live-${index}`, sequence: event.sequence ?? null, commit, at: preciseClock(event.at), text: momentOf(event), tone: toneOf(event) };
  });
}

function turnNode(onEvents) {
  const title = el("h3", {});
  const badge = el("span", { class: "badge" });
  const facts = el("p", { class: "facts" });
  const cost = el("p", { class: "facts" });
  const error = el("p", { class: "problem", dir: "auto" });
  const graph = graphView();
  const steps = el("ol", { class: "steps" });
  const moments = el("ol", { class: "moments" });
  const story = el("details", { class: "fold turn-story" }, el("summary", {}, "The turn itself"), moments);
  const body = el("details", { class: "turn-body" }, el("summary", {}, el("span", { class: "row" }, title, badge)), facts, cost, error, graph.node, steps, story);
  const node = el("li", { class: "turn" }, body);
  let opened = false;
  return {
    node,
    update(turn) {
      if (!opened && turn.newest) {
        opened = true; // it stays as the reader leaves it
        body.open = true;
      }
      setText(title, turn.key.replace("-", " "));
      setText(badge, words(turn.status));
      setAttribute(badge, "data-tone", tone(turn.status));
      setText(facts, turn.facts);
      setText(cost, turn.cost);
      show(cost, turn.cost !== "");
      setText(error, turn.error);
      show(error, turn.error !== "");
      graph.update(turn.graph);
      reconcile(steps, turn.steps, () => stepNode(onEvents));
      reconcile(moments, turn.moments, momentNode);
      show(story, turn.moments.length > 0);
    },
  };
}

function stepNode(onEvents) {
  let shown = null;
  const name = el("span", { class: "step-name" });
  const badge = el("span", { class: "badge" });
  const facts = el("span", { class: "facts" });
  const bars = el("span", { class: "bars", "aria-hidden": "true" });
  const attempts = el("ul", { class: "attempts", "aria-label": "Attempts" });
  const moments = el("ol", { class: "moments" });
  const raw = el("button", { type: "button", class: "link", onclick: () => onEvents(shown.key) }, "Raw events of this step");
  const summary = el("summary", {}, el("span", { class: "row" }, name, badge), facts, bars);
  const node = el("li", { class: "step" }, el("details", {}, summary, attempts, moments, raw));
  return {
    node,
    update(step) {
      shown = step;
      setAttribute(node, "data-kind", step.kind);
      setAttribute(node, "data-tone", tone(step.status));
      setText(name, step.name);
      setText(badge, words(step.status));
      setAttribute(badge, "data-tone", tone(step.status));
      setText(facts, step.facts);
      reconcile(bars, step.bars.map((bar, index) => ({ key: index, ...bar })), barNode);
      show(bars, step.bars.length > 0);
      reconcile(attempts, step.attempts, attemptNode);
      show(attempts, step.attempts.length > 0);
      reconcile(moments, step.moments, momentNode);
    },
  };
}

function barNode() {
  const node = el("span", { class: "bar-part" });
  return {
    node,
    update({ from, to, tone: of }) {
      setAttribute(node, "data-tone", of);
      node.style.left = `${from}%`;
      node.style.width = `${Math.max(0, to - from)}%`;
    },
  };
}

function attemptNode() {
  const badge = el("span", { class: "badge" });
  const text = el("span", {});
  return {
    node: el("li", { class: "facts" }, badge, " ", text),
    update(attempt) {
      setText(badge, words(attempt.status));
      setAttribute(badge, "data-tone", tone(attempt.status));
      setText(text, attempt.text);
    },
  };
}

function momentNode() {
  const when = el("time", {});
  const text = el("span", { class: "moment-text", dir: "auto" });
  const place = el("span", { class: "moment-place" });
  const node = el("li", { class: "moment" }, when, text, place);
  return {
    node,
    update(moment) {
      setAttribute(node, "data-tone", moment.tone);
      setText(when, moment.at);
      setText(text, moment.text);
      setText(place, moment.sequence === null ? "live" : `#${moment.sequence}`);
      setAttribute(node, "data-commit", moment.commit === null ? null : `commit ${moment.commit}`);
    },
  };
}
