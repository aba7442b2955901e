// A session's status and indicator, derived for the page (spec SESS-03): the server knows neither. Pure.

/** Return the server's word for what a session does, or `failed` while its latest turn has failed and none runs. */
export function statusOf(state, turn) {
  if (!turn) return hasFailed(state) ? "failed" : "waiting_for_user_message";
  const open = openSteps(state, turn);
  if (open.some((step) => step.kind === "model")) return "running_model";
  if (open.length) return "running_tools";
  const told = state.snapshot?.state;
  return !turn.steps.length && told?.turn_id === turn.turnId ? told.status : "running_model";
}

/** Return `starting` until a model has begun, `thinking` until its text comes, and null when there is something to see. */
export function indicatorOf(state, turn) {
  if (!turn) return state.outbox.some((item) => !item.problem) ? "starting" : null;
  const stopping = turn.status === "stopping" || state.stopping?.turnId === turn.turnId;
  if (stopping || statusOf(state, turn) !== "running_model") return null;
  const model = openSteps(state, turn).find((step) => step.kind === "model");
  if (!model) return turn.steps.length ? "thinking" : "starting";
  if (model.status !== "running") return "starting";
  return model.retry || state.partials[model.stepId]?.text ? null : "thinking";
}

function openSteps(state, turn) {
  return turn.steps.map((id) => state.steps[id]).filter((step) => step && !step.endedAt);
}

// Events that came after the snapshot win over it.
function hasFailed(state) {
  const latest = Object.values(state.turns).at(-1);
  if (latest?.endedAt) return latest.status === "failed";
  return Boolean(state.snapshot?.state?.last_turn_error);
}
