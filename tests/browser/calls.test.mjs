// Tool calls, approvals, stop and sending. Run by `test_reducer.py`, or by hand:
// node --experimental-detect-module --import ./tests/browser/served.mjs --test tests/browser/

import assert from "node:assert/strict";
import { test } from "node:test";

import { view } from "../../layers/runtime/perdure/embedded/console/view.js";
import { AT, STARTED, aCall, aMessage, aResult, aSnapshot, after, anEvent, at, cards, delta, steps, texts } from "./builders.mjs";

// --- tool calls and approvals -----------------------------------------------------------------

function twoApprovals() {
  const deferred = (sequence, id) =>
    anEvent("tool_call_deferred", {
      sequence, step: "model-1-0", tool_call_id: id, tool_name: "refund_order", effect: "non_idempotent_write",
      requires_approval: true,
    });
  const raised = (sequence, id) =>
    anEvent("interrupt_raised", { sequence, interrupt_id: id, kind: "approval", tool_call_id: id });
  return [
    STARTED,
    anEvent("model_finished", { sequence: 2, step: "model-1-0", status: "completed" }),
    deferred(3, "call-2-0"), raised(4, "call-2-0"), deferred(5, "call-2-1"), raised(6, "call-2-1"),
  ];
}

function bothPending(ids = ["call-2-0", "call-2-1"], version = 2, asOf = 6) {
  return aSnapshot({
    version,
    asOf,
    turn: "turn-1",
    messages: [
      aMessage(1, "user", "refund both"),
      aMessage(2, "assistant", "", { parts: [aCall("call-2-0"), aCall("call-2-1")] }),
    ],
    calls: ["call-2-0", "call-2-1"].map((id) => ({
      tool_call_id: id, status: ids.includes(id) ? "awaiting_approval" : "approved", attempt: 1,
    })),
    interrupts: ids.map((id) => ({ interrupt_id: id, kind: "approval", tool_call_id: id, arguments_hash: `h-${id}` })),
    waiting_for: ids.map((id) => ({ kind: "approval", id, since: AT })),
  });
}

const resolved = (sequence, id, approved, more = {}) =>
  anEvent("interrupt_resolved", { sequence, interrupt_id: id, kind: "approval", approved, ...more });

test("a call that waits offers its approval with the hash of what is shown", () => {
  const [first, second] = cards(after([...twoApprovals(), bothPending()]));

  assert.equal(first.status, "awaiting_approval");
  assert.equal(first.effect, "non_idempotent_write");
  assert.equal(first.approval.argumentsHash, "h-call-2-0");
  assert.equal(second.approval.interruptId, "call-2-1");
});

test("a result of which only the start came says how large it is", () => {
  const cutBytes = (more) => {
    const result = aResult(3, "call-2-0");
    Object.assign(result.parts[0], more);
    const asking = aMessage(2, "assistant", "", { parts: [aCall("call-2-0")] });
    return cards(after([aSnapshot({ messages: [asking, result] })]))[0].cutBytes;
  };

  assert.equal(cutBytes({}), null);
  assert.equal(cutBytes({ truncated: true, bytes: 300000 }), 300000);
});

test("nobody approves arguments of which only the head is shown without knowing it", () => {
  const pending = bothPending();
  pending.snapshot.messages[1].parts[0] = {
    ...aCall("call-2-0"), arguments: undefined, arguments_text: '{"to":"al', truncated: true, bytes: 300000,
  };

  const [first] = cards(after([...twoApprovals(), pending]));

  assert.equal(first.arguments, '{"to":"al… (only the start, of 300000 bytes)');
});

test("a call that nothing here could run says so with its approval", () => {
  const pending = bothPending();
  pending.snapshot.pending_interrupts[1].blocked = "agent_missing";

  const [first, second] = cards(after([...twoApprovals(), pending]));

  assert.equal(first.approval.blocked, null);
  assert.equal(second.approval.blocked, "agent_missing");
});

test("a decision on one of two calls leaves the other one open, and never comes back", () => {
  const state = after([
    ...twoApprovals(),
    bothPending(),
    resolved(7, "call-2-0", true),
    bothPending(undefined, 2, 6), // asked for before the decision
  ]);

  const [first, second] = cards(state);
  assert.equal(first.approval, null);
  assert.equal(first.status, "approved");
  assert.deepEqual(steps(state).slice(-2).map((step) => step.status), ["approved", "awaiting_approval"]);
  assert.notEqual(second.approval, null);
  assert.deepEqual(view(state).waiting.map((item) => item.id), ["call-2-1"]);
});

test("one call rejected and one approved, in either order, leave nothing to decide", () => {
  for (const [one, other] of [["call-2-0", "call-2-1"], ["call-2-1", "call-2-0"]]) {
    const state = after([...twoApprovals(), bothPending(), resolved(7, one, false), resolved(8, other, true)]);

    assert.deepEqual(cards(state).map((card) => card.approval), [null, null]);
    const byId = Object.fromEntries(cards(state).map((card) => [card.key, card.status]));
    assert.deepEqual([byId[one], byId[other]], ["rejected", "approved"]);
  }
});

test("an approval that a stopped turn withdrew is not offered again", () => {
  const state = after([
    ...twoApprovals(),
    bothPending(),
    resolved(7, "call-2-0", undefined, { cancellation_reason: "turn_cancelled" }),
  ]);

  assert.equal(cards(state)[0].approval, null);
});

test("an own decision disables its card until it is answered", () => {
  const deciding = after([...twoApprovals(), bothPending(), { type: "decide", interruptId: "call-2-0", decision: true }]);
  assert.equal(cards(deciding)[0].approval.deciding, true);
  assert.equal(cards(deciding)[1].approval.deciding, null);

  const refused = after([{ type: "decide_answered", interruptId: "call-2-0" }], deciding);
  assert.equal(cards(refused)[0].approval.deciding, null);
});

test("a call shows its result, its status and who approved it", () => {
  const state = after([
    ...twoApprovals(),
    resolved(7, "call-2-0", true, { message: "go on", actor: { issuer: "i", subject: "ada" } }),
    aSnapshot({
      version: 4,
      turn: "turn-1",
      messages: [aMessage(2, "assistant", "", { parts: [aCall("call-2-0")] }), aResult(3, "call-2-0", "succeeded", "a\u0000b")],
    }),
  ]);

  const [card] = cards(state);
  assert.equal(card.status, "succeeded");
  assert.equal(card.output, "a\u0000b");
  assert.equal(card.decision.message, "go on");
  assert.equal(card.decision.actor.subject, "ada");
});

test("arguments that are no JSON are shown as they came", () => {
  const part = { type: "tool_call", tool_call_id: "call-2-0", tool_name: "t", arguments_text: "{broken" };

  const [card] = cards(after([aSnapshot({ messages: [aMessage(2, "assistant", "", { parts: [part] })] })]));

  assert.equal(card.arguments, "{broken");
});

// --- stop and sending -------------------------------------------------------------------------

test("stop shows at once, and a refusal takes it back", () => {
  const running = after([STARTED, aSnapshot({ turn: "turn-1", asOf: 1, messages: [aMessage(1, "user", "x")] })]);
  assert.equal(view(running).stopping, false);

  const stopping = after([{ type: "stop", turnId: "turn-1" }], running);
  assert.equal(view(stopping).stopping, true);
  assert.equal(view(stopping).activity.kind, "stopping");

  const refused = after([{ type: "stop_refused", turnId: "turn-1" }], stopping);
  assert.equal(view(refused).stopping, false);
});

test("an answer grows no more from the moment of its stop, and goes on when the stop is refused", () => {
  const stopped = after([STARTED, delta("It is "), { type: "stop", turnId: "turn-1" }, delta("on its way")]);
  assert.deepEqual(view(stopped).items.map(({ text, status, live }) => [text, status, live]), [["It is ", "interrupted", false]]);

  const refused = after([{ type: "stop_refused", turnId: "turn-1" }], stopped);
  assert.deepEqual(texts(refused), ["It is on its way"]);
});

test("a stop of one turn does not mark the next one", () => {
  const state = after([
    STARTED,
    { type: "stop", turnId: "turn-1" },
    anEvent("turn_cancelled", { sequence: 2 }),
    anEvent("turn_started", { sequence: 3, turn: "turn-2" }),
  ]);

  assert.equal(view(state).turnId, "turn-2");
  assert.equal(view(state).stopping, false);
});

test("another viewer's stop shows as stopping", () => {
  const state = after([STARTED, anEvent("turn_stopping", { sequence: 2 })]);

  assert.equal(view(state).stopping, true);
});

test("a turn that ended by an event is over, even when a late snapshot still has it", () => {
  const state = after([STARTED, anEvent("turn_completed", { sequence: 2 }), aSnapshot({ turn: "turn-1", asOf: 1 })]);

  assert.equal(view(state).turnId, null);
});

test("a sent message is shown at once and gives way to the server's, in the transcript or in the queue", () => {
  const sent = after([{ type: "send", messageId: "m-1", text: "hello" }]);
  assert.deepEqual(texts(sent), ["hello"]);

  const delayed = after([{ type: "send_delayed", messageId: "m-1", problem: "no server" }], sent);
  assert.equal(view(delayed).items[0].note, "no server");

  const stored = after([aSnapshot({ turn: "turn-1", messages: [aMessage(1, "user", "hello")] })], delayed);
  assert.deepEqual(view(stored).items.map(({ text, note }) => [text, note]), [["hello", null]]);

  const queued = aSnapshot({ turn: "turn-1" });
  queued.snapshot.inbox = [{ message_id: "m-1", delivery: "queue", state: "queued", text: "hello", created_at: AT }];
  const waiting = after([queued], delayed);
  assert.deepEqual(view(waiting).items, []);
  assert.deepEqual(view(waiting).inbox.map((entry) => entry.text), ["hello"]);
});

test("a message that was refused is taken back", () => {
  const state = after([{ type: "send", messageId: "m-1", text: "hello" }, { type: "send_refused", messageId: "m-1" }]);

  assert.deepEqual(texts(state), []);
});

test("a scheduled retry is told until the provider answers again", () => {
  const waiting = after([
    STARTED,
    aSnapshot({ turn: "turn-1", asOf: 1 }),
    anEvent("model_started", { step: "model-1-0" }),
    anEvent("model_retry_scheduled", { step: "model-1-0", retry_in_ms: 2000, attempt: 1, reason: "rate limit" }),
  ]);
  assert.deepEqual(view(waiting).activity, { kind: "retry", reason: "rate limit", until: at(2), skippable: false });

  assert.equal(view(after([delta("hi")], waiting)).activity.kind, "writing");
});
