// The lines of figures in the timeline, and where a step stands between the start and the end of its turn. Pure.

import { between, clock, duration, secondsUntil, words } from "./format.js";
import { by, figures, money } from "./moments.js";
import { usedSoFar } from "./story.js";
import { times } from "./story_steps.js";

const ASKS = { approval: "decided", question: "answered", input: "answered" };

/** A line breaks behind a dot, never before it. */
export function inLine(facts) {
  return facts.filter(Boolean).join("\u00a0· ");
}

/** Return the line of a turn. `now` in milliseconds gives one that runs its duration. */
export function turnFacts(turn, now) {
  if (!turn.startedAt) return "";
  return inLine([
    turn.retryOf && `retry of ${turn.retryOf.replace("-", " ")}`,
    clock(turn.startedAt, now),
    duration(between(turn.startedAt, turn.endedAt, now)),
    commitsText(turn.commits),
  ]);
}

/** Return what a turn cost, as far as its provider told, or an empty text. */
export function turnCost(turn) {
  const usage = turn.usage ?? usedSoFar(turn);
  const calls = turn.steps.filter(({ kind }) => kind === "model").length;
  const told = usage.input_tokens?.value !== undefined || usage.output_tokens?.value !== undefined || usage.cost?.value !== undefined;
  if (calls === 0) return "";
  return inLine([`${calls} model ${calls === 1 ? "call" : "calls"}`, told ? figures(usage) : "tokens not told by the provider"]);
}

/** Return the line of a step. */
export function stepFacts(step, now) {
  const facts = [];
  const ask = step.asks.at(-1);
  if (ask) facts.push(askText(ask, now));
  if (step.startedAt) {
    facts.push(clock(step.startedAt, now));
    facts.push(duration(between(step.startedAt, step.endedAt, now)));
  }
  if (step.looks || step.waits.some(({ kind }) => kind === "task")) {
    facts.push(step.looks === 1 ? "looked once" : `looked ${step.looks} times`);
  } else if (step.attempt > 1) facts.push(`attempt ${step.attempt}`);
  if (step.did.length) facts.push(`did ${step.did.join(", ")}`);
  const sum = (what) => step.attempts.reduce((total, attempt) => total + times(attempt[what]), 0);
  facts.push(counted(sum("retries"), "reconnect"), counted(sum("resets"), "reset"));
  if (step.retry) facts.push(`next call in ${secondsUntil(step.retry.until, now)} s`);
  if (step.reason) facts.push(words(step.reason));
  const used = step.attempts.filter(({ usage }) => usage).map(({ usage }) => usage);
  if (used.length === 1 && isTold(used[0])) facts.push(figures(used[0]));
  return inLine(facts);
}

/** Return one line for each attempt, for a step that had several. */
export function attemptFacts(step, now) {
  const attempts = step.attempts.toSorted((one, other) => one.number - other.number);
  if (attempts.length < 2) return [];
  return attempts.map((attempt) => ({
    key: attempt.number,
    status: attempt.status ?? (attempt.number < step.attempt ? "given_up" : step.endedAt ? step.status : "running"),
    text: inLine([
      `attempt ${attempt.number}`,
      attempt.startedAt && clock(attempt.startedAt, now),
      attempt.startedAt && (attempt.endedAt || attempt.number === step.attempt) && duration(between(attempt.startedAt, attempt.endedAt, now)),
      ...[attempt.retries, attempt.resets].flatMap((told) => (told.durable.length ? told.durable : told.live)).map(({ reason }) => words(reason)),
      attempt.usage && isTold(attempt.usage) && figures(attempt.usage),
    ]),
  }));
}

/**
 * Return the bars of a step: `{ from, to, tone }`, both from 0 to 1 of its turn. Waiting for people and times is told
 * apart from work.
 */
export function barsOf(step, turn, now) {
  if (!turn.startedAt) return [];
  const start = Date.parse(turn.startedAt);
  const end = turn.endedAt ? Date.parse(turn.endedAt) : now;
  const place = (at) => Math.min(1, Math.max(0, (Date.parse(at) - start) / Math.max(1, end - start)));
  const until = (at) => (at ? place(at) : 1);
  const works = step.attempts
    .filter(({ startedAt }) => startedAt)
    .map((attempt) => ({
      from: place(attempt.startedAt),
      to: until(attempt.endedAt ?? nextStart(step, attempt) ?? step.endedAt),
      tone: attempt.endedAt ? (["succeeded", "completed"].includes(attempt.status) ? "good" : "bad") : attempt.number < step.attempt ? "bad" : "busy",
    }));
  const asks = step.asks.map((ask) => ({ from: place(ask.at), to: until(ask.decidedAt ?? step.endedAt), tone: "ask" }));
  const waits = step.waits.map((wait) => ({ from: place(wait.at), to: until(wait.endedAt ?? step.endedAt), tone: "wait" }));
  return [...works, ...waits, ...asks];
}

/** Return what a session used, for the head of the timeline, or an empty text. */
export function sessionUsage(usage) {
  if (!usage?.model_calls) return "";
  const told = isTold(usage) ? figures({ ...usage, cost: undefined }) : null;
  return inLine([`${usage.model_calls.toLocaleString("en")} model ${usage.model_calls === 1 ? "call" : "calls"}`, told, usage.cost && money(usage.cost)]);
}

function isTold(usage) {
  return [usage.input_tokens, usage.output_tokens, usage.cost].some((figure) => figure?.value !== undefined);
}

function askText(ask, now) {
  if (!ask.decidedAt) return `asked ${clock(ask.at, now)}${ask.deadline ? `, until ${clock(ask.deadline, now)}` : ""}`;
  const did = ask.withdrawn ? "withdrawn" : ask.approved === true ? "approved" : ask.approved === false && ask.kind === "approval" ? "rejected" : ASKS[ask.kind];
  return `${did ?? "decided"} after ${duration(between(ask.at, ask.decidedAt, now))}${by(ask.by)}`;
}

function counted(count, word) {
  return count ? `${count} ${word}${count === 1 ? "" : "s"}` : null;
}

function commitsText(commits) {
  return commits.length ? `${commits.length} ${commits.length === 1 ? "commit" : "commits"}` : null;
}

function nextStart(step, attempt) {
  const later = step.attempts.filter(({ number, startedAt }) => number > attempt.number && startedAt);
  return later.length ? later.map(({ startedAt }) => startedAt).sort()[0] : null;
}
