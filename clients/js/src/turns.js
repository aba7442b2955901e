// Which turn runs, what is asked of a person, and what of it an action has to name. Pure.

/** Whether an event is part of the snapshot that the state holds. Without a `version` its `sequence` tells. */
export function isInSnapshot(state, { sequence, version }) {
  if (version !== undefined) return version <= (state.snapshot?.state?.version ?? 0);
  return sequence !== undefined && sequence <= state.asOf;
}

function startedIn(state, turn) {
  return isInSnapshot(state, { sequence: turn.startedSequence, version: turn.startedVersion });
}

/** Whether a turn is known to have begun behind the snapshot. */
export function isNewer(state, turn) {
  return turn?.startedSequence !== undefined && !startedIn(state, turn);
}

/** Return the running turn, or null: events that came after the snapshot win over it. */
export function runningTurn(state) {
  const turns = Object.values(state.turns);
  const latest = turns.at(-1);
  if (latest && !latest.endedAt && isNewer(state, latest)) return latest;
  const turnId = state.snapshot?.state?.turn_id;
  if (!turnId || state.turns[turnId]?.endedAt) return null;
  const status = state.snapshot.state.stopping ? "stopping" : "running";
  const known = state.turns[turnId];
  return known ? { ...known, status: status === "stopping" ? status : known.status } : { turnId, status, steps: [] };
}

/** Return the interrupts that wait for a person; one that is decided is not offered again (field case F045). */
export function openInterrupts(state) {
  const pending = state.snapshot?.pending_interrupts ?? [];
  return pending.filter(({ interrupt_id: id }) => !state.decisions[id]);
}

/** Return the id of the one question that is open, if a text can answer it (field case F064); else null. */
export function openQuestion(state) {
  const open = openInterrupts(state).filter(
    ({ kind, interrupt_id: id }) => kind === "question" && state.deciding[id] === undefined,
  );
  return open.length === 1 && open[0].allows_free_text !== false ? open[0].interrupt_id : null;
}

/**
 * Return how far the screen has come, for a stop to cut at (spec STOP-05): the cursor of the last event that was taken.
 *
 * A snapshot that is ahead of the events may show more; then it is null, because nothing that was seen may be cut.
 */
export function frontierOf(state, turn) {
  if (turn?.startedSequence === undefined) return null;
  const shown = state.messages.filter(({ turn_id: id, role }) => id === turn.turnId && role === "assistant").length;
  const ended = turn.steps.filter((id) => state.steps[id]?.kind === "model" && state.steps[id].endedAt).length;
  return shown > ended ? null : state.cursor;
}
