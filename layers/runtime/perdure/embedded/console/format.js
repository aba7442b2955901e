// Times, durations and the words for codes. Pure.

const WORDS = {
  awaiting_approval: "needs approval",
  awaiting_answer: "needs an answer",
  waiting_for_event: "waits for an event",
  waiting_for_timer: "waits for a timer",
  waiting_for_task: "waits for a task",
  approved: "ready to run",
  outcome_unknown: "outcome unknown",
  cancelled: "stopped",
  aborted: "stopped",
  truncated: "cut off at the output limit",
  filtered: "stopped by the content filter",
  interrupted: "stopped here",
  superseded: "replaced by the next message: the model does not see it",
  steered: "redirected",
  not_accepted: "not accepted",
  waiting_for_user_message: "idle",
  running_model: "model is running",
  running_tools: "tools are running",
  compacting_context: "compacting",
};

const TONES = {
  succeeded: "good",
  completed: "good",
  running: "busy",
  stopping: "busy",
  awaiting_approval: "ask",
  awaiting_answer: "ask",
  failed: "bad",
  outcome_unknown: "bad",
  truncated: "bad",
  filtered: "bad",
  refused: "bad",
  not_accepted: "bad",
};

/** Words for a status code; an unknown code is shown as it is, with spaces. */
export function words(code) {
  return Object.hasOwn(WORDS, code) ? WORDS[code] : String(code).replaceAll("_", " ");
}

/** `good`, `bad`, `busy`, `ask` or `quiet`. */
export function tone(code) {
  return Object.hasOwn(TONES, code) ? TONES[code] : "quiet";
}

/** Words for a tool's effect. */
export function effectWords(effect) {
  return (
    { read: "reads", idempotent_write: "writes, repeatable", non_idempotent_write: "writes, at most once" }[effect] ??
    words(effect)
  );
}

/** Who wrote a message, for everybody but a person on this machine; else null (spec INBOX-18). */
export function writerOf({ source = "person", actor = null }) {
  const subject = actor && actor.issuer !== "local" ? actor.subject : null;
  if (source === "person") return subject;
  return subject ? `${source} for ${subject}` : source;
}

/** What a waiting or sent message carries besides its text, or null. */
export function filesText(files) {
  return files.length ? `${files.length === 1 ? "File" : "Files"}: ${files.map((file) => file.name ?? file.reference).join(", ")}` : null;
}

/** Time of day, and the date when it is not today's. `now` is in milliseconds. */
export function clock(at, now) {
  const date = new Date(at);
  const time = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
  if (date.toDateString() === new Date(now).toDateString()) return time;
  return `${date.toLocaleDateString([], { day: "numeric", month: "short" })}, ${time}`;
}

/** Time of day with its milliseconds. */
export function preciseClock(at) {
  const date = new Date(at);
  const time = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
  return `${time}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

/** Whole seconds until a time, for a countdown; 0 when it has come. */
export function secondsUntil(at, now) {
  return Math.max(0, Math.ceil((Date.parse(at) - now) / 1000));
}

/** How far away a time is, in whole seconds. */
export function remaining(at, now) {
  const seconds = secondsUntil(at, now);
  if (seconds === 0) return "now";
  if (seconds < 60) return `in ${seconds} s`;
  if (seconds < 3600) return `in ${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `in ${duration(seconds * 1000)}`;
}

/** A time as a field for local date and time wants it. */
export function localInput(at) {
  const date = new Date(at);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** A duration given in milliseconds. */
export function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

/** Milliseconds between two times, up to `now` while the second is not known. */
export function between(from, to, now) {
  return (to ? Date.parse(to) : now) - Date.parse(from);
}
