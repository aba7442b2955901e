// One open session: loads it, follows it, and takes what the user does. All of it goes through the reducer.

import { initialState, reduce } from "../client/reducer.js";
import { ApiError, get, pause, sessionPath } from "./api.js";
import { commandsOf } from "./commands.js";
import { linkTo } from "./link.js";

const PAGE = 500;
const GAP_MS = 200;

// Messages, interrupts, the inbox and usage come with the snapshot; these events say that one of them changed.
const CHANGES = new Set([
  "turn_started", "turn_completed", "turn_failed", "turn_stopping", "turn_cancelled", "turn_steered", "model_finished",
  "tool_call_started", "tool_call_finished", "attempt_reset", "interrupt_raised", "interrupt_resolved",
  "message_queued", "message_removed", "usage_recorded", "model_retry_scheduled", "session_paused", "session_resumed",
  "inbox.joined", "inbox.edited", "inbox.moved", "hold.released", "settings.changed", "session.closed",
  "session.reopened", "session.started", "title_changed", "timer_started", "tool_task_started", "task.looked", "task.reconciling",
  "tool.awaits_event", "tool.event_arrived", "wait.skipped", "wait.changed", "wait.cancelled",
  "approval.by_grant", "approval.revoked",
]);

const SCHEDULED = /^(schedule\.|wait\.)/;

// What only the list of waits tells: what can be done, what is waited for, when remote work is looked at next.
const TOLD_BY_WAITS = new Set(["timer", "event", "task", "result"]);

/**
 * Open a session. `onState(state)` is called after each change, `onLink(state)` when the stream opens or breaks (a state
 * of `client/connection.js`),
 * `onError(message)` with what the server refused, `onChange()` when the session list may have changed, and
 * `onEvents(events)` with each event that came.
 */
export function openSession(sessionId, { onState, onLink, onError, onChange, onEvents }) {
  let state = initialState(sessionId);
  let stream = null;
  let closed = false;
  let wanted = false; // a newer snapshot is wanted
  let schedulesWanted = true;
  let fetching = null;
  let loaded = false;
  let beginning = null; // where a session begins that nobody had written to: it is followed from there

  const exists = () => (state.snapshot === null ? undefined : Boolean(state.snapshot.state));

  function apply(action) {
    if (closed) return;
    const before = exists();
    state = reduce(state, action);
    if (exists() === false) beginning = state.snapshot.cursor;
    else if (exists() && !before) stream?.begun?.();
    if (action.type === "events" || action.type === "stream") onEvents(action.events);
    onState(state);
  }

  // One request at a time; a change that comes meanwhile asks for one more. Resolves when the state is up to date.
  function refresh() {
    wanted = true;
    fetching ??= fetchSnapshots().finally(() => {
      fetching = null;
    });
    return fetching;
  }

  async function fetchSnapshots() {
    while (wanted && !closed) {
      wanted = false;
      const asOf = state.sequence ?? 0;
      try {
        const snapshot = await get(sessionPath(sessionId));
        apply({ type: "snapshot", snapshot, asOf });
        startStream();
        if (snapshot.state?.waiting_for?.some(({ kind }) => TOLD_BY_WAITS.has(kind))) await fetchWaits();
        if (schedulesWanted) await fetchSchedules();
      } catch (error) {
        if (error instanceof ApiError && !error.retryable) {
          onError(error.message);
          break;
        }
        wanted = true;
        await pause(700);
      }
    }
  }

  async function fetchWaits() {
    try {
      const { waits } = await get(sessionPath(sessionId, "waits"));
      apply({ type: "waits", waits });
    } catch (error) {
      if (!(error instanceof ApiError) || error.retryable) throw error;
      apply({ type: "waits", waits: null }); // then nothing can be done about them here
    }
  }

  async function fetchSchedules() {
    schedulesWanted = false;
    try {
      const { schedules } = await get(sessionPath(sessionId, "schedules"));
      apply({ type: "schedules", schedules });
    } catch (error) {
      schedulesWanted = true;
      throw error;
    }
  }

  function refreshSchedules() {
    schedulesWanted = true;
    return refresh();
  }

  // The timeline is made from the whole retained history; then the stream goes on where the pages end.
  async function loadHistory() {
    while (!closed) {
      try {
        const page = await get(sessionPath(sessionId, "events"), { after: state.cursor, limit: PAGE });
        if (page.events.length === 0) return;
        apply({ type: "events", events: page.events });
        // A page without a durable event is the progress of a running step: the stream brings that as well.
        if (!page.events.some((event) => event.sequence !== undefined)) return;
      } catch (error) {
        if (error instanceof ApiError && !error.retryable) {
          onError(error.message);
          return;
        }
        onLink({ status: "connecting" });
        await pause(700);
      }
    }
  }

  function takeEvents(events, cursor, whole) {
    apply({ type: whole ? "events" : "stream", events, cursor });
    if (state.gap) {
      stream?.close();
      stream = null;
      fillGap();
      return;
    }
    const durable = events.filter(({ sequence }) => sequence !== undefined);
    if (durable.some(({ type }) => SCHEDULED.test(type))) refreshSchedules();
    if (durable.some(({ type }) => CHANGES.has(type))) {
      refresh();
      onChange();
    }
  }

  function startStream() {
    if (closed || !loaded || stream || document.hidden) return;
    stream = linkTo(sessionId, {
      cursor: () => state.cursor ?? beginning,
      exists,
      onAbsent: refresh,
      onEvents: (events, cursor, whole) => closed || takeEvents(events, cursor, whole),
      onSnapshot: (snapshot) => apply({ type: "snapshot", snapshot, restart: true }),
      onCursorRefused: startAnew,
      onAttached: refresh,
      onConnection: (link) => closed || onLink(link),
      onDenied(error) {
        onLink({ status: "denied" });
        onError(error.message);
      },
    });
  }

  // The events behind the cursor are no longer kept: what is stored is shown, and what follows.
  async function startAnew() {
    try {
      apply({ type: "snapshot", snapshot: await get(sessionPath(sessionId)), restart: true });
      stream?.restart();
    } catch (error) {
      onError(error.message);
    }
  }

  // A hidden tab lets its connection go (a browser has six per server) and catches up when it is seen again.
  function onVisibility() {
    if (document.hidden) {
      stream?.close();
      stream = null;
    } else startStream();
  }

  // Pages hold events of every type, also of those that a newer server has and the stream was not asked for.
  async function fillGap() {
    loaded = false;
    apply({ type: "stream_restarted" });
    await pause(GAP_MS);
    refresh();
    await catchUp();
  }

  async function catchUp() {
    await loadHistory();
    loaded = true;
    startStream();
  }
  document.addEventListener("visibilitychange", onVisibility);
  refresh();
  catchUp();

  const commands = commandsOf({ sessionId, apply, refresh, refreshSchedules, onError, onChange });
  return {
    ...commands,
    older: () => commands.older(state.nextBefore),
    retryLink: () => stream?.retryNow(),
    giveUpLink: () => stream?.giveUp(),
    close() {
      closed = true;
      stream?.close();
      document.removeEventListener("visibilitychange", onVisibility);
    },
  };
}
