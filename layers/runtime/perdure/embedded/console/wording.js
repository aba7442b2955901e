// The lines of text around the conversation. Pure.

import { clock, secondsUntil, words } from "./format.js";

const KINDS = {
  approval: "an approval",
  question: "an answer",
  input: "an input",
  timer: "a timer",
  event: "an event",
  result: "a result",
  task: "a task",
  retry: "the model's provider",
};
const PEOPLE_FIRST = ["approval", "question", "input"];

const BLOCKED = {
  auth: "The model's provider refused the credential. Messages wait until there is another one,",
  credits: "The account at the model's provider is out of credit. Messages wait until the credential changes,",
};

/**
 * What a session waits for, for a badge: `{ text, tone, id, until }`, or null. People come first: what they can do at once.
 *
 * @param {{kind: string, id: string, until?: string}[]} waiting - as the server lists it
 */
export function waitingBadge(waiting) {
  if (!waiting.length) return null;
  const first = waiting.find(({ kind }) => PEOPLE_FIRST.includes(kind)) ?? waiting[0];
  const others = waiting.length - 1;
  return {
    text: `waits for ${KINDS[first.kind] ?? words(first.kind)}${others ? ` and ${others} more` : ""}`,
    tone: PEOPLE_FIRST.includes(first.kind) ? "ask" : "quiet",
    id: first.id,
    until: first.until ?? null,
  };
}

/** One line on what the session does. It is read out when it changes, so it holds no clock that ticks. */
export function activityText({ activity, indicator, waiting }, now) {
  const waits = waiting.map((item) => {
    const until = item.until ? `, until ${clock(item.until, now)}` : "";
    return `Waits for ${KINDS[item.kind] ?? words(item.kind)} since ${clock(item.since, now)}${until}`;
  });
  switch (activity.kind) {
    case "idle":
      return indicator === "starting" ? "Starting…" : "";
    case "stopping":
      return "Stopping: what has started is being finished.";
    case "steering":
      return "Redirecting: what has started is being finished.";
    case "paused":
      return "Paused in the middle of a turn.";
    case "retry":
      return `The model's provider failed${activity.reason ? ` (${words(activity.reason)})` : ""}.`;
    case "tools":
      return [`Running ${activity.names.join(", ")}…`, ...waits].join(" · ");
    case "waiting":
      return waits.join(" · ");
    default: {
      const unseen = indicator === "starting" ? "Starting…" : "Thinking…";
      const doing = activity.kind === "writing" ? "Writing…" : unseen;
      return activity.attempt > 1 ? `${doing} Attempt ${activity.attempt}.` : doing;
    }
  }
}

/** The countdown to the next call of the provider, or an empty text. */
export function countdownText({ activity }, now) {
  if (activity.kind !== "retry") return "";
  const left = secondsUntil(activity.until, now);
  return left ? `Next attempt in ${left} s` : "Trying again…";
}

/** Why nothing begins or is taken, or an empty text. */
export function gateText({ closed, paused, held, blockedReason, inbox }) {
  if (closed) return "Closed: this session takes no more messages.";
  if (paused) return "Paused: what runs is finished, and nothing new begins until you resume.";
  if (blockedReason) {
    const why = BLOCKED[blockedReason] ?? `Blocked (${words(blockedReason)}). Messages wait until that changes,`;
    return `${why} or until you retry or dismiss the failed turn.`;
  }
  return held && inbox.length ? "Messages wait until you retry or dismiss the failed turn." : "";
}
