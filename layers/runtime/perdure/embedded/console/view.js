// What the page shows, derived from the reducer's state. Pure.

import { liveTexts } from "../client/live.js";
import { activityOf, indicatorOf, isPaused, isStopping, statusOf, waitingOf } from "../client/status.js";
import { frontierOf, openQuestion, runningTurn } from "../client/turns.js";
import { cardOf } from "./calls.js";
import { filesText, writerOf } from "./format.js";
import { withNotices } from "./notices.js";
import { grantsOf, requestsOf } from "./requests.js";
import { inboxOf } from "./waiting.js";
import { schedulesOf } from "./when.js";

const CUT = new Set(["interrupted", "superseded"]);

/** Return everything that is shown of a session. */
export function view(state) {
  const turn = runningTurn(state);
  const results = resultsOf(state);
  const items = [...storedItems(state, results), ...liveItems(state)];
  return {
    sessionId: state.sessionId,
    agent: state.snapshot?.agent ?? null,
    title: state.doing.title?.title ?? state.title ?? state.snapshot?.title ?? null,
    items: [...withNotices(state, items, turn !== null), ...outboxItems(state), ...requestsOf(state)],
    grants: grantsOf(state),
    inbox: inboxOf(state, turn),
    hasOlder: state.nextBefore !== null,
    exists: Boolean(state.snapshot?.state),
    settings: state.snapshot?.settings ?? {},
    turnId: turn?.turnId ?? null,
    frontier: frontierOf(state, turn),
    paused: isPaused(state),
    closed: Boolean(state.snapshot?.state?.closed),
    held: turn === null && Boolean(state.snapshot?.state?.held),
    blockedReason: (turn === null && state.snapshot?.state?.blocked_reason) || null,
    stopping: isStopping(state, turn),
    status: statusOf(state, turn),
    indicator: indicatorOf(state, turn),
    activity: activityOf(state, turn),
    waiting: waitingOf(state, turn),
    openQuestion: openQuestion(state),
    usage: state.snapshot?.usage ?? null,
    schedules: schedulesOf(state),
  };
}

// --- messages ---------------------------------------------------------------------------------

function resultsOf(state) {
  const results = {};
  for (const message of state.messages) {
    for (const part of message.parts) {
      if (part.type === "tool_result") results[part.tool_call_id] = part;
    }
  }
  return results;
}

function storedItems(state, results) {
  const items = [];
  const answers = {};
  const shownCalls = new Set();
  for (const message of state.messages) {
    if (message.status === "rehomed") continue; // it waits again, or has come back as its own turn's
    if (message.role === "user") {
      items.push({
        kind: "user",
        key: `user/${message.sequence}`,
        turnId: message.turn_id,
        text: textOf(message, "text"),
        note: noteOf(message, Boolean(state.joined[message.message_id])),
        writer: writerOf(message),
        sending: false,
      });
    } else if (message.role === "assistant") {
      answers[message.turn_id] = (answers[message.turn_id] ?? 0) + 1;
      const calls = message.parts.filter((part) => part.type === "tool_call");
      calls.forEach((part) => shownCalls.add(part.tool_call_id));
      if (CUT.has(message.status) && message.parts.length === 0) continue; // nothing of it had been shown
      items.push({
        kind: "assistant",
        key: `${message.turn_id}/${answers[message.turn_id]}`, // the live text has the same key, so it turns into this
        turnId: message.turn_id,
        text: textOf(message, "text"),
        reasoning: textOf(message, "reasoning"),
        calls: calls.map((part) => cardOf(state, part, results[part.tool_call_id])),
        status: message.status ?? null,
        live: false,
        attempt: 1,
      });
    }
  }
  // A result whose call is further back than the oldest loaded message.
  const orphans = Object.values(results).filter((result) => !shownCalls.has(result.tool_call_id));
  const cards = orphans.map((result) => ({
    kind: "assistant",
    key: `result/${result.tool_call_id}`,
    turnId: null,
    text: "",
    reasoning: "",
    calls: [cardOf(state, { tool_call_id: result.tool_call_id, tool_name: result.tool_name }, result)],
    status: null,
    live: false,
    attempt: 1,
  }));
  return [...cards, ...items];
}

function noteOf(message, joined) {
  const writer = writerOf(message);
  const files = filesText(message.parts.filter((part) => part.type === "file"));
  return [writer && `From ${writer}`, joined && "Added while the agent worked", files].filter(Boolean).join(" · ") || null;
}

function textOf(message, type) {
  const parts = message.parts.filter((part) => part.type === type);
  return parts.map((part) => (part.truncated ? `${part.text}… (only the start, of ${part.bytes} bytes)` : part.text)).join("");
}

function liveItems(state) {
  const shown = liveTexts(state).filter(({ text, reasoning }) => text || reasoning);
  return shown.map(({ key, turnId, text, reasoning, held, live, attempt }) => ({
    kind: "assistant",
    key,
    turnId,
    text,
    reasoning,
    calls: [],
    status: held ? "interrupted" : null,
    live,
    attempt,
  }));
}

// --- around the messages ----------------------------------------------------------------------

function outboxItems(state) {
  return state.outbox
    .filter((item) => !item.waits)
    .map((item) => ({
      kind: "user",
      key: item.messageId,
      turnId: null,
      text: item.text,
      note: item.problem ?? "Sending…",
      writer: null,
      sending: true,
    }));
}
