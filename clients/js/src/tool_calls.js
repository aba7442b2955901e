// The tool calls of the running turn, or of the latest one: the snapshot's, with what events have told since. Pure.

import { runningTurn } from "./turns.js";

const FINAL = new Set(["succeeded", "failed", "rejected", "outcome_unknown"]);

/**
 * Return the calls in the order in which the model asked for them, each as the server has it, with the status of now
 * and `progress`: the last word of a tool that runs.
 */
export function toolCallsOf(state) {
  const stored = state.snapshot?.tool_calls ?? [];
  const known = new Set(stored.map((call) => call.tool_call_id));
  const turn = runningTurn(state);
  const newer = (turn?.steps ?? []).map((id) => state.steps[id]).filter((step) => step?.kind === "tool" && !known.has(step.stepId));
  return [...stored, ...newer.map((step) => asked(state, step))].map((call) => {
    const status = statusOfCall(state, call.tool_call_id, { stored: call });
    const progress = FINAL.has(status) ? undefined : state.calls[call.tool_call_id]?.progress?.text;
    return { ...call, status, ...(progress !== undefined && { progress }) };
  });
}

/** Return the status of a call: what is stored of it wins over what was decided, and that over what was asked. */
export function statusOfCall(state, id, { stored, result, interrupt = interruptOf(state, id) } = {}) {
  const step = state.steps[id];
  const decision = state.decisions[id];
  if (result) return result.status;
  if (step && FINAL.has(step.status)) return step.status;
  if (interrupt) return interrupt.kind === "approval" ? "awaiting_approval" : "awaiting_answer";
  if (step?.status === "running") return "running";
  if (decision && stored?.status === "awaiting_approval") return decision.approved ? "approved" : "rejected";
  if (stored?.status === "awaiting_answer" && step && !step.status.startsWith("awaiting_")) return step.status;
  return stored?.status ?? step?.status ?? "unknown";
}

/** Return the open interrupt of a call, or null. */
export function interruptOf(state, id) {
  const pending = (state.snapshot?.pending_interrupts ?? []).find(
    (interrupt) => interrupt.tool_call_id === id && !state.decisions[interrupt.interrupt_id],
  );
  return pending ?? null;
}

function asked(state, { stepId, name, attempt }) {
  const { effect, requiresApproval } = state.calls[stepId] ?? {};
  return {
    tool_call_id: stepId,
    tool_name: name,
    ...(effect !== undefined && { effect }),
    ...(requiresApproval !== undefined && { requires_approval: requiresApproval }),
    attempt,
  };
}
