// Live text, attempts, order, duplicates and gaps. Run by `test_reducer.py`, or by hand:
// node --experimental-detect-module --import ./tests/browser/served.mjs --test tests/browser/

import assert from "node:assert/strict";
import { test } from "node:test";

import { view } from "../../layers/runtime/perdure/embedded/console/view.js";
import { STARTED, aCall, aMessage, aResult, aSnapshot, after, anEvent, answers, delta, steps, texts } from "./builders.mjs";

// --- live text --------------------------------------------------------------------------------

test("live text grows delta by delta", () => {
  const state = after([STARTED, delta("It is "), delta("on its way")]);

  assert.deepEqual(texts(state), ["It is on its way"]);
  assert.equal(answers(state)[0].live, true);
});

test("a surrogate pair that is split between two deltas becomes one character", () => {
  const state = after([STARTED, delta("go \ud83d"), delta("\ude80!")]);

  assert.deepEqual(texts(state), ["go 🚀!"]);
});

test("the stored message takes the place of the live text, under the same key", () => {
  const live = after([STARTED, delta("on its way")]);
  const key = answers(live)[0].key;

  const state = after(
    [
      anEvent("model_finished", { sequence: 2, step: "model-1-0", status: "completed" }),
      anEvent("turn_completed", { sequence: 3 }),
      aSnapshot({ version: 2, asOf: 3, messages: [aMessage(1, "user", "where?"), aMessage(2, "assistant", "on its way")] }),
    ],
    live,
  );

  assert.deepEqual(texts(state), ["where?", "on its way"]);
  assert.equal(answers(state)[0].key, key);
  assert.deepEqual(state.partials, {});
});

test("live text stays between the end of its step and the snapshot with its message", () => {
  const state = after([
    STARTED,
    aSnapshot({ turn: "turn-1", asOf: 1, messages: [aMessage(1, "user", "where?")] }),
    delta("on its way"),
    anEvent("model_finished", { sequence: 2, step: "model-1-0", status: "completed" }),
  ]);

  assert.deepEqual(texts(state), ["where?", "on its way"]);
});

test("a snapshot that is ahead of the stream never shows the same answer twice", () => {
  const messages = [
    aMessage(1, "user", "where?"),
    aMessage(2, "assistant", "let me look", { parts: [{ type: "text", text: "let me look" }, aCall("call-2-0")] }),
  ];

  const ahead = after([STARTED, delta("let me"), aSnapshot({ version: 2, turn: "turn-1", asOf: 1, messages }), delta(" look")]);

  assert.deepEqual(texts(ahead), ["where?", "let me look"]);
});

test("the text of a turn's second model step is shown beside the first one's message", () => {
  const messages = [
    aMessage(1, "user", "where?"),
    aMessage(2, "assistant", "let me look", { parts: [{ type: "text", text: "let me look" }, aCall("call-2-0")] }),
    aResult(3, "call-2-0"),
  ];

  const state = after([
    STARTED,
    anEvent("model_finished", { sequence: 2, step: "model-1-0", status: "completed" }),
    aSnapshot({ version: 3, turn: "turn-1", asOf: 2, messages }),
    delta("It is here", { step: "model-3-0" }),
  ]);

  assert.deepEqual(texts(state), ["where?", "let me look", "It is here"]);
});

test("without the start of its turn, live text is shown until the turn is over", () => {
  const asked = aMessage(7, "user", "where?");
  const running = after([aSnapshot({ turn: "turn-1", messages: [asked] }), delta("on its way")]);
  assert.deepEqual(texts(running), ["where?", "on its way"]);

  const over = after([aSnapshot({ version: 2, messages: [asked, aMessage(8, "assistant", "on its way")] })], running);
  assert.deepEqual(texts(over), ["where?", "on its way"]);
});

test("the text of a failed model step goes away with the snapshot after it", () => {
  const state = after([
    STARTED,
    delta("half an ans"),
    anEvent("model_finished", { sequence: 2, step: "model-1-0", status: "failed" }),
    anEvent("turn_failed", { sequence: 3, error: { code: "provider", message: "it broke" } }),
    aSnapshot({
      version: 2,
      asOf: 3,
      messages: [aMessage(1, "user", "where?")],
      last_turn_error: { code: "provider", message: "it broke" },
    }),
  ]);

  assert.deepEqual(texts(state), ["where?", "it broke"]);
});

test("a text of which the server shows the head only says so", () => {
  const parts = [{ type: "text", text: "It is", truncated: true, bytes: 300000 }];

  const state = after([aSnapshot({ messages: [aMessage(1, "assistant", "", { parts })] })]);

  assert.deepEqual(texts(state), ["It is… (only the start, of 300000 bytes)"]);
});

// --- attempts ---------------------------------------------------------------------------------

test("only the highest attempt of a step is kept", () => {
  const state = after([STARTED, delta("first try"), delta("second ", { attempt: 2 }), delta("late"), delta("try", { attempt: 2 })]);

  assert.deepEqual(texts(state), ["second try"]);
  assert.equal(answers(state)[0].attempt, 2);
});

test("a reset drops the text of its attempt", () => {
  const state = after([STARTED, delta("half"), anEvent("attempt_reset", { sequence: 2, step: "model-1-0", reason: "lost" })]);

  assert.deepEqual(texts(state), []);
});

test("the record of a reset that was seen live does not drop the text that came after it", () => {
  const state = after([
    STARTED,
    delta("half"),
    anEvent("attempt_reset", { step: "model-1-0", reason: "cut" }),
    delta("the whole answer"),
    anEvent("model_started", { sequence: 2, step: "model-1-0" }),
    anEvent("attempt_reset", { sequence: 3, step: "model-1-0", reason: "cut" }),
  ]);

  assert.deepEqual(texts(state), ["the whole answer"]);
});

test("an older attempt's record does not turn a step back", () => {
  const state = after([
    STARTED,
    anEvent("model_started", { step: "model-1-0", attempt: 2, second: 5 }),
    delta("again", { attempt: 2 }),
    anEvent("attempt_reset", { sequence: 2, step: "model-1-0", attempt: 1, reason: "lost" }),
  ]);

  assert.deepEqual(texts(state), ["again"]);
  assert.equal(steps(state)[0].attempt, 2);
  assert.equal(steps(state)[0].status, "running");
});

// --- order, duplicates, gaps ------------------------------------------------------------------

test("events that come again change nothing", () => {
  const events = [STARTED, anEvent("attempt_reset", { sequence: 2, step: "model-1-0" })];

  assert.deepEqual(after([...events, ...events]), after(events));
});

test("a gap is reported, and what lies behind it is not taken until it is filled", () => {
  const gapped = after([STARTED, anEvent("turn_completed", { sequence: 3 })]);
  assert.deepEqual(gapped.gap, { expected: 2, got: 3 });
  assert.equal(gapped.cursor, STARTED.event.cursor);
  assert.equal(view(gapped).turnId, "turn-1");

  const filled = after(
    [
      { type: "stream_restarted" },
      anEvent("model_finished", { sequence: 2, step: "model-1-0", status: "completed" }),
      anEvent("turn_completed", { sequence: 3 }),
    ],
    gapped,
  );
  assert.equal(filled.gap, null);
  assert.equal(view(filled).turnId, null);
});

test("an unknown event type only moves the cursor", () => {
  const state = after([STARTED, anEvent("mcp.tool_progress", { sequence: 2 }), anEvent("toString", { sequence: 3 })]);

  assert.equal(state.sequence, 3);
  assert.deepEqual(state.turns, after([STARTED]).turns);
});

test("an answer to an older snapshot request that comes late is dropped", () => {
  const state = after([
    aSnapshot({ version: 5, messages: [aMessage(1, "user", "new")] }),
    aSnapshot({ version: 4, messages: [aMessage(1, "user", "old")] }),
  ]);

  assert.deepEqual(texts(state), ["new"]);
});

test("older pages stay in front of the newest messages, and a hole lets them go", () => {
  const paged = after([
    aSnapshot({ version: 5, nextBefore: "b3", messages: [aMessage(3, "user", "three")] }),
    { type: "older_messages", page: { messages: [aMessage(1, "user", "one"), aMessage(2, "user", "two")] } },
    aSnapshot({ version: 6, nextBefore: "b3", messages: [aMessage(3, "user", "three"), aMessage(4, "user", "four")] }),
  ]);
  assert.deepEqual(texts(paged), ["one", "two", "three", "four"]);
  assert.equal(view(paged).hasOlder, false);

  const jumped = after([aSnapshot({ version: 9, nextBefore: "b9", messages: [aMessage(9, "user", "nine")] })], paged);
  assert.deepEqual(texts(jumped), ["nine"]);
  assert.equal(view(jumped).hasOlder, true);
});

test("a session that was purged is empty again", () => {
  const purged = { type: "snapshot", snapshot: { session_id: "s", state: null, messages: [], inbox: [] } };

  assert.deepEqual(texts(after([STARTED, delta("text"), aSnapshot({ messages: [aMessage(1, "user", "x")] }), purged])), []);
});
