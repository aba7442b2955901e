// The live events of one session. EventSource goes on by itself after a cut, with its Last-Event-ID; only when it has
// given up (the server answered with an error) a new one starts behind the last event that was taken.

const TYPES = [
  "turn_started", "turn_completed", "turn_failed", "turn_stopping", "turn_cancelled", "turn_steered", "model_started",
  "model_finished", "model_retry_scheduled", "attempt_reset", "text_delta", "reasoning_delta",
  "tool.arguments_delta", "progress.gap", "tool_call_deferred",
  "tool_call_started", "tool_progress", "tool_call_finished", "interrupt_raised", "interrupt_resolved",
  "timer_started", "tool_task_started", "message_queued", "message_removed", "plan_updated", "plan_execution_started",
  "usage_recorded", "compaction_started", "compaction_finished", "title_changed", "session_paused", "session_resumed",
  "inbox.edited", "inbox.joined", "inbox.moved", "hold.released", "settings.changed", "session.closed",
  "session.reopened", "session.seeded", "session.started", "task.looked", "task.reconciling", "task.cancelled",
  "tool.step_recorded", "tool.output", "tool.awaits_event", "tool.event_arrived", "wait.skipped", "wait.changed",
  "wait.cancelled", "schedule.set", "schedule.fired", "schedule.late", "schedule.failed", "schedule.skipped",
  "schedule.cancelled", "approval.by_grant", "approval.revoked",
];

const REOPEN_MS = 1000;

/**
 * Follow a session. `cursor()` tells where a new stream starts; `onEvent` gets each event, `onStatus` gets `true`
 * when the stream is open and `false` when it is not. Returns `{ close() }`.
 *
 * A browser hears only of types that it was told: an event of another one shows as a gap in the sequence.
 */
export function follow(path, { cursor, onEvent, onStatus }) {
  let source = null;
  let timer = null;

  function open() {
    clearTimeout(timer);
    source?.close();
    const after = cursor();
    const current = new EventSource(after ? `${path}?after=${encodeURIComponent(after)}` : path);
    source = current;
    const take = (message) => source === current && onEvent(JSON.parse(message.data));
    // The server may name its frames by type or not at all.
    for (const type of ["message", ...TYPES]) current.addEventListener(type, take);
    current.addEventListener("open", () => source === current && onStatus(true));
    current.addEventListener("error", () => {
      if (source !== current) return;
      onStatus(false);
      if (current.readyState === EventSource.CLOSED) reopenSoon();
    });
  }

  function reopenSoon() {
    clearTimeout(timer);
    timer = setTimeout(open, REOPEN_MS);
  }

  open();
  return {
    close() {
      clearTimeout(timer);
      source.close();
      source = null;
    },
  };
}
