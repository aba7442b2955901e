// The timeline: what happened in each turn, step and attempt, told by the events. Pure.
//
// It is made anew from the events of the turns that are shown. Durable and live events may tell one fact twice: a
// durable one wins, and counts are kept per attempt and source.

import { foldStep, newStep, stepIdOf } from "./story_steps.js";

const ENDS = {
  turn_completed: "completed",
  turn_failed: "failed",
  turn_cancelled: "cancelled",
  turn_steered: "steered",
};

/**
 * Return the turns of some events, oldest first: `{ key, status, startedAt, endedAt, retryOf, usage, error, commits,
 * moments, steps }`. What belongs to no turn is left out.
 */
export function storyOf(events) {
  const turns = new Map();
  const owners = new Map(); // step or call id -> turn id, for events that name no turn
  for (const event of events) {
    const id = event.turn_id ?? owners.get(stepIdOf(event)) ?? null;
    if (id === null) continue;
    if (!turns.has(id)) turns.set(id, newTurn(id));
    takeEvent(turns.get(id), event, owners);
  }
  return [...turns.values()].map((turn) => ({ ...turn, commits: [...turn.commits], steps: [...turn.steps.values()] }));
}

function newTurn(key) {
  return {
    key,
    status: "running",
    startedAt: null,
    endedAt: null,
    retryOf: null,
    usage: null,
    error: null,
    commits: new Set(),
    moments: [],
    steps: new Map(),
  };
}

function takeEvent(turn, event, owners) {
  const { type, payload = {}, at } = event;
  if (event.version !== undefined) turn.commits.add(event.version);
  const stepId = stepIdOf(event);
  if (stepId === null) {
    if (event.sequence !== undefined) turn.moments.push(event);
    if (type === "turn_started") {
      turn.startedAt = at;
      turn.retryOf = payload.retry_of ?? null;
    } else if (type === "turn_stopping") turn.status = "stopping";
    else if (ENDS[type]) {
      turn.status = ENDS[type];
      turn.endedAt = at;
      turn.usage = payload.usage ?? null;
      turn.error = payload.error ?? null;
    }
    return;
  }
  owners.set(stepId, turn.key);
  if (!turn.steps.has(stepId)) turn.steps.set(stepId, newStep(stepId, event));
  foldStep(turn.steps.get(stepId), event);
}

/** Return what a turn used as far as its steps tell, for one that still runs: `{ input, output, calls }`. */
export function usedSoFar(turn) {
  const used = turn.steps.flatMap((step) => step.attempts).flatMap(({ usage }) => (usage ? [usage] : []));
  const sum = (name) => {
    const told = used.map((usage) => usage[name]?.value).filter((value) => value !== undefined);
    return told.length ? { value: told.reduce((one, other) => one + other, 0), partial: told.length < used.length } : {};
  };
  return { input_tokens: sum("input_tokens"), output_tokens: sum("output_tokens"), cached_input_tokens: sum("cached_input_tokens") };
}
