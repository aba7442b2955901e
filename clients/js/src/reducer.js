// The one place where server data becomes the page's state: (state, action) -> state, pure, nothing is changed in place.
//
// The snapshot is the truth about messages; events tell what happens until the next snapshot, and are the only
// source of live text and of the timeline.

import { foldEvent } from "./events.js";
import { takeLocal } from "./local.js";

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
    gap: null, // { expected, got }: a durable event was missed; the stream starts again at `cursor`
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
    case "event":
      return takeEvent(state, action.event);
    case "events":
      return takePage(state, action.events);
    case "snapshot":
      return takeSnapshot(state, action.snapshot, action.asOf ?? 0);
    case "waits":
      return { ...state, waits: action.waits };
    case "schedules":
      return { ...state, schedules: action.schedules };
    case "older_messages":
      return takeOlder(state, action.page);
    case "stream_restarted":
      return { ...state, gap: null };
    default:
      return takeLocal(state, action);
  }
}

// Durable events are numbered without gaps; an event that was seen live comes again as a durable one.
function takeEvent(state, event) {
  if (event.sequence === undefined) {
    return state.gap ? state : foldEvent({ ...state, cursor: event.cursor ?? state.cursor }, event);
  }
  if (state.sequence !== null && event.sequence <= state.sequence) return state;
  if (state.sequence !== null && event.sequence > state.sequence + 1) {
    return { ...state, gap: { expected: state.sequence + 1, got: event.sequence } };
  }
  const taken = { ...state, gap: null, sequence: event.sequence, cursor: event.cursor ?? state.cursor };
  return foldEvent(taken, event);
}

// A page holds all that follows its cursor, so its first event leaves nothing out: what seems to be missing before it
// were events whose type the stream did not bring, and the cursor of a live event had gone past them.
function takePage(state, events) {
  const first = events.find((event) => event.sequence !== undefined);
  const jumps = first && state.sequence !== null && first.sequence > state.sequence + 1;
  return events.reduce(takeEvent, jumps ? { ...state, sequence: first.sequence - 1 } : state);
}

function takeSnapshot(state, snapshot, asOf) {
  const known = state.snapshot?.state?.version ?? 0;
  const version = snapshot.state?.version ?? null;
  if (version !== null && version < known) return state; // an answer that was overtaken
  if (version === null && known) return { ...initialState(state.sessionId), snapshot }; // purged
  const { messages, next_before: nextBefore, ...rest } = snapshot;
  const shown = new Set([...messages, ...(snapshot.inbox ?? [])].map((message) => message.message_id));
  return {
    ...state,
    ...mergeNewest(state, messages, nextBefore ?? null),
    snapshot: rest,
    asOf: Math.max(state.asOf, asOf),
    partials: Object.fromEntries(
      Object.entries(state.partials).filter(([, { finishedSequence }]) => !(finishedSequence <= asOf)),
    ),
    outbox: state.outbox.filter((item) => !shown.has(item.messageId)),
    stopping: state.stopping && rest.state?.turn_id === state.stopping.turnId ? state.stopping : null,
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
