// The one place where server data becomes a page's state: (state, action) -> state, pure, nothing is changed in place.
// A state is plain JSON, so a server can make one and a page go on with it.
//
// The snapshot is the truth about messages; events tell what happens until the next snapshot, and are the only
// source of live text and of the timeline.

import { foldEvent } from "./events.js";
import { takeLocal } from "./local.js";
import { advanceProgress, advanceSequence } from "./position.js";
import { isInSnapshot } from "./turns.js";

/** State of a session of which nothing is known yet. */
export function initialState(sessionId) {
  return {
    sessionId,
    snapshot: null, // the latest one, without its messages
    schedules: null, // messages that come by themselves, the next one first
    waits: null, // what the session waits for, with what can be done about it; read behind the snapshot
    asOf: 0, // every event up to this sequence is part of the snapshot
    messages: [], // oldest first, contiguous
    nextBefore: null, // where older messages are, if there are any
    sequence: null, // the last durable event that was taken
    cursor: null, // the last event of any kind: where a new stream goes on
    gap: null, // { expected, got, stepId?, attempt? }: something was missed; the stream starts again at `cursor`
    title: null, // as the last event told
    progress: {}, // by step id: { attempt, seen }: how far its live events were taken
    lost: null, // the gap in live events that a new start of the stream did not fill: they are gone
    resets: {}, // by step id and attempt: how often its text was dropped, as seen live and as told by the record
    turns: {}, // by turn id, in the order in which they started
    steps: {}, // by step id, in the order in which they were heard of
    calls: {}, // by tool call id: what only events tell about a call
    partials: {}, // by step id: live text of the highest attempt
    decisions: {}, // by interrupt id: closed ones, whoever closed them
    joined: {}, // by message id: those that joined a turn that was running
    outbox: [], // what this page sent and the server has not shown yet
    doing: {}, // by command: this page's own commands that are on their way, and what they will do
    deciding: {}, // by interrupt id: this page's own decision that is on its way
    stopping: null, // { turnId, partials }: the turn that this page asked to stop, and the live text at that moment
  };
}

/** Return the state after one action; unknown actions and old news change nothing. */
export function reduce(state, action) {
  switch (action.type) {
    case "event": // one event of a stream
      return takeEvent(state, action.event);
    case "stream": // events of a stream that came together, and the cursor behind them
      return atCursor(action.events.reduce(takeEvent, state), action.cursor);
    case "events": // all events behind the cursor, as a page has them
      return takePage(state, action.events, action.cursor);
    case "snapshot": // `restart`: the stream begins behind it, or at the cursor `from`
      return takeSnapshot(action.restart ? restarted(state) : state, action);
    case "messages": // stored messages as a log has them
      return takeMessages(state, action.messages);
    case "initial": // what a server has rendered: a state, or the snapshot that it was made from
      return takeInitial(state, action.state ?? stateOfSnapshot(state.sessionId, action.snapshot));
    case "waits":
      return { ...state, waits: action.waits };
    case "schedules":
      return { ...state, schedules: action.schedules };
    case "older_messages":
      return takeOlder(state, action.page);
    case "stream_restarted":
      return { ...state, gap: null, lost: state.gap?.stepId ? state.gap : null };
    default:
      return takeLocal(state, action);
  }
}

// Durable events are numbered without gaps; an event that was seen live comes again as a durable one.
function takeEvent(state, event) {
  if (event.sequence === undefined) return state.gap ? state : takeLive(state, event);
  const verdict = advanceSequence(state.sequence, event.sequence);
  if (verdict === "duplicate") return state;
  if (verdict === "gap") return { ...state, gap: { expected: state.sequence + 1, got: event.sequence } };
  const taken = { ...state, gap: null, sequence: event.sequence, cursor: event.cursor ?? state.cursor };
  return foldEvent(taken, event);
}

// Live events are numbered per attempt of their step. Of those that are gone for good the rest is shown.
function takeLive(state, event) {
  const { step_execution_id: stepId, attempt = 1, progress_sequence: got } = event;
  const known = state.progress[stepId];
  const verdict = advanceProgress(known, attempt, got);
  if (verdict === "duplicate") return state;
  if (verdict === "gap") {
    const expected = known?.attempt === attempt ? known.seen + 1 : 1;
    const gone = state.lost?.stepId === stepId && state.lost.attempt === attempt && state.lost.expected === expected;
    if (!gone) return { ...state, gap: { expected, got, stepId, attempt } };
  }
  const at = { ...state, cursor: event.cursor ?? state.cursor };
  if (got === undefined) return foldEvent(at, event);
  const taken = foldEvent({ ...at, progress: { ...at.progress, [stepId]: { attempt, seen: got } } }, event);
  const partial = verdict === "gap" && taken.partials[stepId];
  return partial ? { ...taken, partials: { ...taken.partials, [stepId]: { ...partial, incomplete: true } } } : taken;
}

// A page holds all that follows its cursor, so its first event leaves nothing out: what seems to be missing before it
// were events whose type the stream did not bring, and the cursor of a live event had gone past them.
function takePage(state, events, cursor) {
  const first = events.find((event) => event.sequence !== undefined);
  const jumps = first && state.sequence !== null && first.sequence > state.sequence + 1;
  return atCursor(events.reduce(takeEvent, jumps ? { ...state, sequence: first.sequence - 1 } : state), cursor);
}

function atCursor(state, cursor) {
  return cursor === undefined || state.gap ? state : { ...state, cursor };
}

// What belongs to the page outlives a break in what it was told.
function restarted(state) {
  const { snapshot, messages, nextBefore, schedules, waits, outbox, doing, deciding, stopping } = state;
  const kept = { snapshot, messages, nextBefore, schedules, waits, outbox, doing, deciding, stopping };
  return { ...initialState(state.sessionId), ...kept };
}

function takeSnapshot(state, { snapshot, asOf = 0, restart = false, from = snapshot.cursor ?? null }) {
  const known = state.snapshot?.state?.version ?? 0;
  const version = snapshot.state?.version ?? null;
  const { messages, next_before: nextBefore, ...rest } = snapshot;
  const cursor = restart ? from : state.cursor;
  if (version !== null && version < known) return restart ? { ...state, cursor } : state; // it was overtaken
  if (version === null && known) {
    return { ...initialState(state.sessionId), snapshot: rest, cursor: snapshot.cursor ?? null }; // purged
  }
  const shown = new Set([...messages, ...(snapshot.inbox ?? [])].map((message) => message.message_id));
  const taken = { ...state, snapshot: rest, asOf: Math.max(state.asOf, asOf), cursor };
  const unfinished = ([, { finishedSequence, finishedVersion }]) =>
    !isInSnapshot(taken, { sequence: finishedSequence, version: finishedVersion });
  return {
    ...taken,
    ...mergeNewest(state, messages, nextBefore ?? null),
    partials: Object.fromEntries(Object.entries(state.partials).filter(unfinished)),
    outbox: state.outbox.filter((item) => !shown.has(item.messageId)),
    title: taken.asOf >= (state.sequence ?? 0) ? null : state.title, // the snapshot's is as new as the last event's
    stopping: state.stopping && rest.state?.turn_id === state.stopping.turnId ? state.stopping : null,
  };
}

function stateOfSnapshot(sessionId, snapshot) {
  return takeSnapshot(initialState(sessionId), { snapshot, restart: true });
}

// A server's state is the beginning of a page's, and no news to a page that knows as much. Not even that there is no
// session: it was rendered before this one began.
function takeInitial(state, initial) {
  if (state.snapshot === null && state.sequence === null) {
    const { outbox, doing, deciding, stopping } = state;
    return { ...initial, outbox, doing, deciding, stopping };
  }
  if (!initial.snapshot || isKnown(state, initial)) return state;
  const { messages, nextBefore, asOf } = initial;
  return takeSnapshot(state, { snapshot: { ...initial.snapshot, messages, next_before: nextBefore ?? undefined }, asOf });
}

function isKnown({ snapshot, asOf }, initial) {
  const known = snapshot?.state?.version ?? 0;
  const version = initial.snapshot.state?.version ?? 0;
  return snapshot !== null && (version < known || (version === known && initial.asOf <= asOf));
}

function takeMessages(state, messages) {
  const given = new Set(messages.map(({ sequence }) => sequence));
  const merged = [...state.messages.filter(({ sequence }) => !given.has(sequence)), ...messages];
  const ids = new Set(messages.map(({ message_id: id }) => id));
  return {
    ...state,
    messages: merged.toSorted((one, other) => one.sequence - other.sequence),
    outbox: state.outbox.filter(({ messageId }) => !ids.has(messageId)),
  };
}

// The newest messages replace those with their numbers; older ones stay unless there is a hole in between.
function mergeNewest(state, newest, nextBefore) {
  if (!newest.length) return { messages: [], nextBefore };
  const first = newest[0].sequence;
  const older = state.messages.filter((message) => message.sequence < first);
  if (!older.length || older.at(-1).sequence !== first - 1) return { messages: newest, nextBefore };
  return { messages: [...older, ...newest], nextBefore: state.nextBefore };
}

function takeOlder(state, page) {
  const first = state.messages[0]?.sequence ?? Infinity;
  const older = page.messages.filter((message) => message.sequence < first);
  return { ...state, messages: [...older, ...state.messages], nextBefore: page.next_before ?? null };
}
