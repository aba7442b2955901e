// How turns ended, where that is not plain from their answers: lines and cards behind their last messages. Pure.

import { hasFailed } from "../client/status.js";

const STOPPED = {
  interrupted: "This turn was stopped for the next message.",
  superseded: "This turn was replaced by the next message. The model does not see its answer.",
};

/** Return the items with a notice behind each turn that has one. `running`: whether a turn runs. */
export function withNotices(state, items, running) {
  const notices = noticesOf(state, items, running);
  const last = new Map();
  items.forEach((item, index) => item.turnId && last.set(item.turnId, index));
  const behind = new Map();
  for (const notice of notices) {
    const index = placeOf(state, notice.turnId, last) ?? items.length - 1;
    behind.set(index, [...(behind.get(index) ?? []), notice]);
  }
  const shown = items.flatMap((item, index) => [item, ...(behind.get(index) ?? [])]);
  return items.length ? shown : notices;
}

// A turn that goes on with a failed one has no message of the user: it belongs behind that one until it says something.
function placeOf(state, turnId, last) {
  for (let id = turnId; id; id = state.turns[id]?.retryOf) if (last.has(id)) return last.get(id);
  return null;
}

function noticesOf(state, items, running) {
  const latest = latestTurnId(state, items);
  const turns = Object.values(state.turns).filter(({ turnId }) => turnId !== latest || !hasFailed(state));
  const notices = turns.map((turn) => noticeOf(state, turn, items)).filter(Boolean);
  if (running || !hasFailed(state)) return notices;
  const error = state.turns[latest]?.error ?? state.snapshot?.state?.last_turn_error;
  return error ? [...notices, failureCard(state, latest, error)] : notices;
}

function noticeOf(state, turn, items) {
  const notice = { kind: "notice", key: `notice/${turn.turnId}`, turnId: turn.turnId, tone: "quiet" };
  if (turn.status === "failed") {
    const retried = Object.values(state.turns).some(({ retryOf }) => retryOf === turn.turnId);
    const then = retried ? " and was tried again" : "";
    return { ...notice, tone: "bad", text: `This turn failed (${turn.error?.code})${then}: ${turn.error?.message}` };
  }
  if (!items.some(({ turnId }) => turnId === turn.turnId)) return null; // its messages are not loaded
  if (turn.status === "cancelled") return { ...notice, text: STOPPED[turn.reason] ?? "This turn was stopped." };
  if (turn.status === "steered") return { ...notice, text: "This turn was redirected by the next message." };
  return null;
}

/** Return the id of the turn that began last, as far as the page knows. */
export function latestTurnId(state, items = []) {
  return Object.keys(state.turns).at(-1) ?? items.findLast((item) => item.turnId)?.turnId ?? null;
}

// The latest turn failed and none runs: it can be retried, and what waits behind it be let go.
function failureCard(state, turnId, error) {
  return {
    kind: "failure",
    key: `failure/${turnId}`,
    turnId,
    code: error.code,
    text: error.message,
    held: Boolean(state.snapshot?.state?.held),
    doing: state.doing.retry ? "retry" : state.doing.dismiss ? "dismiss" : null,
  };
}
