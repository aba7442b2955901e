// The graph of a run, as places and lines: admitted, then model and tools in turns, then how it ended. Pure.
//
// Steps that a model asked for side by side stand under one another. A long run shows its beginning and its end.

import { tone, words } from "./format.js";

const MOST_COLUMNS = 9;
const MOST_ROWS = 3;
const OPEN = new Set(["waiting", "running", "approved", "stopping", "waiting_to_retry"]);

/** Return `{ columns, label }`: each column `{ key, nodes }`, each node `{ key, kind, name, tone, status, current }`. */
export function graphOf(turn) {
  const columns = squeezed([admitted(turn), ...stepColumns(turn), ...ending(turn)]);
  return { columns, label: labelOf(columns) };
}

function admitted(turn) {
  const current = !turn.endedAt && turn.steps.length === 0;
  return column([{ key: "admitted", kind: "edge", name: "admitted", status: "completed", tone: "good", current }]);
}

function stepColumns(turn) {
  const columns = [];
  for (const step of turn.steps) {
    const node = nodeOf(step, turn);
    const last = columns.at(-1);
    if (step.kind === "tool" && last?.tools) last.nodes.push(node);
    else columns.push({ key: step.key, tools: step.kind === "tool", nodes: [node] });
  }
  return columns.map(({ nodes }) => column(nodes));
}

function nodeOf(step, turn) {
  const status = step.retry ? "waiting_to_retry" : step.status;
  const asks = status.startsWith("awaiting_");
  const waits = status.startsWith("waiting_for_") || status === "waiting_to_retry";
  const open = !step.endedAt && !turn.endedAt && (asks || waits || OPEN.has(status));
  const kind = asks ? "ask" : waits ? "wait" : step.kind;
  return { key: step.key, kind, name: step.name, status, tone: waits ? "busy" : tone(status), current: open };
}

function ending(turn) {
  if (!turn.endedAt) return [column([{ key: "end", kind: "edge", name: "answer", status: "open", tone: "open", current: false }])];
  const name = turn.status === "completed" ? "answered" : words(turn.status);
  const ended = turn.status === "completed" ? "good" : tone(turn.status);
  return [column([{ key: "end", kind: "edge", name, status: turn.status, tone: ended, current: false, last: true }])];
}

function column(nodes) {
  const more = nodes.length - MOST_ROWS;
  if (more <= 0) return { key: nodes[0].key, nodes };
  // What is open comes first: it is what somebody looks for.
  const ordered = nodes.toSorted((one, other) => Number(other.current) - Number(one.current));
  const hidden = ordered.slice(MOST_ROWS - 1);
  const rest = { key: `${nodes[0].key}/more`, kind: "more", name: `+${hidden.length}`, status: "", tone: "quiet", current: hidden.some(({ current }) => current) };
  return { key: nodes[0].key, nodes: [...ordered.slice(0, MOST_ROWS - 1), rest] };
}

function squeezed(columns) {
  const more = columns.length - MOST_COLUMNS;
  if (more <= 0) return columns;
  const hidden = columns.slice(2, 3 + more);
  const count = hidden.reduce((sum, { nodes }) => sum + nodes.length, 0);
  const gap = { key: "gap", nodes: [{ key: "gap", kind: "more", name: `${count} steps`, status: "", tone: "quiet", current: false }] };
  return [...columns.slice(0, 2), gap, ...columns.slice(3 + more)];
}

function labelOf(columns) {
  const told = columns.flatMap(({ nodes }) => nodes.map(({ name, status, current }) => {
    const state = status && status !== "open" && name !== words(status) && name !== "admitted" && name !== "answered" ? ` ${words(status)}` : "";
    return `${name}${state}${current ? " (now)" : ""}`;
  }));
  return `Run: ${told.join(", then ")}`;
}
