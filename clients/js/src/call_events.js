// What events tell about one tool call besides its start and end: questions, waits, remote work, steps of its own. Pure.

const STATUS = {
  timer_started: "waiting_for_timer",
  "tool.awaits_event": "waiting_for_event",
  tool_task_started: "waiting_for_task",
  "task.reconciling": "waiting_for_task",
};

// (what is known of the call, payload, event) => what is known now
const FACTS = {
  interrupt_raised: (call, payload, { at }) => ({ askedAt: at, ...asked(call, payload, at) }),
  timer_started: (call, { name, until }, event) => (name ? noted(call, event, "sleep", name, { until }) : {}),
  "tool.awaits_event": (call, { name, until }, event) => noted(call, event, "awaits", name, { until }),
  "tool.event_arrived": (call, { name }, event) => noted(call, event, "arrived", name),
  "tool.step_recorded": (call, { name }, event) => noted(call, event, "step", name),
  "approval.by_grant": () => ({ ahead: true }),
  "tool.output": (_, { output }) => ({ output }),
  tool_task_started: (_, { poll_interval_seconds: seconds }, { at }) => ({ task: { since: at, seconds, looks: 0, lookedAt: null } }),
  "task.reconciling": (_, __, { at }) => ({ task: { since: at, seconds: null, looks: 0, lookedAt: null } }),
  "task.looked": ({ task }, _, { at }) => ({ task: { ...task, looks: (task?.looks ?? 0) + 1, lookedAt: at } }),
  "task.cancelled": (call, { cancelled }, event) => noted(call, event, cancelled ? "stopped" : "not_stopped", null),
  "wait.skipped": (call, { actor }, event) => noted(call, event, "skipped", null, { by: actor?.subject }),
  "wait.changed": (call, { until, actor }, event) => noted(call, event, "changed", null, { until, by: actor?.subject }),
  "wait.cancelled": (call, { actor }, event) => noted(call, event, "cancelled", null, { by: actor?.subject }),
};

/** The types of events that tell about one call. */
export const CALL_EVENTS = Object.keys(FACTS);

/** Return what an event says about its call: `{ id, change(call), status }`; `status` null: it stays as it is. */
export function toldOfCall({ type, payload, ...event }, calls) {
  const { tool_call_id: own, wait_id: wait } = payload;
  const status = type === "interrupt_raised" && payload.kind !== "approval" ? "awaiting_answer" : (STATUS[type] ?? null);
  const change = (call) => ({ ...call, ...FACTS[type](call, payload, event) });
  return { id: own ?? (wait && (callOfQuestion(calls, wait) ?? wait)), change, status };
}

/** Return the id of the call that asked a question, or null. */
export function callOfQuestion(calls, interruptId) {
  const found = Object.entries(calls).find(([, call]) => call.questions?.some(({ key }) => key === interruptId));
  return found ? found[0] : null;
}

function asked(call, { interrupt_id: key, kind, question, choices }, at) {
  if (kind === "approval" || question === undefined) return {};
  return { questions: [...(call.questions ?? []), { key, question, choices: choices ?? [], at }] };
}

function noted(call, { sequence, at }, kind, name, more = {}) {
  const records = call.records ?? [];
  return { records: [...records, { key: String(sequence ?? records.length), kind, name, at, ...more }] };
}
