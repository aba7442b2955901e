// What each event does to the state. Pure; `reducer.js` has already dropped what was seen before.
//
// Every fact may be told twice, first live and then by the durable record, so all of this is either "set to what the
// event says" or counted per attempt and source. A step keeps only its highest attempt (spec EVT-02).

import { CALL_EVENTS, callOfQuestion, toldOfCall } from "./call_events.js";

const FOLDS = {
  turn_started: (state, event) =>
    withTurn(state, event.turn_id, {
      status: "running",
      startedAt: event.at,
      startedSequence: event.sequence,
      startedVersion: event.version,
      messageId: event.payload.message_id,
      messageIds: event.payload.message_ids,
      retryOf: event.payload.retry_of,
      retryId: event.payload.retry_id,
    }),
  turn_stopping: (state, event) => withTurn(state, event.turn_id, { status: "stopping" }),
  turn_completed: (state, event) => endTurn(state, event, "completed"),
  turn_failed: (state, event) => endTurn(state, event, "failed", { error: event.payload.error }),
  turn_cancelled: (state, event) => endTurn(state, event, "cancelled", { reason: event.payload.reason }),
  turn_steered: (state, event) => endTurn(state, event, "steered"),

  title_changed: (state, event) => ({ ...state, title: event.payload.title ?? null }),
  "inbox.joined": (state, event) => ({ ...state, joined: { ...state.joined, [event.payload.message_id]: true } }),

  model_started: (state, event) => startStep(state, event, "model"),
  model_finished: (state, event) => {
    const ended = endStep(state, event, event.payload.status);
    return event.sequence === undefined ? ended : markPartial(ended, event);
  },
  model_retry_scheduled: (state, event) =>
    withStep(state, event, { retry: { ...event.payload, at: event.at } }),
  attempt_reset: resetAttempt,
  text_delta: (state, event) => appendPartial(state, event, "text"),
  reasoning_delta: (state, event) => appendPartial(state, event, "reasoning"),
  "tool.arguments_delta": appendDraft,
  "progress.gap": markIncomplete,

  tool_call_deferred: (state, event) => {
    const { tool_call_id: id, tool_name: name, effect, requires_approval: asks } = event.payload;
    const known = withCall(state, id, { effect, requiresApproval: asks });
    return withStep(known, toolStep(event), { kind: "tool", name, status: asks ? "awaiting_approval" : "approved" });
  },
  tool_call_started: (state, event) => startStep(state, toolStep(event), "tool", event.payload.tool_name),
  tool_progress: (state, event) => withCall(state, toolStep(event).step_execution_id, { progress: event.payload }),
  tool_call_finished: (state, event) => {
    const named = withStep(state, toolStep(event), { kind: "tool", name: event.payload.tool_name });
    return endStep(named, toolStep(event), event.payload.status);
  },

  ...Object.fromEntries(CALL_EVENTS.map((type) => [type, takeCallEvent])),
  interrupt_resolved: (state, event) => {
    const { interrupt_id: id, approved, answered } = event.payload;
    const decided = { ...state, decisions: { ...state.decisions, [id]: { ...event.payload, at: event.at } } };
    const stepId = callOfQuestion(state.calls, id) ?? id;
    const step = decided.steps[stepId];
    if (!step || !(approved || answered) || !step.status.startsWith("awaiting_")) return decided;
    return { ...decided, steps: { ...decided.steps, [stepId]: { ...step, status: "approved" } } };
  },
};

/** Return the state after an event that is new; an unknown type changes nothing. */
export function foldEvent(state, event) {
  const fold = Object.hasOwn(FOLDS, event.type) ? FOLDS[event.type] : null;
  return fold ? fold(state, { ...event, payload: event.payload ?? {} }) : state;
}

function takeCallEvent(before, event) {
  const state = event.type === "interrupt_raised" ? askedAgain(before, event.payload.interrupt_id) : before;
  const { id, change, status } = toldOfCall(event, state.calls);
  const known = withCall(state, id, change(state.calls[id] ?? {}));
  const step = known.steps[id];
  if (!step || step.endedAt || status === null) return known;
  return { ...known, steps: { ...known.steps, [id]: { ...step, status } } };
}

// A request of an application has its name as its id: the same one may be asked for again.
function askedAgain(state, id) {
  const { [id]: _, ...decisions } = state.decisions;
  return { ...state, decisions };
}

// A call is its own step; its first event still belongs to the model step that asked for it.
function toolStep(event) {
  const own = event.payload.tool_call_id ?? event.step_execution_id;
  return event.step_execution_id === own ? event : { ...event, step_execution_id: own, attempt: undefined };
}

function withTurn(state, turnId, change) {
  if (!turnId) return state;
  const turn = state.turns[turnId] ?? { turnId, status: "running", steps: [] };
  return { ...state, turns: { ...state.turns, [turnId]: { ...turn, ...change } } };
}

function endTurn(state, event, status, why) {
  return withTurn(state, event.turn_id, { status, endedAt: event.at, ...why });
}

function withCall(state, callId, change) {
  if (!callId) return state;
  return { ...state, calls: { ...state.calls, [callId]: { ...state.calls[callId], ...change } } };
}

// Returns the state with the step known and at the event's attempt at least, and the step; null for an older attempt.
function currentStep(state, event) {
  const id = event.step_execution_id;
  if (!id) return null;
  const attempt = event.attempt ?? state.steps[id]?.attempt ?? 1;
  const known = state.steps[id] ?? { stepId: id, turnId: event.turn_id, kind: "model", attempt, status: "waiting" };
  if (attempt < known.attempt) return null;
  const step =
    attempt > known.attempt
      ? { ...known, attempt, startedAt: undefined, endedAt: undefined, retry: undefined, status: "waiting" }
      : known;
  if (state.steps[id]) return { state, step };
  const listed = [...(state.turns[event.turn_id]?.steps ?? []), id];
  return { state: withTurn(state, event.turn_id, { steps: listed }), step };
}

function withStep(state, event, change) {
  const current = currentStep(state, event);
  if (!current) return state;
  const { stepId } = current.step;
  return { ...current.state, steps: { ...current.state.steps, [stepId]: { ...current.step, ...change } } };
}

function startStep(state, event, kind, name) {
  const known = state.steps[event.step_execution_id];
  const ended = known?.endedAt && known.attempt === event.attempt;
  return withStep(state, event, {
    kind,
    ...(name ? { name } : {}),
    startedAt: event.at,
    ...(ended ? {} : { status: "running" }),
  });
}

function endStep(state, event, status) {
  return withStep(state, event, { status, endedAt: event.at, retry: undefined });
}

// A reset drops the partial, but not a second time when the record of a live reset arrives: by then the partial is
// already the next try's text.
function resetAttempt(state, event) {
  const { step_execution_id: id, attempt = 1 } = event;
  if (!id) return state;
  const key = `${id}/${attempt}`;
  const before = state.resets[key] ?? { live: 0, durable: 0 };
  const source = event.sequence === undefined ? "live" : "durable";
  const counted = { ...state, resets: { ...state.resets, [key]: { ...before, [source]: before[source] + 1 } } };
  if (source === "durable" && before.durable < before.live) return counted;
  const { [id]: partial, ...others } = counted.partials;
  const dropped = partial && partial.attempt <= attempt ? { ...counted, partials: others } : counted;
  const step = dropped.steps[id];
  if (!step || step.attempt > attempt || step.endedAt) return dropped;
  return withStep(dropped, event, { status: "waiting" });
}

function appendPartial(state, event, field) {
  const { text = "", segment } = event.payload;
  return changePartial(state, event, (partial) => ({
    [field]: partial[field] + text,
    segments: withPiece(partial.segments, field, segment, text),
  }));
}

// The parts that the message will have. Without a number a piece goes on with the last one, if that is of its type.
function withPiece(segments, type, number, text) {
  const at = number ?? (segments.at(-1)?.type === type ? segments.length - 1 : segments.length);
  const index = segments.findIndex(({ segment }) => segment === at);
  if (index < 0) return [...segments, { segment: at, type, text }];
  return segments.with(index, { ...segments[index], text: segments[index].text + text });
}

// Arguments that the model is writing: what they say is settled when the call is stored.
function appendDraft(state, event) {
  const { index, text = "", tool_name: name } = event.payload;
  return changePartial(state, event, ({ drafts }) => {
    const before = drafts[index] ?? { toolName: null, text: "" };
    return { drafts: { ...drafts, [index]: { toolName: name ?? before.toolName, text: before.text + text } } };
  });
}

// The server keeps no more of it: only the stored message will have the rest.
function markIncomplete(state, event) {
  if (!state.partials[event.step_execution_id]) return state;
  return changePartial(state, event, () => ({ incomplete: true }));
}

function changePartial(state, event, change) {
  const current = currentStep(state, event);
  if (!current) return state;
  const { step } = current;
  const before = state.partials[step.stepId];
  const about = { stepId: step.stepId, turnId: event.turn_id, attempt: step.attempt };
  const partial = before?.attempt === step.attempt ? before : { ...about, text: "", reasoning: "", segments: [], drafts: {} };
  const status = step.endedAt ? step.status : "running";
  const { steps } = current.state; // of a long session they are many, and pieces of text come often
  const isKnown = steps[step.stepId] === step && step.status === status && step.retry === undefined;
  return {
    ...current.state,
    steps: isKnown ? steps : { ...steps, [step.stepId]: { ...step, retry: undefined, status } },
    partials: { ...state.partials, [step.stepId]: { ...partial, ...change(partial) } },
  };
}

function markPartial(state, event) {
  const partial = state.partials[event.step_execution_id];
  if (!partial) return state;
  const finished = { ...partial, finishedSequence: event.sequence, finishedVersion: event.version };
  return { ...state, partials: { ...state.partials, [event.step_execution_id]: finished } };
}
