// Sessions that are followed over the WebSocket before they begin, or after they were purged.

import assert from "node:assert/strict";
import { test } from "node:test";

import { createClient } from "../src/index.js";
import { fakeServer, fakeTime, settled } from "./fakes.mjs";
import { vector } from "./vectors.mjs";

const text = ({ session }) => session.getView().messages.map(({ parts }) => parts.map(({ text: said }) => said ?? "").join("")).join("|");

/** A session that begins with the first event: nothing attaches to it before. `names`: whether an error says of which session it is. */
function notBegun({ names = true } = {}) {
  const server = fakeServer(vector("turn"));
  const time = fakeTime();
  const client = createClient({ url: "http://server", transport: "socket", environment: time, fetch: server.fetch, WebSocket: server.WebSocket });
  const { attach } = server.WebSocket.prototype;
  server.WebSocket.prototype.attach = function (frame) {
    if (server.told > 0) attach.call(this, frame);
    else this.say({ type: "error", ...(names && { session_id: frame.session_id }), code: "session_not_found", message: "there is no session" });
  };
  const reads = () => server.requests.filter(({ path }) => path === "/v1/sessions/s-1").length;
  return { server, time, session: client.session("s-1"), reads, sent: () => server.sockets[0].sent.filter(({ type }) => type !== "ping") };
}

test("a session that nobody has written to is attached again until it is there", async () => {
  const { server, time, session, reads, sent } = notBegun();
  session.subscribe(() => {});
  await time.pass(10_000);
  assert.equal(session.connection.status, "open");
  assert.equal(reads(), 1); // the server has said that there is none
  assert.equal(sent().length, 4);

  server.told = 4;
  await time.pass(3000);
  assert.equal(text({ session }), "Where is order 7?|It is on its way.");
  assert.ok(sent().every(({ type, after }) => type === "attach" && after === "c0"));
  const attempts = sent().length;
  await time.pass(20_000);
  assert.equal(sent().length, attempts);
});

test("a session whose refusal names none is read until it is there", async () => {
  const { server, time, session, reads } = notBegun({ names: false });
  session.subscribe(() => {});
  await time.pass(10_000);
  assert.equal(reads(), 4);

  server.told = 4;
  await time.pass(3000);
  assert.equal(text({ session }), "Where is order 7?|It is on its way.");
});

test("whoever sends the first message of a session is attached with the answer to it", async () => {
  const { server, session, sent } = notBegun();
  session.subscribe(() => {});
  await settled();
  server.answer = () => {
    server.told = 1;
    return { status: 202, body: { message_id: "perdure:m-1", delivered_as: "queue", cursor: "c0" } };
  };
  server.snapshot = () => new Promise(() => {}); // nothing but the answer says that it is there
  await session.actions.send("Where is order 7?", { idempotencyKey: "m-1" });
  await settled();

  assert.deepEqual(sent().map(({ type }) => type), ["attach", "command", "attach"]);
  assert.equal(session.getView().turnId, "turn-1");
});

test("a session that was purged is shown as empty, and attached to when it begins anew", async () => {
  const { server, time, session } = notBegun();
  server.told = 4;
  session.subscribe(() => {});
  await settled();
  assert.equal(session.getView().exists, true);

  server.told = 0;
  server.cut();
  await time.pass(1000);
  assert.deepEqual([session.getView().exists, session.connection.status], [false, "open"]);
  server.told = 4;
  await time.pass(3000);
  assert.equal(text({ session }), "Where is order 7?|It is on its way.");
});

/** A server whose gateway says, instead of it, that it failed at the first frame of a type, as API Gateway does: with no word of which frame. */
function failing(type) {
  const server = fakeServer(vector("turn"));
  const time = fakeTime();
  const client = createClient({ url: "http://server", transport: "socket", environment: time, fetch: server.fetch, WebSocket: server.WebSocket });
  const { send } = server.WebSocket.prototype;
  let failed = false;
  server.WebSocket.prototype.send = function (sent) {
    if (failed || JSON.parse(sent).type !== type) return send.call(this, sent);
    failed = true;
    const said = { message: "Internal server error", connectionId: "c-1=", requestId: "r-1=" };
    return setImmediate(() => this.onmessage({ data: JSON.stringify(said) }));
  };
  return { server, time, session: client.session("s-1") };
}

test("a session whose attachment the gateway lost is attached on another connection", async () => {
  const { server, time, session } = failing("attach");
  server.told = 4;
  session.subscribe(() => {});
  await settled();
  assert.equal(session.connection.status, "waiting");

  await time.pass(1000);
  assert.equal(session.connection.status, "open");
  assert.equal(text({ session }), "Where is order 7?|It is on its way.");
  assert.equal(server.sockets[0].closed, true);
});

test("a command whose answer the gateway lost is no command that waits for ever", async () => {
  const { time, session } = failing("command");
  session.subscribe(() => {});
  await settled();
  const sent = session.actions.send("Where is order 7?", { idempotencyKey: "m-1" });
  await assert.rejects(Promise.resolve(sent), { name: "UnsettledError" });

  await time.pass(1000);
  assert.equal(session.connection.status, "open");
});
