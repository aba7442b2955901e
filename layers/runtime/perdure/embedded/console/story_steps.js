// One step of the timeline, told by its events: attempts, retries, what was asked, what was waited for. Pure.

const WAITS = { timer_started: "timer", "tool.awaits_event": "event", tool_task_started: "task", "task.reconciling": "task" };
const WAIT_ENDS = new Set(["wait.skipped", "wait.cancelled", "tool.event_arrived", "tool_call_started", "tool_call_finished"]);

/** Return the id of the step that an event is about: a call is a step of its own; null: the turn itself. */
export function stepIdOf({ step_execution_id: step, payload = {} }) {
  return payload.tool_call_id ?? step ?? payload.wait_id ?? (payload.kind === "input" ? null : payload.interrupt_id) ?? null;
}

/** Return a step of which nothing has been told yet. */
export function newStep(key, event) {
  const isTool = Boolean(event.payload?.tool_call_id);
  return {
    key,
    kind: isTool ? "tool" : "model",
    name: isTool ? (event.payload.tool_name ?? "tool") : "model",
    effect: null,
    requiresApproval: false,
    status: "waiting",
    attempt: 1,
    startedAt: null,
    endedAt: null,
    attempts: [],
    asks: [], // { id, kind, at, deadline, decidedAt, by, approved, answered }
    waits: [], // { kind, at, until, endedAt }
    retry: null, // { until, reason } while the provider is to be called again
    looks: 0,
    did: [],
    reason: null,
    moments: [],
  };
}

/** Take one event into its step. Changes the step. */
export function foldStep(step, event) {
  const { type, payload = {}, at } = event;
  if (event.sequence !== undefined || type === "model_retry_scheduled") remember(step, event);
  if (WAIT_ENDS.has(type)) endWaits(step, at);
  if (WAITS[type] && !step.waits.some((wait) => wait.at === at)) {
    step.waits.push({ kind: WAITS[type], at, until: payload.until ?? null, endedAt: null });
    if (!step.endedAt) step.status = `waiting_for_${WAITS[type]}`;
  }
  FOLDS[type]?.(step, payload, event);
}

const FOLDS = {
  model_started: start,
  tool_call_started: start,
  text_delta: run,
  reasoning_delta: run,
  tool_call_deferred(step, { tool_name: name, effect, requires_approval: asks }) {
    Object.assign(step, { kind: "tool", name, effect, requiresApproval: asks, status: asks ? "awaiting_approval" : "approved" });
  },
  model_finished: end,
  tool_call_finished(step, payload, event) {
    step.name = payload.tool_name ?? step.name;
    step.reason = payload.cancellation_reason ?? null;
    end(step, payload, event);
  },
  model_retry_scheduled(step, payload, event) {
    const tries = attemptOf(step, event).retries;
    count(tries, event, { at: event.at, inMs: payload.retry_in_ms, reason: payload.reason });
    if (!step.endedAt) step.retry = { until: new Date(Date.parse(event.at) + payload.retry_in_ms).toISOString(), reason: payload.reason };
  },
  attempt_reset(step, payload, event) {
    count(attemptOf(step, event).resets, event, { at: event.at, reason: payload.reason });
  },
  usage_recorded(step, { recorded }, event) {
    attemptOf(step, event).usage = recorded;
  },
  interrupt_raised(step, { interrupt_id: id, kind, deadline }, { at }) {
    if (!step.asks.some((ask) => ask.id === id)) step.asks.push({ id, kind, at, deadline: deadline ?? null, decidedAt: null });
    step.status = kind === "approval" ? "awaiting_approval" : "awaiting_answer";
  },
  interrupt_resolved(step, { interrupt_id: id, approved, answered, actor, cancellation_reason: why }, { at }) {
    const ask = step.asks.find((other) => other.id === id);
    const told = { decidedAt: at, by: actor ?? null, approved: approved ?? null, answered: answered ?? null, withdrawn: Boolean(why) };
    if (ask) Object.assign(ask, told);
    if ((approved || answered) && step.status.startsWith("awaiting_")) step.status = "approved";
  },
  "approval.by_grant"(step) {
    step.status = "approved";
  },
  "task.looked"(step) {
    step.looks += 1;
  },
  "tool.step_recorded"(step, { name }) {
    if (!step.did.includes(name)) step.did.push(name);
  },
};

function start(step, payload, event) {
  const attempt = attemptOf(step, event);
  attempt.startedAt = event.at;
  step.name = payload.tool_name ?? step.name;
  step.retry = null;
  if (attempt.number < step.attempt) return;
  step.attempt = attempt.number;
  step.startedAt ??= event.at;
  if (step.startedAt > event.at) step.startedAt = event.at;
  if (!attempt.endedAt) Object.assign(step, { status: "running", endedAt: null });
}

function run(step) {
  step.retry = null;
  if (!step.endedAt) step.status = "running";
}

function end(step, { status }, event) {
  const attempt = attemptOf(step, event);
  Object.assign(attempt, { endedAt: event.at, status });
  Object.assign(step, { endedAt: event.at, status, retry: null, attempt: Math.max(step.attempt, attempt.number) });
}

function attemptOf(step, event) {
  const number = event.step_execution_id === step.key || step.kind === "model" ? (event.attempt ?? step.attempt) : step.attempt;
  let attempt = step.attempts.find((other) => other.number === number);
  if (!attempt) {
    attempt = { number, startedAt: null, endedAt: null, status: null, usage: null, retries: counts(), resets: counts() };
    step.attempts.push(attempt);
  }
  return attempt;
}

function counts() {
  return { live: [], durable: [] };
}

function count(told, event, what) {
  told[event.sequence === undefined ? "live" : "durable"].push(what);
}

/** How often something happened: what was seen live is told again by the durable record. */
export function times({ live, durable }) {
  return Math.max(live.length, durable.length);
}

function endWaits(step, at) {
  for (const wait of step.waits) if (!wait.endedAt && wait.at < at) wait.endedAt = at;
}

function remember(step, event) {
  const told = step.moments.findIndex((other) => other.sequence === undefined && other.type === event.type && other.at === event.at);
  if (told >= 0) step.moments.splice(told, 1); // the record of it comes in its own place
  step.moments.push(event);
}
