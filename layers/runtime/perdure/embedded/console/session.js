// One open session: loads it, follows it, and sends what the user does. All of it goes through the reducer.

import { ApiError, get, pause, post, sessionPath } from "./api.js";
import { initialState, reduce } from "./reducer.js";
import { follow } from "./stream.js";

const PAGE = 500;

// Messages, interrupts, the inbox and usage come with the snapshot; these events say that one of them changed.
const CHANGES = new Set([
  "turn_started", "turn_completed", "turn_failed", "turn_stopping", "turn_cancelled", "turn_steered", "model_finished",
  "tool_call_started", "tool_call_finished", "attempt_reset", "interrupt_raised", "interrupt_resolved",
  "message_queued", "message_removed", "usage_recorded",
]);

/**
 * Open a session. `onState(state)` is called after each change, `onOnline(bool)` when the stream opens or breaks,
 * `onError(message)` with what the server refused, `onChange()` when the session list may have changed.
 */
export function openSession(sessionId, { onState, onOnline, onError, onChange }) {
  let state = initialState(sessionId);
  let stream = null;
  let closed = false;
  let wanted = false; // a newer snapshot is wanted
  let fetching = null;
  let loaded = false;

  function apply(action) {
    if (closed) return;
    state = reduce(state, action);
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
        onOnline(false);
        await pause(700);
      }
    }
  }

  function takeEvent(event) {
    apply({ type: "event", event });
    if (state.gap) {
      apply({ type: "stream_restarted" });
      stream.restart();
      return;
    }
    if (event.sequence !== undefined && CHANGES.has(event.type)) {
      refresh();
      onChange();
    }
  }

  function startStream() {
    stream = follow(sessionPath(sessionId, "events"), {
      cursor: () => state.cursor,
      onEvent: takeEvent,
      onStatus(online) {
        onOnline(online);
        if (online) refresh();
      },
    });
  }

  // A hidden tab lets its connection go (a browser has six per server) and catches up when it is seen again.
  function onVisibility() {
    if (document.hidden) {
      stream?.close();
      stream = null;
    } else if (loaded && !stream && !closed) startStream();
  }

  async function start() {
    refresh();
    await loadHistory();
    loaded = true;
    if (!closed && !document.hidden) startStream();
  }
  document.addEventListener("visibilitychange", onVisibility);
  start();

  return {
    /** Send a message; resolves to false when the server refused it. */
    async send(text) {
      const messageId = crypto.randomUUID();
      apply({ type: "send", messageId, text });
      try {
        await post(sessionPath(sessionId, "inputs"), { text, message_id: messageId }, {
          key: messageId,
          onDelay: (reason) => apply({ type: "send_delayed", messageId, problem: `${reason} Trying again…` }),
        });
        refresh();
        onChange();
        return true;
      } catch (error) {
        apply({ type: "send_refused", messageId });
        onError(error.message);
        return false;
      }
    },

    /** Approve or reject a call as it was shown. */
    async decide(interruptId, approved, { message, argumentsHash }) {
      apply({ type: "decide", interruptId, approved });
      const body = { approved };
      if (message) body.message = message;
      if (argumentsHash) body.arguments_hash = argumentsHash;
      try {
        await post(sessionPath(sessionId, "interrupts", interruptId), body, { onDelay: onError });
        onError(null);
      } catch (error) {
        onError(error.message);
      }
      await refresh(); // an approval that is no longer open is not offered again (field case F045)
      apply({ type: "decide_answered", interruptId });
    },

    /** Stop the running turn; the page shows it at once, a refusal takes that back. */
    async stop(turnId) {
      apply({ type: "stop", turnId });
      try {
        const { result } = await post(sessionPath(sessionId, "stop"), { turn_id: turnId }, { onDelay: onError });
        if (result !== "recorded" && result !== "already_recorded") {
          apply({ type: "stop_refused", turnId });
          if (result !== "too_late") onError(`The turn was not stopped: ${String(result).replaceAll("_", " ")}.`);
        }
      } catch (error) {
        apply({ type: "stop_refused", turnId });
        onError(error.message);
      }
      refresh();
    },

    /** Load the messages before the oldest one that is shown. */
    async older() {
      try {
        const page = await get(sessionPath(sessionId, "messages"), { before: state.nextBefore, limit: 50 });
        apply({ type: "older_messages", page });
      } catch (error) {
        onError(error instanceof ApiError ? error.message : "The server can't be reached.");
      }
    },

    close() {
      closed = true;
      stream?.close();
      document.removeEventListener("visibilitychange", onVisibility);
    },
  };
}
