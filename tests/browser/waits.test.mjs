// Questions, waits, remote work, changed arguments. Run by `test_reducer.py`, or by hand:
// node --experimental-detect-module --import ./tests/browser/served.mjs --test tests/browser/

import assert from "node:assert/strict";
import { test } from "node:test";

import { changesOf, parsedArguments } from "../../layers/runtime/perdure/embedded/console/arguments.js";
import { remaining } from "../../layers/runtime/perdure/embedded/console/format.js";
import { view } from "../../layers/runtime/perdure/embedded/console/view.js";
import { waitingBadge } from "../../layers/runtime/perdure/embedded/console/wording.js";
import { AT, STARTED, aMessage, aResult, aSnapshot, after, anEvent, at, cards, steps } from "./builders.mjs";

const ID = "call-2-0";

const told = (type, sequence, { attempt, second, ...more } = {}) =>
  anEvent(type, { sequence, step: ID, attempt, second, tool_call_id: ID, ...more });

function aCallOf(name, args = {}) {
  const parts = [{ type: "tool_call", tool_call_id: ID, tool_name: name, arguments: args }];
  const deferred = told("tool_call_deferred", 2, { tool_name: name, effect: "read", requires_approval: false });
  return { parts, events: [STARTED, deferred] };
}

function shown({ parts }, { interrupts = [], waiting = [], status = "approved", messages = [], version = 2, ...call } = {}) {
  return aSnapshot({
    version,
    turn: "turn-1",
    messages: [aMessage(1, "user", "x"), aMessage(2, "assistant", "", { parts }), ...messages],
    calls: [{ tool_call_id: ID, status, attempt: 1, ...call }],
    interrupts,
    waiting_for: waiting,
  });
}

const QUESTION = { question: "Which one?", choices: ["a", "b"], allows_free_text: true };
const raised = (sequence, id = ID, more = {}) =>
  anEvent("interrupt_raised", { sequence, interrupt_id: id, kind: "question", tool_call_id: ID, ...QUESTION, ...more });
const resolved = (sequence, more, id = ID) => anEvent("interrupt_resolved", { sequence, interrupt_id: id, kind: "question", ...more });
const pending = (id = ID, more = {}) => ({ interrupt_id: id, kind: "question", tool_call_id: ID, ...QUESTION, ...more });

// --- questions --------------------------------------------------------------------------------

test("a question of the model is its card: with choices and deadline, and without the arguments that say the same", () => {
  const call = aCallOf("ask_user", QUESTION);
  const state = after([...call.events, raised(3), shown(call, { interrupts: [pending(ID, { deadline: at(60) })] })]);

  const [card] = cards(state);
  assert.equal(card.arguments, null);
  assert.equal(card.status, "awaiting_answer");
  assert.equal(card.approval, null);
  const { key, text, choices, freeText, deadline } = card.question;
  assert.deepEqual([key, text, choices, freeText, deadline], [ID, "Which one?", ["a", "b"], true, at(60)]);
  assert.equal(steps(state).at(-1).status, "awaiting_answer");
});

test("an answer closes the question before the snapshot does, and stays on record with who gave it", () => {
  const call = aCallOf("ask_user", QUESTION);
  const actor = { issuer: "local", subject: "ada" };
  const state = after([
    ...call.events, raised(3), shown(call, { interrupts: [pending()] }),
    resolved(4, { answered: true, answer: "b", message: "but soon", actor }),
  ]);

  const [card] = cards(state);
  assert.equal(card.question, null);
  const expected = { key: ID, question: "Which one?", answer: "b", outcome: "answered", by: "ada", message: "but soon" };
  assert.deepEqual(card.questions, [expected]);
  assert.equal(view(state).waiting.length, 0);
});

test("a question ends declined, too late or withdrawn, and says which", () => {
  const outcome = (more) => {
    const call = aCallOf("ask_user", QUESTION);
    return cards(after([...call.events, raised(3), shown(call), resolved(4, more)]))[0].questions[0];
  };

  assert.equal(outcome({ answered: false, rejection_message: "no", actor: { issuer: "local", subject: "ada" } }).outcome, "declined");
  const late = outcome({ answered: false, rejection_message: "over", actor: { issuer: "perdure", subject: "deadline" } });
  assert.deepEqual([late.outcome, late.by, late.message], ["deadline_passed", null, null]);
  assert.equal(outcome({ cancellation_reason: "turn_cancelled" }).outcome, "withdrawn");
});

test("a tool asks one thing after the other, and its arguments stay in sight", () => {
  const call = aCallOf("ship_order", { order_id: "7" });
  const [one, two] = [`${ID}-input-1`, `${ID}-input-2`];
  const between = after([...call.events, raised(3, one), resolved(4, { answered: true, answer: "a" }, one)]);
  assert.equal(steps(between).at(-1).status, "approved");
  const state = after([
    ...call.events, raised(3, one), resolved(4, { answered: true, answer: "a" }, one), raised(5, two, { question: "And?" }),
    shown(call, { interrupts: [pending(two, { question: "And?" })], status: "awaiting_answer" }),
  ]);

  const [card] = cards(state);
  assert.match(card.arguments, /"order_id": "7"/);
  assert.deepEqual(card.questions.map(({ answer }) => answer), ["a"]);
  assert.deepEqual([card.question.key, card.question.text], [two, "And?"]);
  assert.equal(steps(state).at(-1).status, "awaiting_answer");
});

test("an own answer disables its form until it is answered", () => {
  const call = aCallOf("ask_user", QUESTION);
  const open = after([...call.events, raised(3), shown(call, { interrupts: [pending()] })]);

  const deciding = after([{ type: "decide", interruptId: ID, decision: "declined" }], open);
  assert.equal(cards(deciding)[0].question.deciding, "declined");
  assert.equal(cards(after([{ type: "decide_answered", interruptId: ID }], deciding))[0].question.deciding, null);
});

test("a message that answered a question is no message", () => {
  const sent = after([{ type: "send", messageId: "m-2", text: "b", delivery: null, waits: false }]);
  assert.equal(view(sent).items.length, 1);

  assert.deepEqual(view(after([{ type: "send_answered", messageId: "m-2" }], sent)).items, []);
});

test("what is written can answer the one question that is open and takes any text, until that is answered", () => {
  const call = aCallOf("ask_user", QUESTION);
  const open = (...interrupts) => after([...call.events, raised(3), shown(call, { interrupts })]);

  assert.equal(view(open(pending())).openQuestion, ID);
  assert.equal(view(open(pending(), pending("other"))).openQuestion, null);
  assert.equal(view(open(pending(ID, { allows_free_text: false }))).openQuestion, null);
  assert.equal(view(after([resolved(4, { answered: true, answer: "b" })], open(pending()))).openQuestion, null);
  assert.equal(view(after([{ type: "decide", interruptId: ID, decision: "answered" }], open(pending()))).openQuestion, null);
});

// --- waits ------------------------------------------------------------------------------------

const WAITING = { kind: "timer", id: ID, since: AT, until: at(60) };
const OPERATIONS = ["skip_wait", "change_wait", "cancel_wait"].map((operation) => ({ operation }));

test("a wait is offered what the list of waits says can be done about it, and nothing before", () => {
  const call = aCallOf("durable_wait", { duration_seconds: 60 });
  const waiting = after([...call.events, told("timer_started", 3, { until: at(60) }), shown(call, { waiting: [WAITING], status: "waiting_for_timer" })]);
  assert.deepEqual([cards(waiting)[0].wait.does, cards(waiting)[0].wait.until], [[], at(60)]);
  assert.equal(steps(waiting).at(-1).status, "waiting_for_timer");

  const waits = [{ kind: "timer", id: ID, until: at(60), reason: "tea", calls: OPERATIONS }];
  const known = after([{ type: "waits", waits }], waiting);
  assert.deepEqual([cards(known)[0].wait.does, cards(known)[0].wait.reason], [["skip", "change", "cancel"], "tea"]);

  const over = shown(call, { version: 3, messages: [aResult(3, ID)], status: "succeeded" });
  assert.equal(cards(after([over], known))[0].wait, null);
});

test("an own change of a wait shows until it is answered", () => {
  const call = aCallOf("durable_wait");
  const waiting = after([...call.events, shown(call, { waiting: [WAITING] })]);

  const changing = after([{ type: "begin", key: `wait/${ID}`, id: "c", what: { does: "change", until: at(99) } }], waiting);
  assert.deepEqual(cards(changing)[0].wait.doing, { does: "change", until: at(99), id: "c" });
  assert.equal(cards(after([{ type: "end", key: `wait/${ID}`, id: "c" }], changing))[0].wait.doing, null);
});

test("looks at remote work are counted, and are no attempts of the call", () => {
  const call = aCallOf("make_report");
  const state = after([
    ...call.events,
    told("tool_call_started", 3, { attempt: 1, second: 1 }),
    told("tool_task_started", 4, { attempt: 1, second: 2, poll_interval_seconds: 5 }),
    told("task.looked", 5, { attempt: 2, second: 7, status: "pending" }),
    told("task.looked", 6, { attempt: 3, second: 12, status: "pending" }),
    shown(call, { waiting: [{ kind: "task", id: ID, since: at(2) }], status: "waiting_for_task", attempt: 4 }),
    { type: "waits", waits: [{ kind: "task", id: ID, looks: 2, next_look_at: at(17), calls: [{ operation: "cancel_wait" }] }] },
  ]);

  const [card] = cards(state);
  assert.deepEqual([card.looks, card.attempt, card.wait.lookAt, card.wait.does], [2, 1, at(17), ["cancel"]]);
  const step = steps(state).at(-1);
  assert.equal(step.status, "waiting_for_task");
});

test("what a tool did in steps of its own, waited for and showed is told in order, once", () => {
  const call = aCallOf("pack_order");
  const events = [
    told("tool.step_recorded", 3, { name: "weigh" }),
    told("tool.output", 4, { output: "half", preliminary: true }),
    told("timer_started", 5, { name: "dry", until: at(60) }),
    anEvent("wait.skipped", { sequence: 6, tool_call_id: ID, actor: { subject: "ada" } }),
    told("tool.awaits_event", 7, { name: "courier" }),
    anEvent("wait.changed", { sequence: 8, wait_id: ID, until: at(90) }),
    told("tool.event_arrived", 9, { name: "courier" }),
  ];
  const state = after([...call.events, ...events, ...events, shown(call)]);

  const [card] = cards(state);
  assert.deepEqual(card.records.map(({ kind }) => kind), ["step", "sleep", "skipped", "awaits", "changed", "arrived"]);
  assert.equal(card.sofar, "half");
  const over = shown(call, { version: 3, messages: [aResult(3, ID)], status: "succeeded" });
  assert.equal(cards(after([over], state))[0].sofar, null);
});

test("what waits for a person comes first, and the others are counted", () => {
  const timer = { kind: "timer", id: "t", until: at(60) };
  assert.equal(waitingBadge([]), null);
  assert.deepEqual(waitingBadge([timer]), { text: "waits for a timer", tone: "quiet", id: "t", until: at(60) });
  const both = waitingBadge([timer, { kind: "question", id: "q" }]);
  assert.deepEqual(both, { text: "waits for an answer and 1 more", tone: "ask", id: "q", until: null });
});

test("a countdown tells whole seconds, then minutes, hours and days", () => {
  const now = Date.parse(AT);
  const left = [-5, 0.2, 59, 61, 3661, 90_000].map((seconds) => remaining(at(seconds), now));
  assert.deepEqual(left, ["now", "in 1 s", "in 59 s", "in 1 min 1 s", "in 1 h 1 min", "in 1 d 1 h"]);
});

// --- changed arguments ------------------------------------------------------------------------

test("what was changed is listed by its path, also what was added, left out and deep inside", () => {
  const before = { amount: 129.9, order: { id: "7", tags: ["a", "b"] }, note: "x" };
  const after_ = { amount: 100, order: { id: "7", tags: ["a", "c"] }, by: null };

  assert.deepEqual(changesOf(before, after_), [
    { key: "amount", before: "129.9", after: "100" },
    { key: "order.tags[1]", before: '"b"', after: '"c"' },
    { key: "note", before: '"x"', after: null },
    { key: "by", before: null, after: "null" },
  ]);
  assert.deepEqual(changesOf(before, { ...before }), []);
});

test("arguments are an object, and what is wrong is said", () => {
  assert.deepEqual(parsedArguments('{"a": 1}'), { value: { a: 1 } });
  assert.match(parsedArguments('{"a": ').problem, /no JSON/);
  for (const text of ["[]", "null", "1"]) assert.match(parsedArguments(text).problem, /object/);
});

test("a call that was approved with other arguments shows both, from the event or from the snapshot", () => {
  const call = aCallOf("refund_order", { amount: 129.9 });
  const decided = anEvent("interrupt_resolved", { sequence: 3, interrupt_id: ID, kind: "approval", approved: true, arguments: { amount: 100 } });
  const byEvent = cards(after([...call.events, decided, shown(call)]))[0];
  const bySnapshot = cards(after([shown(call, { arguments: { amount: 100 }, requested_arguments: { amount: 129.9 } })]))[0];

  for (const card of [byEvent, bySnapshot]) {
    assert.match(card.arguments, /"amount": 100/);
    assert.match(card.requested, /"amount": 129.9/);
    assert.deepEqual(card.changes, [{ key: "amount", before: "129.9", after: "100" }]);
  }
});
