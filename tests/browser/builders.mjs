// What the unit tests of the console's pure modules are made of.

import { initialState, reduce } from "../../clients/js/src/reducer.js";
import { view } from "../../layers/runtime/perdure/embedded/console/view.js";

export const AT = "2026-11-30T10:00:00.000Z";
export const at = (seconds) => new Date(Date.parse(AT) + seconds * 1000).toISOString();

/** Freezes what it is given, so that a test fails when the reducer changes a state in place. */
function frozen(value) {
  if (value && typeof value === "object" && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(frozen);
  }
  return value;
}

export function after(actions, from = initialState("s")) {
  return actions.reduce((state, action) => frozen(reduce(state, frozen(action))), frozen(from));
}

export function anEvent(type, { sequence, turn = "turn-1", step, attempt, second = 0, ...payload } = {}) {
  const event = { type, cursor: `c-${sequence ?? "live"}-${second}`, turn_id: turn, at: at(second), payload };
  if (sequence !== undefined) event.sequence = sequence;
  if (step) Object.assign(event, { step_execution_id: step, attempt: attempt ?? 1 });
  return { type: "event", event };
}

export const delta = (text, { step = "model-1-0", attempt = 1, turn = "turn-1" } = {}) =>
  anEvent("text_delta", { step, attempt, turn, text });

export function aSnapshot({
  version = 1, turn, messages = [], asOf, nextBefore, calls = [], interrupts = [], inbox = [], settings = {}, ...state
} = {}) {
  const snapshot = {
    session_id: "s",
    agent: "support",
    state: { status: turn ? "running_model" : "waiting_for_user_message", turn_count: 1, version, ...state },
    messages,
    tool_calls: calls,
    pending_interrupts: interrupts,
    inbox,
    settings,
    usage: {},
    cursor: "c",
  };
  if (turn) snapshot.state.turn_id = turn;
  if (nextBefore) snapshot.next_before = nextBefore;
  return { type: "snapshot", snapshot, asOf };
}

export function aMessage(sequence, role, text, { turn = "turn-1", parts, status } = {}) {
  const message = { message_id: `m-${sequence}`, sequence, turn_id: turn, role, created_at: AT };
  message.parts = parts ?? [{ type: "text", text }];
  if (status) message.status = status;
  return message;
}

export const anEntry = (id, { delivery = "queue", state = "queued", text = id, ...more } = {}) =>
  ({ message_id: id, delivery, state, text, created_at: AT, ...more });

export const aCall = (id, name = "refund_order") => ({ type: "tool_call", tool_call_id: id, tool_name: name, arguments: {} });

export const aResult = (sequence, id, status = "succeeded", output = "done") =>
  aMessage(sequence, "tool", "", {
    parts: [{ type: "tool_result", tool_call_id: id, tool_name: "refund_order", status, output }],
  });

export const texts = (state) => view(state).items.map((item) => item.text);
export const answers = (state) => view(state).items.filter((item) => item.kind === "assistant");
export const cards = (state) => answers(state).flatMap((item) => item.calls);
export const steps = (state) => Object.values(state.steps);

export const STARTED = anEvent("turn_started", { sequence: 1, message_id: "m-1" });
