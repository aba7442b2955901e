// What an event says, in words for people. Pure.

import { duration, words } from "./format.js";

const STOPS = { stopped: "stopped", interrupted: "interrupted by the next message", superseded: "replaced by the next message" };

const WORDS = {
  turn_started: ({ retry_of: of, message_ids: ids }) =>
    `turn begins${of ? `, a retry of ${name(of)}` : ""}${ids?.length > 1 ? `, with ${ids.length} messages` : ""}`,
  turn_completed: ({ reason, policy_name: policy }) => `turn completed${reason ? ` (${words(policy ?? reason)})` : ""}`,
  turn_failed: ({ error, held }) => `turn failed: ${words(error?.code)}${held ? "; messages behind it wait" : ""}`,
  turn_stopping: ({ reason, actor }) => `${STOPS[reason] ?? words(reason)}${by(actor)}`,
  turn_cancelled: ({ reason, disposition }) =>
    `turn ended: ${STOPS[reason] ?? words(reason ?? "stopped")}${disposition === "discard" ? ", its answer is discarded" : ""}`,
  turn_steered: ({ steered_message_count: count }) => `redirected by ${count === 1 ? "a message" : `${count} messages`}`,
  model_started: () => "provider called",
  model_finished: ({ status, reason }) => `model ${words(status)}${reason ? ` (${words(reason)})` : ""}`,
  model_retry_scheduled: ({ retry_in_ms: ms, attempt, reason }) =>
    `provider failed (${words(reason)}), called again in ${duration(ms)}: reconnect ${attempt}`,
  attempt_reset: ({ reason }) => `partial answer thrown away (${words(reason)})`,
  text_delta: ({ text }) => `text “${short(text)}”`,
  reasoning_delta: ({ text }) => `reasoning “${short(text)}”`,
  usage_recorded: ({ recorded }) => `usage: ${figures(recorded)}`,
  tool_call_deferred: ({ tool_name: tool, requires_approval: asks }) => `model asks for ${tool}${asks ? ", which needs approval" : ""}`,
  tool_call_started: ({ tool_name: tool }) => `${tool} starts`,
  tool_progress: ({ text }) => `progress: ${short(text)}`,
  tool_call_finished: ({ tool_name: tool, status, cancellation_reason: why }) => `${tool} ${words(status)}${why ? ` (${words(why)})` : ""}`,
  interrupt_raised: ({ kind, question }) => (kind === "approval" ? "approval asked for" : `asks: “${short(question)}”`),
  interrupt_resolved: resolved,
  message_queued: ({ delivery }) => `message waits (${words(delivery)})`,
  message_removed: ({ actor }) => `waiting message taken back${by(actor)}`,
  "inbox.joined": () => "message joins the turn",
  "inbox.edited": ({ actor }) => `waiting message changed${by(actor)}`,
  "inbox.moved": ({ actor }) => `waiting message moved${by(actor)}`,
  timer_started: ({ name: of, until, reason }) => `waits until ${time(until)}${of ? ` (${of})` : reason ? `: ${short(reason)}` : ""}`,
  tool_task_started: ({ task_id: id }) => `remote work ${id} begins`,
  "task.looked": ({ status }) => `looked at the remote work: ${words(status)}`,
  "task.reconciling": () => "its outcome is being looked up",
  "task.cancelled": ({ cancelled }) => `remote work ${cancelled ? "was asked to stop" : "could not be asked to stop"}`,
  "tool.step_recorded": ({ name: of }) => `did “${of}”`,
  "tool.output": () => "shows what it has so far",
  "tool.awaits_event": ({ name: of, until }) => `waits for the event “${of}”${until ? `, until ${time(until)}` : ""}`,
  "tool.event_arrived": ({ name: of, actor }) => `the event “${of}” came${by(actor)}`,
  "wait.skipped": ({ actor }) => `wait cut short${by(actor)}`,
  "wait.changed": ({ until, actor }) => `time moved${until ? ` to ${time(until)}` : " away"}${by(actor)}`,
  "wait.cancelled": ({ actor }) => `wait cancelled${by(actor)}`,
  "approval.by_grant": () => "approved ahead",
  "approval.revoked": ({ actor }) => `approval ahead taken back${by(actor)}`,
  session_paused: ({ actor }) => `paused${by(actor)}`,
  session_resumed: ({ actor }) => `resumed${by(actor)}`,
  title_changed: ({ title, actor, by: whose }) => `title: “${short(title)}”${whose === "model" ? ", by a model" : by(actor)}`,
  "settings.changed": ({ actor }) => `settings changed${by(actor)}`,
  "hold.released": ({ actor }) => `messages go on${by(actor)}`,
};

const TONES = {
  turn_failed: "bad",
  model_retry_scheduled: "bad",
  attempt_reset: "bad",
  turn_completed: "good",
  turn_stopping: "ask",
  interrupt_raised: "ask",
  timer_started: "wait",
  "tool.awaits_event": "wait",
  tool_task_started: "wait",
};

/** Return what an event says, in one line; an unknown type is shown by its name. */
export function momentOf({ type, payload }) {
  const tell = Object.hasOwn(WORDS, type) ? WORDS[type] : null;
  return tell ? tell(payload ?? {}) : words(type).replaceAll(".", " ");
}

/** Return `good`, `bad`, `ask`, `wait` or `quiet` for an event. */
export function toneOf({ type, payload = {} }) {
  if (type === "interrupt_resolved") return payload.approved === false || payload.answered === false ? "bad" : "good";
  if (type === "tool_call_finished") return payload.status === "succeeded" ? "good" : "bad";
  if (type === "model_finished") return ["completed", "succeeded"].includes(payload.status) ? "good" : "bad";
  return Object.hasOwn(TONES, type) ? TONES[type] : "quiet";
}

/** Return who did it, for everybody but the one user of this machine. */
export function by(actor) {
  return actor?.subject ? ` by ${actor.issuer === "perdure" ? `Perdure (${words(actor.subject)})` : actor.subject}` : "";
}

/** Return figures of usage in words: `{input_tokens, output_tokens, …, cost}` as the server tells them. */
export function figures(usage) {
  if (!usage) return "not told";
  const { input_tokens: read, cached_input_tokens: cached, output_tokens: written, reasoning_tokens: thought, cost } = usage;
  const figure = (of) => (of?.value === undefined ? null : `${of.partial ? "≥ " : ""}${of.value.toLocaleString("en")}`);
  const [ins, outs] = [figure(read), figure(written)];
  const parts = [];
  if (ins !== null || outs !== null) {
    parts.push(`${ins ?? "?"} in${cached?.value ? ` (${figure(cached)} cached)` : ""}`);
    parts.push(`${outs ?? "?"} out${thought?.value ? ` (${figure(thought)} reasoning)` : ""}`);
  }
  if (cost?.value !== undefined) parts.push(money(cost));
  return parts.length ? parts.join(", ") : "not told by the provider";
}

/** Return a price as its provider reported it. */
export function money({ value, currency }) {
  return `${value}${currency ? ` ${currency}` : ""}`;
}

function resolved({ kind, approved, answered, arguments: changed, cancellation_reason: why, message, rejection_message: said, actor }) {
  const spoken = message ?? said;
  const outcome = why
    ? `withdrawn (${words(why)})`
    : kind === "approval"
      ? `${approved ? "approved" : "rejected"}${changed ? " with other arguments" : ""}`
      : answered
        ? "answered"
        : "not answered";
  return `${outcome}${by(actor)}${spoken ? `: “${short(spoken)}”` : ""}`;
}

function name(id) {
  return String(id).replace("-", " ");
}

function short(text) {
  const line = String(text ?? "").replaceAll("\n", " ");
  return line.length > 120 ? `${line.slice(0, 119)}…` : line;
}

function time(at) {
  return at ? new Date(at).toLocaleString([], { dateStyle: "medium", timeStyle: "medium", hour12: false }) : "?";
}
