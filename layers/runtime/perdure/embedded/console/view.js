// What the page shows, derived from the reducer's state. Pure.

import { cardOf } from "./calls.js";
import { filesText, writerOf } from "./format.js";
import { withNotices } from "./notices.js";
import { grantsOf, requestsOf } from "./requests.js";
import { activityOf, indicatorOf, isPaused, isStopping, statusOf, waitingOf } from "./status.js";
import { TURNS_SHOWN, timelineOf } from "./timeline.js";
import { inboxOf } from "./waiting.js";
import { schedulesOf } from "./when.js";

const CUT = new Set(["interrupted", "superseded"]);

/** Return everything that is shown of a session. */
export function view(state) {
  const turn = runningTurn(state);
  const results = resultsOf(state);
  const items = [...storedItems(state, results), ...partialItems(state)];
  return {
    sessionId: state.sessionId,
    agent: state.snapshot?.agent ?? null,
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
    openQuestion: openQuestionOf(state),
    usage: state.snapshot?.usage ?? null,
    timeline: timelineOf(state),
    schedules: schedulesOf(state),
    olderTurns: Math.max(0, Object.keys(state.turns).length - TURNS_SHOWN),
  };
}

/** Return the running turn, or null: events that came after the snapshot win over it. */
export function runningTurn(state) {
  const turns = Object.values(state.turns);
  const latest = turns.at(-1);
  if (latest && !latest.endedAt && latest.startedSequence > state.asOf) return latest;
  const turnId = state.snapshot?.state?.turn_id;
  if (!turnId || state.turns[turnId]?.endedAt) return null;
  const status = state.snapshot.state.stopping ? "stopping" : "running";
  const known = state.turns[turnId];
  return known ? { ...known, status: status === "stopping" ? status : known.status } : { turnId, status, steps: [] };
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

// Live text is shown until the message that replaces it is there, and never beside it.
function partialItems(state) {
  return Object.values(state.partials)
    .map((partial) => ({ ...partial, ...previewOf(state, partial) }))
    .filter((partial) => (partial.text || partial.reasoning) && !isStored(state, partial))
    .map((partial) => ({
      kind: "assistant",
      key: `${partial.turnId}/${ordinalOf(state, partial) ?? partial.stepId}`,
      turnId: partial.turnId,
      text: partial.text,
      reasoning: partial.reasoning,
      calls: [],
      status: partial.held ? "interrupted" : null,
      live: !partial.held && partial.finishedSequence === undefined,
      attempt: partial.attempt,
    }));
}

// From the moment of this page's stop on, an answer grows no more (spec STOP-07); what is stored comes with the snapshot.
function previewOf(state, { stepId, turnId }) {
  if (state.stopping?.turnId !== turnId) return {};
  const { text = "", reasoning = "" } = state.stopping.partials[stepId] ?? {};
  return { text, reasoning, held: true };
}

function isStored(state, partial) {
  if (partial.finishedSequence <= state.asOf) return true;
  const stored = state.messages.filter((message) => message.turn_id === partial.turnId);
  const turnOver = stored.length > 0 && state.snapshot?.state?.turn_id !== partial.turnId;
  if (turnOver) return true;
  const ordinal = ordinalOf(state, partial);
  return ordinal !== null && stored.filter((message) => message.role === "assistant").length >= ordinal;
}

// The how-manieth model step of its turn; every committed one but the last left one message of the assistant.
// Null when the start of the turn was not seen.
function ordinalOf(state, partial) {
  const turn = state.turns[partial.turnId];
  if (turn?.startedSequence === undefined) return null;
  const models = turn.steps.filter((id) => state.steps[id]?.kind === "model");
  return models.indexOf(partial.stepId) + 1 || null;
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

// The one question that is open, if what is written in the message field can answer it (field case F064).
function openQuestionOf(state) {
  const pending = (state.snapshot?.pending_interrupts ?? []).filter(({ kind }) => kind === "question");
  const open = pending.filter(({ interrupt_id: id }) => !state.decisions[id] && state.deciding[id] === undefined);
  return open.length === 1 && open[0].allows_free_text !== false ? open[0].interrupt_id : null;
}

// How far the screen has come, for a stop to cut at (spec STOP-05): the last event that was taken. A snapshot that is
// ahead of the events may show more; then there is no frontier, because nothing that was seen may be cut.
function frontierOf(state, turn) {
  if (turn?.startedSequence === undefined) return null;
  const shown = state.messages.filter(({ turn_id: id, role }) => id === turn.turnId && role === "assistant").length;
  const ended = turn.steps.filter((id) => state.steps[id]?.kind === "model" && state.steps[id].endedAt).length;
  return shown > ended ? null : state.cursor;
}
