// Everything that there is to show of a session, derived from its state. Pure; a page may show more (`state`).

import { messagesOf } from "./messages.js";
import { inboxEntries } from "./order.js";
import { activityOf, indicatorOf, isPaused, isStopping, statusOf, waitingOf } from "./status.js";
import { toolCallsOf } from "./tool_calls.js";
import { frontierOf, openInterrupts, openQuestion, runningTurn } from "./turns.js";

/** Return what is shown: wire objects with their wire names, what is derived here in camelCase. */
export function viewOf(state) {
  const turn = runningTurn(state);
  const told = state.snapshot?.state ?? null;
  return {
    sessionId: state.sessionId,
    agent: state.snapshot?.agent ?? null,
    exists: told !== null,
    messages: messagesOf(state),
    hasOlder: state.nextBefore !== null,
    status: statusOf(state, turn),
    indicator: indicatorOf(state, turn),
    activity: activityOf(state, turn),
    waiting: waitingOf(state, turn),
    turnId: turn?.turnId ?? null,
    stopping: isStopping(state, turn),
    error: turn === null ? errorOf(state) : null,
    toolCalls: toolCallsOf(state),
    interrupts: openInterrupts(state).map((interrupt) => withDecision(state, interrupt)),
    openQuestion: openQuestion(state),
    inbox: inboxOf(state),
    paused: isPaused(state),
    closed: Boolean(told?.closed),
    held: turn === null && Boolean(told?.held),
    blockedReason: (turn === null && told?.blocked_reason) || null,
    title: state.doing.title?.title ?? state.title ?? state.snapshot?.title ?? null,
    settings: state.snapshot?.settings ?? {},
    usage: state.snapshot?.usage ?? null,
    frontier: frontierOf(state, turn),
  };
}

// What went wrong in the latest turn: an event that came after the snapshot wins over it.
function errorOf(state) {
  const latest = Object.values(state.turns).at(-1);
  if (latest?.endedAt) return latest.error ?? null;
  return state.snapshot?.state?.last_turn_error ?? null;
}

function withDecision(state, interrupt) {
  const deciding = state.deciding[interrupt.interrupt_id];
  return deciding === undefined ? interrupt : { ...interrupt, deciding };
}

// The entries as this page has changed them last, then what it is sending to wait.
function inboxOf(state) {
  const entries = inboxEntries(state).map((entry) => {
    const doing = state.doing[`inbox/${entry.message_id}`];
    return doing === undefined ? entry : { ...entry, ...(doing.text !== undefined && { text: doing.text }), saving: true };
  });
  const sending = state.outbox
    .filter(({ waits }) => waits)
    .map(({ messageId, text, delivery, problem }) => ({
      message_id: messageId,
      text,
      ...(delivery && { delivery }),
      sending: true,
      ...(problem && { problem }),
    }));
  return [...entries, ...sending];
}
