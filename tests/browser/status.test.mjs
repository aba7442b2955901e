// The derived status and indicator (spec SESS-03). Run by `test_reducer.py`, or by hand:
// node --experimental-detect-module --import ./tests/browser/served.mjs --test tests/browser/

import assert from "node:assert/strict";
import { test } from "node:test";

import { initialState } from "../../clients/js/src/reducer.js";
import { view } from "../../layers/runtime/perdure/embedded/console/view.js";
import { STARTED, aMessage, aSnapshot, after, anEvent, delta } from "./builders.mjs";

const shown = (state) => [view(state).status, view(state).indicator];

const BEGUN = anEvent("model_started", { step: "model-1-0" });
const ASKED = anEvent("model_finished", { sequence: 2, step: "model-1-0", status: "completed" });
const call = (type, sequence, more = {}) =>
  anEvent(type, { sequence, step: "call-2-0", tool_call_id: "call-2-0", tool_name: "look", ...more });
const FAILED = anEvent("turn_failed", { sequence: 3, error: { code: "auth", message: "no" } });

test("a session that nobody wrote to waits for its user", () => {
  assert.deepEqual(shown(initialState("s")), ["waiting_for_user_message", null]);
});

test("what was sent is starting until a model has begun, thinking until its text comes, and then speaks for itself", () => {
  const sent = after([{ type: "send", messageId: "m-1", text: "hi" }]);
  assert.deepEqual(shown(sent), ["waiting_for_user_message", "starting"]);

  const started = after([STARTED], sent);
  assert.deepEqual(shown(started), ["running_model", "starting"]);

  const begun = after([BEGUN], started);
  assert.deepEqual(shown(begun), ["running_model", "thinking"]);
  assert.deepEqual(shown(after([anEvent("reasoning_delta", { step: "model-1-0", text: "hm" })], begun)), ["running_model", "thinking"]);

  const writing = after([delta("It is")], begun);
  assert.deepEqual(shown(writing), ["running_model", null]);

  const done = after([ASKED, anEvent("turn_completed", { sequence: 3 })], writing);
  assert.equal(view(done).status, "waiting_for_user_message");
});

test("what could not be sent yet starts nothing", () => {
  const state = after([
    { type: "send", messageId: "m-1", text: "hi" },
    { type: "send_delayed", messageId: "m-1", problem: "no connection" },
  ]);

  assert.equal(view(state).indicator, null);
});

test("while tools run or wait for a person there is no indicator, and behind them the model thinks again", () => {
  const deferred = after([STARTED, BEGUN, ASKED, call("tool_call_deferred", 3, { effect: "read", requires_approval: false })]);
  assert.deepEqual(shown(deferred), ["running_tools", null]);

  const finished = after([call("tool_call_started", 4), call("tool_call_finished", 5, { status: "succeeded" })], deferred);
  assert.deepEqual(shown(finished), ["running_model", "thinking"]);
});

test("a turn that is being stopped, or whose provider is asked again later, has no indicator", () => {
  const begun = after([STARTED, BEGUN]);

  assert.equal(view(after([{ type: "stop", turnId: "turn-1" }], begun)).indicator, null);
  const retry = anEvent("model_retry_scheduled", { step: "model-1-0", retry_in_ms: 2000, attempt: 1, reason: "busy" });
  assert.equal(view(after([retry], begun)).indicator, null);
});

test("a step whose attempt was given up is starting again", () => {
  const state = after([STARTED, BEGUN, anEvent("attempt_reset", { sequence: 2, step: "model-1-0", reason: "lost" })]);

  assert.deepEqual(shown(state), ["running_model", "starting"]);
});

test("a session whose latest turn failed is failed until the next one starts", () => {
  const failed = after([STARTED, ASKED, FAILED]);
  assert.deepEqual(shown(failed), ["failed", null]);

  const again = anEvent("turn_started", { sequence: 4, turn: "turn-2", message_id: "m-2" });
  assert.deepEqual(shown(after([again], failed)), ["running_model", "starting"]);
});

test("without any event the snapshot tells", () => {
  const error = { code: "auth", message: "no" };
  const asked = [aMessage(1, "user", "hi")];

  assert.deepEqual(shown(after([aSnapshot({ messages: asked, last_turn_error: error })])), ["failed", null]);
  assert.deepEqual(shown(after([aSnapshot({ messages: asked })])), ["waiting_for_user_message", null]);
  assert.deepEqual(shown(after([aSnapshot({ messages: asked, turn: "turn-1", status: "running_tools" })])), ["running_tools", null]);
  assert.deepEqual(shown(after([aSnapshot({ messages: asked, turn: "turn-1" })])), ["running_model", "starting"]);
});
