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
  if (isStopping(state, turn) || statusOf(state, turn) !== "running_model") return null;
  const model = openSteps(state, turn).find((step) => step.kind === "model");
  if (!model) return turn.steps.length ? "thinking" : "starting";
  if (model.status !== "running") return "starting";
  return model.retry || state.partials[model.stepId]?.text ? null : "thinking";
}

/** Whether a turn is being stopped, or will be by this page's own command. */
export function isStopping(state, turn) {
  return turn !== null && (turn.status === "stopping" || state.stopping?.turnId === turn.turnId);
}

/** Whether the gate is closed, or will be by this page's own command. */
export function isPaused(state) {
  return state.doing.gate?.paused ?? Boolean(state.snapshot?.state?.paused);
}

/** Return what a session waits for besides the provider: people and times. An application's requests need no turn. */
export function waitingOf(state, turn) {
  const waiting = state.snapshot?.state?.waiting_for ?? [];
  const open = waiting.filter((item) => item.kind !== "retry" && !state.decisions[item.id]);
  return turn ? open : open.filter(({ kind }) => kind === "input");
}

/** Return what a turn is doing, for one line of text. */
export function activityOf(state, turn) {
  if (!turn) return { kind: "idle" };
  if (isStopping(state, turn)) return { kind: "stopping" };
  const open = openSteps(state, turn);
  const model = open.find((step) => step.kind === "model");
  const retry = retryOf(state, model);
  if (retry) return retry;
  const told = state.snapshot?.state;
  if (told?.steering && told.turn_id === turn.turnId) return { kind: "steering" };
  const tools = open.filter((step) => step.kind === "tool" && step.status === "running").map((step) => step.name);
  if (tools.length) return { kind: "tools", names: tools };
  if (waitingOf(state, turn).some(({ kind }) => kind !== "input")) return { kind: "waiting" };
  if (isPaused(state) && model?.status !== "running") return { kind: "paused" };
  const partial = model && state.partials[model.stepId];
  return { kind: partial?.text ? "writing" : "thinking", attempt: model?.attempt ?? 1 };
}

// A wait for the provider: a short one is an event only and runs its course, a long one (`skippable`) nobody holds.
function retryOf(state, model) {
  if (model && !model.retry && model.status === "running") return null;
  const long = (state.snapshot?.state?.waiting_for ?? []).find((item) => item.kind === "retry");
  const { reason = null, retry_in_ms: inMs, at } = model?.retry ?? {};
  if (long) return { kind: "retry", reason, until: long.until, skippable: true };
  if (!model?.retry) return null;
  return { kind: "retry", reason, until: new Date(Date.parse(at) + inMs).toISOString(), skippable: false };
}

function openSteps(state, turn) {
  return turn.steps.map((id) => state.steps[id]).filter((step) => step && !step.endedAt);
}

/** Whether the latest turn has failed. Events that came after the snapshot win over it. */
export function hasFailed(state) {
  const latest = Object.values(state.turns).at(-1);
  if (latest?.endedAt) return latest.status === "failed";
  return Boolean(state.snapshot?.state?.last_turn_error);
}
