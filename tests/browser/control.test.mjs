// The inbox, failed turns, pause, waits, the stop's frontier and the settings. Run by `test_reducer.py`, or by hand:
// node --experimental-detect-module --import ./tests/browser/served.mjs --test tests/browser/

import assert from "node:assert/strict";
import { test } from "node:test";

import { deliveriesFor, deliveryOf } from "../../layers/runtime/perdure/embedded/console/deliveries.js";
import { initialState } from "../../clients/js/src/reducer.js";
import { parsed, withSetting } from "../../layers/runtime/perdure/embedded/console/settings.js";
import { view } from "../../layers/runtime/perdure/embedded/console/view.js";
import { moved } from "../../clients/js/src/order.js";
import { activityText, countdownText, gateText } from "../../layers/runtime/perdure/embedded/console/wording.js";
import { AT, STARTED, aMessage, aSnapshot, after, anEntry, anEvent, at, delta, steps, texts } from "./builders.mjs";

const NOW = Date.parse(AT);
const ASKED = aMessage(1, "user", "where?");
const begin = (key, what, id = "c-1") => ({ type: "begin", key, id, what });
const end = (key, id = "c-1") => ({ type: "end", key, id });
const rows = (state, ...fields) => view(state).inbox.map((row) => fields.map((field) => row[field]));
const kinds = (state) => view(state).items.map(({ kind }) => kind);

const running = (inbox, ...more) =>
  after([STARTED, aSnapshot({ turn: "turn-1", asOf: 1, messages: [ASKED], inbox }), ...more]);

// --- the inbox --------------------------------------------------------------------------------

test("what waits says how it is delivered and what can be done with it", () => {
  const steered = anEntry("s", { delivery: "steer", state: "steered" });
  const state = running([steered, anEntry("q"), anEntry("i", { delivery: "inject" }), anEntry("long", { truncated: true })]);

  assert.deepEqual(rows(state, "key", "up", "down", "editable"), [
    ["s", false, false, true],
    ["q", false, true, true],
    ["i", true, true, true],
    ["long", true, false, false],
  ]);
  assert.deepEqual(rows(state, "deliveries").flat(), [
    ["interrupt_next", "queue", "inject"],
    ["interrupt_next", "inject", "steer"],
    ["interrupt_next", "queue", "steer"],
    ["interrupt_next", "inject", "steer"],
  ]);
});

test("a message can join a turn only while one runs that is not being stopped", () => {
  const idle = after([aSnapshot({ inbox: [anEntry("q")], held: true })]);
  const stopping = running([anEntry("q")], { type: "stop", turnId: "turn-1" });

  assert.deepEqual(rows(idle, "deliveries").flat(), [["interrupt_next"]]);
  assert.deepEqual(rows(stopping, "deliveries").flat(), [["interrupt_next"]]);
});

test("an own change shows at once and gives way to what the server has", () => {
  const changing = running([anEntry("a"), anEntry("b")], begin("inbox/a", { text: "changed" }));
  assert.deepEqual(rows(changing, "text", "busy"), [["changed", true], ["b", false]]);

  assert.deepEqual(rows(after([end("inbox/a")], changing), "text", "busy"), [["a", false], ["b", false]]);
});

test("an own order shows at once, takes what came meanwhile behind it, and only its own answer ends it", () => {
  const ids = ["a", "b", "c"].map((id) => anEntry(id));
  const moving = running(ids, begin("order", { ids: ["c", "a", "b"] }, "one"));
  assert.deepEqual(rows(moving, "key", "place").flat(), ["c", 1, "a", 2, "b", 3]);

  const again = after([begin("order", { ids: ["c", "b", "a"] }, "two"), end("order", "one")], moving);
  assert.deepEqual(rows(again, "key").flat(), ["c", "b", "a"]);

  const inbox = [ids[0], ids[2], anEntry("new")];
  const later = after([aSnapshot({ version: 2, turn: "turn-1", messages: [ASKED], inbox })], again);
  assert.deepEqual(rows(later, "key").flat(), ["c", "a", "new"]);
});

test("a row is moved before another one or to the end", () => {
  assert.deepEqual(moved(["a", "b", "c"], "c", "a"), ["c", "a", "b"]);
  assert.deepEqual(moved(["a", "b", "c"], "a", null), ["b", "c", "a"]);
});

test("what is sent while a turn runs stands in the inbox from the start", () => {
  const state = running([anEntry("q")], { type: "send", messageId: "m-2", text: "and?", waits: true });

  assert.deepEqual(rows(state, "text", "note", "sending"), [["q", "", false], ["and?", "Sending…", true]]);
  assert.deepEqual(texts(state), ["where?"]);
  assert.equal(view(state).indicator, "starting");
});

test("a message that joined a turn says so, and one that it gave back is not shown twice", () => {
  const joined = anEvent("inbox.joined", { sequence: 2, message_id: "m-2", sequence_of: 2 });
  const state = running([], joined, aSnapshot({ version: 2, turn: "turn-1", messages: [ASKED, aMessage(2, "user", "and?")] }));
  assert.deepEqual(view(state).items.map(({ note }) => note), [null, "Added while the agent worked"]);

  const back = [ASKED, aMessage(2, "user", "and?", { status: "rehomed" })];
  const given = after([aSnapshot({ version: 3, messages: back, inbox: [anEntry("m-2")] })], state);
  assert.deepEqual(texts(given), ["where?"]);
});

test("a message names its writer unless a person on this machine wrote it, its class and its files", () => {
  const anna = { source: "person", actor: { issuer: "https://issuer.example.com/", subject: "anna" } };
  const here = { source: "person", actor: { issuer: "local", subject: "local" } };
  const hook = { source: "webhook", actor: anna.actor };
  const files = [{ type: "file", reference: "r-1", name: "a.png" }, { type: "file", reference: "r-2" }];
  const urgent = anEntry("u", { urgent: true, ...here });
  const state = running([urgent, anEntry("q", { ...hook, files })], aSnapshot({
    version: 2, turn: "turn-1", inbox: [urgent, anEntry("q", { ...hook, files })],
    messages: [{ ...ASKED, ...anna }, { ...aMessage(2, "user", "here", { parts: [{ type: "text", text: "here" }, files[0]] }), ...here }],
  }));

  assert.deepEqual(rows(state, "note", "up", "down"), [
    ["before all that is not urgent", false, false],
    ["From webhook for anna · Files: a.png, r-2", false, false],
  ]);
  assert.deepEqual(view(state).items.map(({ writer, note }) => [writer, note]), [
    ["anna", "From anna"],
    [null, "File: a.png"],
  ]);
});

// --- how messages are delivered ---------------------------------------------------------------

test("only deliveries that make a difference are offered", () => {
  const names = (shown) => deliveriesFor({ turnId: null, stopping: false, held: false, paused: false, ...shown }).map(({ name }) => name);

  assert.deepEqual(names({}), []);
  assert.deepEqual(names({ turnId: "turn-1" }), ["queue", "inject", "steer", "interrupt_next"]);
  const answer = names({ turnId: "turn-1", openQuestion: "call-2-0" });
  assert.deepEqual(answer, ["answer", "queue", "inject", "steer", "interrupt_next"]);
  assert.deepEqual(names({ turnId: "turn-1", stopping: true }), ["queue", "interrupt_next"]);
  assert.deepEqual(names({ held: true }), ["queue", "interrupt_next"]);
  assert.deepEqual(names({ paused: true }), ["queue"]);
});

test("the keys choose the delivery, and Enter takes the chosen one", () => {
  const key = (more) => deliveryOf({ key: "Enter", ...more }, "chosen");

  assert.deepEqual([{}, { altKey: true }, { ctrlKey: true }, { metaKey: true }].map(key), ["chosen", "inject", "steer", "steer"]);
  assert.equal(key({ ctrlKey: true, shiftKey: true }), "interrupt_next");
  assert.deepEqual([key({ shiftKey: true }), key({ isComposing: true }), key({ key: "a" })], [null, null, null]);
});

// --- failed turns -----------------------------------------------------------------------------

const ERROR = { code: "provider", message: "it broke" };
const failed = (sequence, turn = "turn-1") => anEvent("turn_failed", { sequence, turn, error: ERROR });
const retried = (sequence, turn, of) => anEvent("turn_started", { sequence, turn, message_id: "m-1", retry_of: of });

test("the latest turn that failed is a card, an earlier one a line", () => {
  const first = after([STARTED, failed(2), aSnapshot({ asOf: 2, messages: [ASKED], last_turn_error: ERROR, held: true })]);
  assert.deepEqual(kinds(first), ["user", "failure"]);
  assert.deepEqual([view(first).items[1].held, view(first).items[1].turnId], [true, "turn-1"]);

  const again = after([retried(3, "turn-2", "turn-1")], first);
  assert.deepEqual(kinds(again), ["user", "notice"]);
  assert.match(texts(again)[1], /failed \(provider\) and was tried again: it broke/);
});

test("a retry that failed, too, stands behind the message that it was for", () => {
  const twice = [STARTED, failed(2), retried(3, "turn-2", "turn-1"), failed(4, "turn-2")];
  const latest = after([...twice, aSnapshot({ asOf: 4, messages: [ASKED], last_turn_error: ERROR })]);
  assert.deepEqual(view(latest).items.map(({ kind, turnId }) => [kind, turnId]).slice(1), [["notice", "turn-1"], ["failure", "turn-2"]]);

  const next = aMessage(2, "user", "and?", { turn: "turn-3" });
  const started = anEvent("turn_started", { sequence: 5, turn: "turn-3" });
  const later = after([...twice, started, aSnapshot({ asOf: 5, turn: "turn-3", messages: [ASKED, next] })]);
  assert.deepEqual(kinds(later), ["user", "notice", "notice", "user"]);
});

test("a turn that has succeeded since is no failure, whatever an older snapshot says", () => {
  const state = after([
    STARTED, failed(2), aSnapshot({ asOf: 2, messages: [ASKED], last_turn_error: ERROR, held: true }),
    retried(3, "turn-2", "turn-1"), anEvent("turn_completed", { sequence: 4, turn: "turn-2" }),
  ]);

  assert.deepEqual(kinds(state), ["user", "notice"]);
});

test("a failure of which only the snapshot tells is a card as well", () => {
  const state = after([aSnapshot({ messages: [ASKED], last_turn_error: ERROR })]);

  assert.deepEqual(kinds(state), ["user", "failure"]);
  assert.deepEqual([view(state).items[1].held, view(state).items[1].doing], [false, null]);
});

test("a click on retry is shown until it is answered", () => {
  const state = after([STARTED, failed(2), aSnapshot({ asOf: 2, messages: [ASKED], last_turn_error: ERROR }), begin("retry", {})]);

  assert.equal(view(state).items[1].doing, "retry");
  assert.equal(view(after([end("retry")], state)).items[1].doing, null);
});

test("a turn says whether it was stopped, replaced or redirected", () => {
  const ended = (type, more) => texts(after([STARTED, anEvent(type, { sequence: 2, ...more }), aSnapshot({ asOf: 2, messages: [ASKED] })]))[1];

  assert.match(ended("turn_cancelled", { reason: "stopped" }), /was stopped\.$/);
  assert.match(ended("turn_cancelled", { reason: "interrupted" }), /stopped for the next message/);
  assert.match(ended("turn_cancelled", { reason: "superseded" }), /replaced by the next message/);
  assert.match(ended("turn_steered", {}), /redirected by the next message/);
});

// --- gates and waits --------------------------------------------------------------------------

test("pause shows at once, and a refusal takes it back", () => {
  const pausing = running([], begin("gate", { paused: true }));
  assert.equal(view(pausing).paused, true);
  assert.match(gateText(view(pausing)), /^Paused/);

  assert.equal(view(after([end("gate")], pausing)).paused, false);
});

test("a pause in the middle of a turn is told once nothing runs any more", () => {
  const paused = aSnapshot({ version: 2, turn: "turn-1", messages: [ASKED], paused: true });
  const writing = running([], delta("It is"), paused);
  assert.equal(view(writing).activity.kind, "writing");

  const done = after([anEvent("model_finished", { sequence: 2, step: "model-1-0", status: "completed" })], writing);
  assert.equal(view(done).activity.kind, "paused");
});

test("a hold is told while something waits behind it, a block always", () => {
  const held = (more) => gateText(view(after([aSnapshot({ held: true, last_turn_error: ERROR, ...more })])));

  assert.equal(held({}), "");
  assert.match(held({ inbox: [anEntry("a")] }), /until you retry or dismiss/);
  assert.match(held({ blocked_reason: "auth" }), /refused the credential/);
  assert.match(held({ blocked_reason: "credits" }), /out of credit/);
  assert.match(held({ blocked_reason: "auth", paused: true }), /^Paused/);
  assert.match(held({ paused: true, closed: true }), /^Closed/);
});

const WAITS = aSnapshot({
  version: 2, turn: "turn-1", asOf: 2, messages: [ASKED], waiting_for: [{ kind: "retry", id: "model-1-0", since: AT, until: at(60) }],
});
const SCHEDULED = anEvent("model_retry_scheduled", { sequence: 2, step: "model-1-0", retry_in_ms: 60000, attempt: 1, reason: "rate_limited" });

test("a long wait for the provider can be skipped, is counted down, and ends with its next call", () => {
  const state = running([], SCHEDULED, WAITS);
  assert.deepEqual(view(state).activity, { kind: "retry", reason: "rate_limited", until: at(60), skippable: true });
  assert.equal(activityText(view(state), NOW), "The model's provider failed (rate limited).");
  assert.equal(countdownText(view(state), NOW + 17_500), "Next attempt in 43 s");
  assert.equal(countdownText(view(state), NOW + 61_000), "Trying again…");
  assert.equal(steps(state)[0].retry.reason, "rate_limited");

  const called = after([anEvent("model_started", { step: "model-1-0", attempt: 2, second: 60 })], state);
  assert.equal(view(called).activity.kind, "thinking");
  assert.deepEqual(view(called).waiting, []);
});

test("a wait that began before the page was opened is told by the snapshot", () => {
  assert.equal(view(after([WAITS])).activity.skippable, true);
});

// --- stop -------------------------------------------------------------------------------------

test("a stop goes out with the cursor of the last event that is shown", () => {
  assert.equal(view(running([], delta("It is"))).frontier, "c-live-0");
  assert.equal(view(initialState("s")).frontier, null);
});

test("a screen that shows more than its events have told is no frontier", () => {
  const ahead = aSnapshot({ version: 2, turn: "turn-1", messages: [ASKED, aMessage(2, "assistant", "let me look")] });

  const state = running([], ahead);
  assert.equal(view(state).frontier, null);

  const told = after([anEvent("model_finished", { sequence: 2, step: "model-1-0", status: "completed" })], state);
  assert.equal(view(told).frontier, "c-2-0");
});

test("an answer of which nothing had been shown leaves no trace but the notice", () => {
  const cut = aMessage(2, "assistant", "", { parts: [], status: "interrupted" });
  const ended = anEvent("turn_cancelled", { sequence: 2, reason: "stopped" });

  assert.deepEqual(kinds(after([STARTED, ended, aSnapshot({ asOf: 2, messages: [ASKED, cut] })])), ["user", "notice"]);
});

test("a stop freezes what was drawn, not what came since", () => {
  const drawn = running([], delta("It is"));
  const now = after([delta(" on its way"), { type: "stop", turnId: "turn-1", partials: drawn.partials }], drawn);

  assert.deepEqual(texts(now), ["where?", "It is"]);
});

test("events of a type that the stream does not bring are no gap once the pages have told them", () => {
  const gapped = after([STARTED, anEvent("turn_completed", { sequence: 3 })]);
  const page = [anEvent("turn_completed", { sequence: 3 }).event];

  const read = after([{ type: "stream_restarted" }, { type: "events", events: page }], gapped);

  assert.deepEqual([read.gap, read.sequence, view(read).turnId], [null, 3, null]);
});

// --- settings ---------------------------------------------------------------------------------

test("settings are a JSON object of at most 16 KiB with a known approval mode", () => {
  assert.deepEqual(parsed(' {"a": 1} ').settings, { a: 1 });
  assert.deepEqual(parsed("").settings, {});
  assert.match(parsed("{").problem, /no JSON/);
  for (const text of ["[]", "null", '"a"', "1"]) assert.match(parsed(text).problem, /JSON object/);
  assert.match(parsed('{"approval_mode": "never"}').problem, /no approval mode "never": use ask, allow_all/);
  const fits = JSON.stringify({ a: "x".repeat(16 * 1024 - 8) });
  assert.equal(parsed(fits).problem, undefined);
  assert.match(parsed(JSON.stringify({ a: "x".repeat(16 * 1024 - 7) })).problem, /too many/);
});

test("a picker changes its setting and nothing else", () => {
  const text = withSetting('{"model": "small", "approval_mode": "ask"}', "approval_mode", "read_only");
  assert.deepEqual(JSON.parse(text), { approval_mode: "read_only", model: "small" });
  assert.deepEqual(JSON.parse(withSetting(text, "approval_mode", "")), { model: "small" });
});
