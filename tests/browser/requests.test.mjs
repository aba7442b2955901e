// Values that an application asks for, and approvals ahead. Run by `test_reducer.py`, or by hand:
// node --experimental-detect-module --import ./tests/browser/served.mjs --test tests/browser/

import assert from "node:assert/strict";
import { test } from "node:test";

import { valueOf } from "../../layers/runtime/perdure/embedded/console/requests.js";
import { view } from "../../layers/runtime/perdure/embedded/console/view.js";
import { aSnapshot, after, anEvent, at } from "./builders.mjs";

const ID = "input:budget";
const REQUEST = { interrupt_id: ID, kind: "input", question: "How much?", schema: { type: "number" } };

const raised = (sequence) => anEvent("interrupt_raised", { sequence, interrupt_id: ID, kind: "input", question: "How much?" });
const resolved = (sequence) => anEvent("interrupt_resolved", { sequence, interrupt_id: ID, kind: "input", answered: true, answer: 5 });
const requests = (state) => view(state).items.filter(({ kind }) => kind === "request");

test("a request of an application stands at the end, until it is answered, and again when it is asked for again", () => {
  const asked = after([raised(1), aSnapshot({ interrupts: [REQUEST], waiting_for: [{ kind: "input", id: ID, since: at(0) }] })]);
  assert.deepEqual([view(asked).waiting.length, view(asked).activity.kind], [1, "idle"]);
  assert.deepEqual(requests(asked).map(({ key, question }) => [key, question.text, question.freeText]), [[ID, "How much?", true]]);

  const answered = after([resolved(2)], asked);
  assert.deepEqual(requests(answered), []);
  assert.equal(requests(after([raised(3)], answered)).length, 1);
});

test("a value has the type that the application asks for", () => {
  assert.deepEqual(valueOf(null, "5"), { value: "5" });
  assert.deepEqual(valueOf({ type: "number" }, "5.5"), { value: 5.5 });
  assert.deepEqual(valueOf({ type: "boolean" }, "No"), { value: false });
  assert.deepEqual(valueOf({ enum: ["a", 2] }, "2"), { value: 2 });
  assert.deepEqual(valueOf({ type: "object" }, '{"a": 1}'), { value: { a: 1 } });
  assert.match(valueOf({ type: "integer" }, "many").problem, /number/);
  assert.match(valueOf({ type: "array" }, "[").problem, /no JSON/);
  assert.match(valueOf({ type: "object" }, "null").problem, /null/);
});

test("choices come from a list or from yes and no", () => {
  const choices = (schema) => requests(after([aSnapshot({ interrupts: [{ ...REQUEST, schema }] })]))[0].question.choices;

  assert.deepEqual(choices({ type: "boolean" }), ["Yes", "No"]);
  assert.deepEqual(choices({ enum: ["a", 2] }), ["a", "2"]);
  assert.deepEqual(choices(undefined), []);
});

test("approvals ahead are listed as the session holds them", () => {
  const grants = [{ grant_id: "g-1", tool_name: "refund_order", fields: ["order_id"], expires_at: at(60), uses_left: 2 }];
  const [shown] = view(after([aSnapshot({ grants })])).grants;

  const expected = { key: "g-1", tool: "refund_order", fields: ["order_id"], expiresAt: at(60), usesLeft: 2, busy: false };
  assert.deepEqual(shown, expected);
});
