// What a person does: the ids that go along, what shows meanwhile, when it is stored and when it is confirmed.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ApiError, UnsettledError, createClient } from "../src/index.js";
import { fakeServer, fakeTime, settled } from "./fakes.mjs";
import { vector } from "./vectors.mjs";

async function watched(recorded = { actions: [] }, { told = 0, transport = "stream", snapshot } = {}) {
  const server = fakeServer(recorded);
  server.told = told;
  if (snapshot) server.snapshot = () => snapshot;
  const time = fakeTime();
  const client = createClient({ url: "http://server", transport, environment: time, fetch: server.fetch, WebSocket: server.WebSocket });
  const session = client.session("s-1");
  session.subscribe(() => {});
  await settled();
  const sent = () => server.requests.filter(({ method, path }) => method !== "GET" && path !== "/v1/socket-tickets");
  return { server, time, client, session, sent, actions: session.actions };
}

/** Whether a promise is settled by now. */
async function isDone(promise) {
  let done = false;
  promise.then(() => (done = true), () => (done = true));
  await settled();
  return done;
}

test("a message shows at once, is stored with its answer, and confirmed when the stream returns it", async () => {
  const { server, session, actions } = await watched(vector("turn"), { snapshot: vector("turn").actions[0].snapshot });
  let answer;
  server.answer = () => new Promise((resolve) => (answer = resolve));

  const sending = actions.send("Where is order 7?", { idempotencyKey: "m-1" });
  await settled();
  assert.deepEqual(session.getView().messages.map(({ origin, key }) => [origin, key]), [["sending", "perdure:m-1"]]);
  assert.equal(session.getView().indicator, "starting");
  assert.equal(await isDone(sending), false);

  server.snapshot = () => new Promise(() => {}); // nothing but the stream tells of it
  answer({ status: 202, body: { message_id: "perdure:m-1", delivered_as: "queue", duplicate: false, cursor: "c0" } });
  assert.equal((await sending).message_id, "perdure:m-1");
  assert.equal(await isDone(sending.confirmed), false);

  server.tell();
  assert.equal(await isDone(sending.confirmed), true);
});

test("messages go out one after the other, in the order in which they were written", async () => {
  const { server, sent, actions } = await watched();
  const answers = [];
  server.answer = () => new Promise((resolve) => answers.push(resolve));
  actions.send("one").catch(() => {});
  const second = actions.send("two");
  await settled();
  assert.deepEqual(sent().map(({ body }) => body.text), ["one"]);

  answers[0]({ status: 413, body: { error: { code: "too_large", message: "too large", retryable: false } } });
  await settled();
  assert.deepEqual(sent().map(({ body }) => body.text), ["one", "two"]);
  answers[1]({ status: 202, body: { message_id: "perdure:key-2", delivered_as: "queue", cursor: "c0" } });
  await second;
});

test("a refused message is taken back, and its caller told why", async () => {
  const { server, session, actions } = await watched();
  server.answer = () => ({ status: 409, body: { error: { code: "agent_mismatch", message: "another agent", retryable: false } } });
  const sending = actions.send("hello");
  const error = await sending.catch((failure) => failure);

  assert.ok(error instanceof ApiError);
  assert.equal(error.code, "agent_mismatch");
  await assert.rejects(sending.confirmed, { code: "agent_mismatch" });
  assert.deepEqual(session.getView().messages, []);
});

test("a message that was stored, and that no snapshot shows any more, is not on its way for ever", async () => {
  const { server, session, actions } = await watched(vector("turn"), { snapshot: vector("turn").actions[0].snapshot });
  server.answer = ({ body }) => ({ status: 202, body: { message_id: body.message_id, delivered_as: "queue", duplicate: true, cursor: "c0" } });
  let read;
  server.snapshot = () => new Promise((resolve) => (read = resolve)); // of before; somebody else has taken it back
  await actions.send("hello", { waits: true });
  await settled();
  assert.deepEqual(session.getView().inbox.map(({ sending }) => sending), [true]);

  read(vector("turn").actions[0].snapshot);
  await settled();
  assert.deepEqual(session.getView().inbox, []);
  assert.equal(session.getView().indicator, null);
});

test("a message is confirmed by what is told of it, whatever its id", async () => {
  const { server, actions } = await watched(vector("turn"), { snapshot: vector("turn").actions[0].snapshot });
  server.answer = ({ body }) => ({ status: 202, body: { message_id: body.message_id, delivered_as: "queue", cursor: "c0" } });
  server.snapshot = () => new Promise(() => {});
  const sending = actions.send("hello", { messageId: "constructor" });
  await sending;
  assert.equal(await isDone(sending.confirmed), false);
});

test("what can't be a command is never sent", async () => {
  const { sent, actions } = await watched();
  await assert.rejects(actions.send("hello", { delivery: "by pigeon" }), /delivery has to be one of/);
  await assert.rejects(actions.send("hello", { messageId: "perdure:mine" }), /are made by the client/);
  await assert.rejects(actions.push({ operation: "set_schedule", session_id: "s-1", body: {} }), /a browser has no command/);
  await assert.rejects(actions.approve("call-9-0"), /is not open/);
  await assert.rejects(actions.approve(), /0 of the kind approval are open/);

  assert.deepEqual(sent(), []);
});

test("an approval takes the hash of what is shown from the state, and is confirmed by its event alone", async () => {
  const waiting = vector("approval").actions[4].snapshot;
  const { server, session, sent, actions } = await watched(vector("approval"), { told: 3, snapshot: waiting });
  server.answer = () => ({ status: 200, body: { result: "resolved" } });
  server.snapshot = () => new Promise(() => {}); // nothing but the stream tells more

  const approving = actions.approve(undefined, { message: "fine" });
  assert.equal(session.getView().interrupts[0].deciding, true);
  assert.deepEqual(await approving, { result: "resolved" });
  assert.deepEqual(sent()[0].body, { approved: true, arguments_hash: "h-call-2-0", message: "fine" });
  assert.equal(sent()[0].path, "/v1/sessions/s-1/interrupts/call-2-0");
  assert.equal(await isDone(approving.confirmed), false);

  server.tell();
  assert.equal(await isDone(approving.confirmed), true);
  assert.deepEqual(session.getView().interrupts, []);
});

test("an approval that is no longer open is refused with its reason, and not offered again", async () => {
  const { server, session, actions } = await watched();
  session.reconcile(vector("approval").actions[4].snapshot);
  server.answer = () => ({ status: 409, body: { error: { code: "not_pending", message: "it is no longer open", retryable: false } } });
  server.snapshot = () => vector("withdrawn_approval").actions.at(-1).snapshot;

  await assert.rejects(actions.approve("call-2-0"), { code: "not_pending" });
  await settled();
  assert.deepEqual(session.getView().interrupts, []);
  assert.equal(session.getView().toolCalls[0].status, "rejected");
});

test("a question is answered or declined by its id", async () => {
  const { sent, actions } = await watched();
  await actions.answer("question-2-0", "red");
  await actions.decline("question-2-0", { message: "neither" });
  await actions.give("seat", { row: 7 });

  assert.deepEqual(sent().map(({ body }) => body), [{ answer: "red" }, { approved: false, message: "neither" }, { value: { row: 7 } }]);
});

test("a stop names the running turn and the last event that was shown; one that came too late lets go", async () => {
  const { server, session, sent, actions } = await watched(vector("turn"), { told: 1 });
  server.tell(2);
  await settled();
  server.answer = () => ({ status: 200, body: { result: "too_late" } });
  const stopping = actions.stop();
  await settled();
  const { cursor } = session.getState();

  assert.equal((await stopping).result, "too_late");
  assert.deepEqual(sent()[0].body, { turn_id: "turn-1", frontier: cursor });
  assert.equal(session.getView().stopping, false);
});

test("a retry has an id of its own for each call, and the same one when it is sent again", async () => {
  const { server, sent, actions } = await watched(vector("failed_turn"), { told: 4 });
  let lost = true;
  server.answer = () => {
    if (lost) throw new TypeError("fetch failed");
    return { status: 200, body: { result: "recorded" } };
  };
  const error = await actions.retry().catch((failure) => failure);
  lost = false;
  await error.resend();
  await actions.retry();

  const ids = sent().map(({ body }) => body.retry_id);
  assert.equal(ids[0], ids[1]);
  assert.notEqual(ids[0], ids[2]);
});

test("what is done to the inbox shows at once and is sent in order", async () => {
  const { server, session, sent, actions } = await watched(vector("queue"), { told: 4 });
  assert.deepEqual(session.getView().inbox.map(({ text }) => text), ["two", "three"]);

  const answers = [];
  server.answer = () => new Promise((resolve) => answers.push(resolve));
  actions.edit("m-2", "two and a half");
  actions.move("m-3", { before: "m-2" });
  actions.remove("m-3");
  actions.deliver("m-2", "steer");
  await settled();
  assert.equal(session.getView().inbox[0].text, "two and a half");
  assert.equal(sent().length, 1);

  for (let index = 0; index < 4; index += 1) {
    answers[index]({ status: 200, body: { result: "recorded" } });
    await settled();
  }
  assert.deepEqual(sent().map(({ method, path, body }) => [method, path.replace("/v1/sessions/s-1", ""), body]), [
    ["PATCH", "/inbox/m-2", { text: "two and a half" }],
    ["PATCH", "/inbox/m-3", { before: "m-2" }],
    ["DELETE", "/inbox/m-3", undefined],
    ["POST", "/inbox/m-2/deliver", { delivery: "steer" }],
  ]);
});

test("pause shows at once, and a refusal takes it back", async () => {
  const { server, session, actions } = await watched(vector("turn"), { told: 1 });
  server.answer = () => ({ status: 409, body: { error: { code: "closed", message: "closed", retryable: false } } });
  const pausing = actions.pause();
  assert.equal(session.getView().paused, true);

  await assert.rejects(pausing, { code: "closed" });
  await settled();
  assert.equal(session.getView().paused, false);
});

/** A turn behind which a model named the session, and somebody else then did. */
function titled() {
  const { actions, ...rest } = vector("turn");
  const called = (sequence, payload) =>
    ({ type: "event", event: { type: "title_changed", sequence, version: sequence, cursor: `c${sequence}`, turn_id: null, at: "2026-11-30T10:00:08.000Z", payload } });
  return { ...rest, actions: [...actions, called(5, { title: "Order 7", by: "model" }), called(6, { title: "Where order 7 is", by: "person" })] };
}

const named = { ...vector("turn").actions.at(-1).snapshot, title: "Order 7" };

test("a title shows at once, and is confirmed when the stream returns it", async () => {
  const { server, session, sent, actions } = await watched(titled(), { told: 8, snapshot: named });
  server.snapshot = () => new Promise(() => {}); // nothing but the stream tells of it
  assert.equal(session.getView().title, "Order 7");

  const renaming = actions.rename(" Where  order 7 is ", { idempotencyKey: "t-1" });
  assert.equal(session.getView().title, "Where order 7 is");
  assert.deepEqual(await renaming, { result: "recorded" });
  assert.deepEqual(sent().map(({ method, path, body }) => [method, path, body]), [
    ["PUT", "/v1/sessions/s-1/title", { title: " Where  order 7 is " }],
  ]);
  assert.equal(sent()[0].headers["Idempotency-Key"], "t-1");
  assert.equal(await isDone(renaming.confirmed), false);

  server.tell();
  assert.equal(await isDone(renaming.confirmed), true);
  assert.equal(session.getView().title, "Where order 7 is");
});

test("the same title once more is confirmed by what is stored, for no event tells of it", async () => {
  const { server, actions } = await watched(titled(), { told: 8, snapshot: named });
  let answer;
  server.answer = () => new Promise((resolve) => (answer = resolve));
  const renaming = actions.rename("Order 7");
  assert.equal(await isDone(renaming.confirmed), false);

  answer({ status: 200, body: { result: "already_recorded" } });
  assert.equal(await isDone(renaming.confirmed), true);
});

test("a title that is refused gives way to the one before", async () => {
  const { server, session, actions } = await watched(titled(), { told: 8, snapshot: named });
  server.answer = () => ({ status: 400, body: { error: { code: "invalid_request", message: "too long", retryable: false } } });
  const renaming = actions.rename("x".repeat(201));
  assert.equal(session.getView().title, "x".repeat(201));

  await assert.rejects(renaming, { code: "invalid_request" });
  await settled();
  assert.equal(session.getView().title, "Order 7");
  await assert.rejects(renaming.confirmed, { code: "invalid_request" });
});

test("commands go over the socket and are answered there; a connection that is lost leaves them open", async () => {
  const { server, session, sent, actions } = await watched(vector("turn"), { told: 1, transport: "socket" });
  server.answer = ({ operation, idempotency_key: key }) => ({ status: 200, body: { result: `${operation} ${key}` } });
  assert.deepEqual(await actions.pause(), { result: "pause key-1" });
  assert.deepEqual(sent(), []);

  server.answer = () => ({ status: 409, body: { error: { code: "closed", message: "closed", retryable: false } } });
  await assert.rejects(actions.resume(), { code: "closed" });

  server.answer = () => new Promise(() => {});
  const lost = actions.pause();
  await settled();
  server.cut();
  const error = await lost.catch((failure) => failure);
  assert.ok(error instanceof UnsettledError);
  assert.equal(error.idempotencyKey, "key-3");
  assert.equal(session.connection.status, "waiting");
});

test("a command that is never answered holds up none behind it, though its connection goes on", async () => {
  const { server, time, session, actions } = await watched(vector("turn"), { told: 1, transport: "socket" });
  const asked = [];
  server.answer = ({ body }) => (asked.push(body.text), new Promise(() => {}));
  const lost = actions.send("one").catch((failure) => failure);
  actions.send("two").catch(() => {});
  await time.pass(34_000);
  assert.deepEqual(asked, ["one"]);

  await time.pass(2000);
  assert.ok((await lost) instanceof UnsettledError);
  assert.deepEqual(asked, ["one", "two"]);
  assert.equal(session.connection.status, "open");
  assert.equal(server.sockets.length, 1);
});

test("a command that is too large for a frame goes over HTTP, and so does one without a connection", async () => {
  const { server, sent, actions } = await watched(vector("turn"), { told: 1, transport: "socket" });
  server.answer = () => ({ status: 202, body: { message_id: "x", delivered_as: "queue", cursor: "c0" } });
  await actions.send("é".repeat(20_000));
  assert.equal(sent().length, 1);

  server.cut();
  await settled();
  await actions.send("short");
  assert.equal(sent().length, 2);
});
