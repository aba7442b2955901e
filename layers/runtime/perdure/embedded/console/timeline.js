// The timeline: turns and their steps, derived from durable events (live ones come a little earlier). Pure.

import { total } from "../client/events.js";

/** How many turns the timeline shows. */
export const TURNS_SHOWN = 50;

/** Return the newest turns, newest first, each with its steps in the order in which they became known. */
export function timelineOf(state) {
  return Object.values(state.turns)
    .slice(-TURNS_SHOWN)
    .map((turn) => ({
      key: turn.turnId,
      status: state.stopping?.turnId === turn.turnId && !turn.endedAt ? "stopping" : turn.status,
      startedAt: turn.startedAt ?? null,
      endedAt: turn.endedAt ?? null,
      retryOf: turn.retryOf ?? null,
      steps: turn.steps.map((id) => state.steps[id]).filter(Boolean).map((step) => rowOf(state, step)),
    }))
    .reverse();
}

function rowOf(state, step) {
  const decision = state.decisions[step.stepId];
  const call = state.calls[step.stepId] ?? {};
  const answered = (call.questions ?? []).map(({ key }) => state.decisions[key]).findLast(Boolean);
  const waits = Boolean(call.task || call.records || call.questions); // then each run is an attempt of its own
  const startedAt = (waits && step.firstStartedAt) || step.startedAt || null;
  return {
    key: step.stepId,
    kind: step.kind,
    name: step.kind === "model" ? "model" : (step.name ?? "tool"),
    status: step.retry && !step.endedAt ? "waiting_to_retry" : step.status,
    attempt: step.attempt,
    startedAt,
    endedAt: startedAt ? (step.endedAt ?? null) : null,
    looks: call.task?.looks ?? null,
    recorded: (call.records ?? []).filter(({ kind }) => kind === "step").map(({ name }) => name),
    reconnects: total(step.reconnects),
    resets: total(step.resets),
    asks: Boolean(call.questions),
    askedAt: call.askedAt ?? null,
    decidedAt: (decision ?? answered)?.at ?? null,
    tokens: tokensOf(step.usage),
  };
}

function tokensOf(usage) {
  const read = usage?.input_tokens?.value;
  const written = usage?.output_tokens?.value;
  return read === undefined && written === undefined ? null : { read: read ?? null, written: written ?? null };
}
