// A tool call as its card shows it: arguments, what is asked about it, what it waits for, what came of it. Pure.

import { interruptOf, statusOfCall } from "../client/tool_calls.js";
import { changesOf } from "./arguments.js";

const CALLS_OF_WAITS = { skip_wait: "skip", change_wait: "change", cancel_wait: "cancel" };

/** Return the card of a call. `part`: of the message that asked for it; `result`: of the one with its result, if there is one. */
export function cardOf(state, part, result) {
  const id = part.tool_call_id;
  const step = state.steps[id];
  const stored = state.snapshot?.tool_calls?.find((call) => call.tool_call_id === id);
  const decision = state.decisions[id] ?? null;
  const told = state.calls[id] ?? {};
  const interrupt = result ? null : interruptOf(state, id);
  const questions = (told.questions ?? []).map((question) => askedOf(state, question)).filter(Boolean);
  const asks = interrupt !== null && interrupt.kind !== "approval";
  return {
    key: id,
    name: part.tool_name,
    // A question of the model is shown as one.
    ...(part.tool_name === "ask_user" && (asks || questions.length) ? NO_ARGUMENTS : argumentsOf(part, decision, stored)),
    effect: told.effect ?? stored?.effect ?? null,
    status: statusOfCall(state, id, { stored, result, interrupt }),
    // Each look at remote work, and each run behind a wait, is an attempt of its own without that anything failed.
    attempt: told.task || told.records || told.questions ? 1 : Math.max(step?.attempt ?? 1, stored?.attempt ?? 1),
    output: result?.output ?? null,
    cutBytes: (result?.truncated && result.bytes) || null,
    cancellationReason: stored?.cancellation_reason ?? null,
    progress: result ? null : (told.progress ?? null),
    sofar: result ? null : (told.output ?? null),
    looks: told.task?.looks ?? null,
    records: told.records ?? [],
    questions,
    decision,
    ahead: Boolean(told.ahead),
    approval: interrupt && !asks ? approvalOf(state, part, interrupt) : null,
    question: asks ? questionOf(state, part, interrupt) : null,
    wait: result ? null : waitOf(state, id),
  };
}

const NO_ARGUMENTS = { arguments: null, requested: null, changes: [] };

function argumentsOf(part, decision, stored) {
  const approved = decision?.arguments ?? (stored?.requested_arguments ? stored.arguments : null);
  if (!approved) return { arguments: argumentsText(part), requested: null, changes: [] };
  return {
    arguments: JSON.stringify(approved, null, 2),
    requested: argumentsText(part),
    changes: part.arguments === undefined ? [] : changesOf(part.arguments, approved),
  };
}

function argumentsText(part) {
  if (part.arguments !== undefined) return JSON.stringify(part.arguments, null, 2);
  if (part.truncated) return `${part.arguments_text}… (only the start, of ${part.bytes} bytes)`;
  return part.arguments_text ?? null;
}

function approvalOf(state, part, interrupt) {
  return {
    interruptId: interrupt.interrupt_id,
    argumentsHash: interrupt.arguments_hash ?? null,
    editable: part.arguments ?? null, // only what is here as a whole
    deadline: interrupt.deadline ?? null,
    blocked: interrupt.blocked ?? null,
    deciding: state.deciding[interrupt.interrupt_id] ?? null,
  };
}

function questionOf(state, part, interrupt) {
  return {
    key: interrupt.interrupt_id,
    by: part.tool_name,
    text: interrupt.question ?? "",
    choices: interrupt.choices ?? [],
    freeText: interrupt.allows_free_text !== false,
    deadline: interrupt.deadline ?? null,
    deciding: state.deciding[interrupt.interrupt_id] ?? null,
  };
}

// A question that is over: answered, declined, too late, or withdrawn with its turn.
function askedOf(state, { key, question }) {
  const decision = state.decisions[key];
  if (!decision) return null;
  const answered = decision.answered === true;
  const late = decision.actor?.issuer === "perdure" && decision.actor.subject === "deadline";
  return {
    key,
    question,
    answer: answered ? decision.answer : null,
    outcome: answered ? "answered" : decision.cancellation_reason ? "withdrawn" : late ? "deadline_passed" : "declined",
    by: answered || !late ? (decision.actor?.subject ?? null) : null,
    message: late ? null : (decision.message ?? decision.rejection_message ?? null),
  };
}

/** Return what a call waits for besides people, and what can be done about it; null: nothing. */
function waitOf(state, id) {
  const waiting = (state.snapshot?.state?.waiting_for ?? []).find(
    (item) => item.id === id && !["approval", "question", "input", "retry"].includes(item.kind),
  );
  if (!waiting) return null;
  const told = (state.waits ?? []).find((item) => item.id === id && item.kind !== "approval") ?? {};
  const does = (told.calls ?? []).map(({ operation }) => CALLS_OF_WAITS[operation]).filter(Boolean);
  return {
    key: id,
    kind: waiting.kind,
    since: waiting.since,
    until: told.until ?? waiting.until ?? null,
    lookAt: told.next_look_at ?? null,
    name: told.name ?? null,
    reason: told.reason ?? null,
    does,
    doing: state.doing[`wait/${id}`] ?? null,
  };
}
