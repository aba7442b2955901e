// The timeline, its figures, and the graph of a run. Run by `test_reducer.py`.

import assert from "node:assert/strict";
import { test } from "node:test";

import { attemptFacts, barsOf, sessionUsage, stepFacts, turnCost } from "../../layers/runtime/perdure/embedded/console/facts.js";
import { graphOf } from "../../layers/runtime/perdure/embedded/console/graph.js";
import { momentOf } from "../../layers/runtime/perdure/embedded/console/moments.js";
import { storyOf } from "../../layers/runtime/perdure/embedded/console/story.js";
import { AT, STARTED, anEvent, at, delta } from "./builders.mjs";

const NOW = Date.parse(at(60));
const told = (...actions) => storyOf(actions.map(({ event }, index) => ({ ...event, version: event.sequence && index + 1 })));
const ofCall = (type, sequence, more = {}) =>
  anEvent(type, { sequence, step: "call-2-0", tool_call_id: "call-2-0", tool_name: "refund_order", ...more });
const asked = ofCall("tool_call_deferred", 3, { effect: "non_idempotent_write", requires_approval: true, step: "model-1-0", second: 2 });
const raised = anEvent("interrupt_raised", { sequence: 4, interrupt_id: "call-2-0", kind: "approval", tool_call_id: "call-2-0", second: 2 });
const approved = anEvent("interrupt_resolved", {
  sequence: 5, interrupt_id: "call-2-0", kind: "approval", approved: true, actor: { issuer: "idp", subject: "ada" }, second: 14,
});

test("what was heard live and recorded later is told once", () => {
  const [turn] = told(
    STARTED,
    anEvent("model_started", { step: "model-1-0", second: 1 }),
    delta("ha"),
    anEvent("attempt_reset", { step: "model-1-0", reason: "cut" }),
    anEvent("model_retry_scheduled", { step: "model-1-0", retry_in_ms: 250, reason: "cut", attempt: 1 }),
    anEvent("model_started", { sequence: 2, step: "model-1-0", second: 1 }),
    anEvent("attempt_reset", { sequence: 3, step: "model-1-0", reason: "cut" }),
    anEvent("model_retry_scheduled", { sequence: 4, step: "model-1-0", retry_in_ms: 250, reason: "cut", attempt: 1 }),
    anEvent("usage_recorded", { sequence: 5, step: "model-1-0", recorded: { input_tokens: { value: 12 } } }),
    anEvent("model_finished", { sequence: 6, step: "model-1-0", status: "completed", second: 4 }),
  );

  const [step] = turn.steps;
  assert.deepEqual([step.status, step.attempt, step.startedAt, step.endedAt], ["completed", 1, at(1), at(4)]);
  assert.match(stepFacts(step, NOW), /3\.0 s.*1 reconnect.*1 reset.*12 in, \? out/);
  assert.deepEqual(step.moments.map(({ sequence }) => sequence), [2, 3, 4, 5, 6]);
});

test("a lost attempt is told beside the one that went on", () => {
  const [turn] = told(
    STARTED,
    anEvent("model_started", { sequence: 2, step: "model-1-0", second: 1 }),
    anEvent("attempt_reset", { sequence: 3, step: "model-1-0", reason: "lost", second: 8 }),
    anEvent("model_started", { sequence: 4, step: "model-1-0", attempt: 2, second: 9 }),
    anEvent("model_finished", { sequence: 5, step: "model-1-0", attempt: 2, status: "completed", second: 11 }),
  );

  const [step] = turn.steps;
  assert.deepEqual([step.status, step.attempt, step.endedAt], ["completed", 2, at(11)]);
  assert.match(stepFacts(step, NOW), /attempt 2.*1 reset/);
  assert.deepEqual(attemptFacts(step, NOW).map(({ status }) => status), ["given_up", "completed"]);
  assert.match(attemptFacts(step, NOW)[0].text, /attempt 1.*lost/);
  assert.deepEqual(barsOf(step, turn, NOW).map(({ tone }) => tone), ["bad", "good"]);
});

test("an approval is told with who decided after how long, and its wait apart from the work", () => {
  const turns = told(STARTED, asked, raised, approved, ofCall("tool_call_started", 6, { second: 14 }), ofCall("tool_call_finished", 7, { status: "succeeded", second: 15 }));

  const [step] = turns[0].steps;
  assert.deepEqual([step.kind, step.name, step.status], ["tool", "refund_order", "succeeded"]);
  assert.match(stepFacts(step, NOW), /^approved after 12\.0 s by ada/);
  const bars = barsOf(step, { ...turns[0], endedAt: at(20) }, NOW);
  assert.deepEqual(bars, [{ from: 0.7, to: 0.75, tone: "good" }, { from: 0.1, to: 0.7, tone: "ask" }]);
});

test("a call that was rejected is a step that never started", () => {
  const rejected = { ...approved, event: { ...approved.event, payload: { ...approved.event.payload, approved: false } } };
  const [turn] = told(STARTED, asked, raised, rejected, ofCall("tool_call_finished", 6, { status: "rejected", second: 14 }));

  const [step] = turn.steps;
  assert.deepEqual([step.status, step.startedAt], ["rejected", null]);
  assert.match(stepFacts(step, NOW), /^rejected after 12\.0 s by ada/);
});

test("looks at remote work are no attempts, and what a tool did and waited for is told", () => {
  const [turn] = told(
    STARTED,
    ofCall("tool_call_started", 3, { second: 1 }),
    ofCall("tool.step_recorded", 4, { name: "weigh", second: 2 }),
    ofCall("tool_task_started", 5, { task_id: "report-1", poll_interval_seconds: 5, second: 2 }),
    ofCall("task.looked", 6, { attempt: 2, status: "pending", second: 7 }),
    ofCall("task.looked", 7, { attempt: 3, status: "pending", second: 12 }),
  );

  const [step] = turn.steps;
  assert.equal(step.status, "waiting_for_task");
  assert.match(stepFacts(step, NOW), /looked 2 times.*did weigh/);
  assert.deepEqual(barsOf(step, turn, NOW).at(-1), { from: 2 / 60, to: 1, tone: "wait" });
});

test("turns come in order, with how they ended and what they cost", () => {
  const usage = {
    input_tokens: { value: 1200 }, cached_input_tokens: { value: 1000 }, output_tokens: { value: 80 }, reasoning_tokens: {},
    cost: { value: "0.0123", currency: "USD" }, model_calls: 1,
  };
  const turns = told(
    STARTED,
    anEvent("model_started", { sequence: 2, step: "model-1-0" }),
    anEvent("turn_completed", { sequence: 3, usage, message_count: 2 }),
    anEvent("turn_started", { sequence: 4, turn: "turn-2", retry_of: "turn-1" }),
    anEvent("turn_failed", { sequence: 5, turn: "turn-2", error: { code: "auth", message: "no key" } }),
  );

  assert.deepEqual(turns.map(({ key, status }) => [key, status]), [["turn-1", "completed"], ["turn-2", "failed"]]);
  assert.equal(turnCost(turns[0]), "1 model call\u00a0· 1,200 in (1,000 cached), 80 out, 0.0123 USD");
  assert.equal(turnCost(turns[1]), "");
  assert.deepEqual(turns[1].error, { code: "auth", message: "no key" });
  assert.equal(sessionUsage(usage), "1 model call\u00a0· 1,200 in (1,000 cached), 80 out\u00a0· 0.0123 USD");
  assert.deepEqual(turns[0].commits, [1, 2, 3]);
});

test("the graph leads from admission through model and tools to the answer, and lights what is open", () => {
  const started = anEvent("model_started", { sequence: 2, step: "model-1-0", second: 1 });
  const finished = anEvent("model_finished", { sequence: 2, step: "model-1-0", status: "completed", second: 2 });
  const names = (turn) => graphOf(turn).columns.map(({ nodes }) => nodes.map(({ name, kind, current }) => `${kind} ${name}${current ? "!" : ""}`));

  assert.deepEqual(names(told(STARTED)[0]), [["edge admitted!"], ["edge answer"]]);
  assert.deepEqual(names(told(STARTED, started)[0]), [["edge admitted"], ["model model!"], ["edge answer"]]);
  const [waiting] = told(STARTED, started, finished, asked, raised);
  assert.deepEqual(names(waiting), [["edge admitted"], ["model model"], ["ask refund_order!"], ["edge answer"]]);
  assert.equal(graphOf(waiting).label, "Run: admitted, then model completed, then refund_order needs approval (now), then answer");
  const [over] = told(STARTED, started, finished, anEvent("turn_completed", { sequence: 3 }));
  assert.deepEqual(names(over), [["edge admitted"], ["model model"], ["edge answered"]]);
});

test("of a long or a wide run the graph shows what there is room for, and says how much it leaves out", () => {
  const many = Array.from({ length: 20 }, (_, n) => anEvent("model_started", { sequence: n + 2, step: `model-${n}-0` }));
  const wide = Array.from({ length: 6 }, (_, n) =>
    anEvent("tool_call_started", { sequence: n + 2, step: `call-${n}`, tool_call_id: `call-${n}`, tool_name: `t${n}` }));

  const long = graphOf(told(STARTED, ...many)[0]).columns;
  assert.equal(long.length, 9);
  assert.equal(long[2].nodes[0].name, "14 steps");
  const [, calls] = graphOf(told(STARTED, ...wide)[0]).columns;
  assert.deepEqual(calls.nodes.map(({ name }) => name), ["t0", "t1", "+4"]);
  assert.equal(calls.nodes[2].current, true);
});

test("an event that nobody knows is told by its name", () => {
  assert.equal(momentOf({ type: "later.thing_done", payload: {} }), "later thing done");
  assert.equal(momentOf({ type: "toString", payload: {} }), "toString");
  assert.equal(momentOf({ type: "wait.skipped", at: AT, payload: { actor: { subject: "ada" } } }), "wait cut short by ada");
  const titled = (payload) => momentOf({ type: "title_changed", payload: { title: "Order 7", ...payload } });
  assert.equal(titled({ by: "person", actor: { subject: "ada" } }), "title: “Order 7” by ada");
  assert.equal(titled({ by: "model" }), "title: “Order 7”, by a model");
});
