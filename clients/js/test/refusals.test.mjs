// A server that refuses, and one that cuts whatever it accepts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { createClient } from "../src/index.js";
import { fakeServer, fakeTime, settled } from "./fakes.mjs";
import { vector } from "./vectors.mjs";

function watched(transport, prepare = () => {}) {
  const server = fakeServer(vector("turn"));
  server.told = 1; // there is nothing to attach to before
  prepare(server);
  const time = fakeTime();
  const client = createClient({ url: "http://server", transport, environment: time, fetch: server.fetch, WebSocket: server.WebSocket });
  const session = client.session("s-1");
  session.subscribe(() => {});
  return { server, time, session };
}

const text = (session) => session.getView().messages.map(({ parts }) => parts.map(({ text: said }) => said ?? "").join("")).join("|");

for (const transport of ["stream", "socket"]) {
  test(`a server that accepts every connection over ${transport} and cuts it at once is not stormed`, async () => {
    const { server, time, session } = watched(transport);
    await settled();
    const before = server.requests.length;
    for (let second = 0; second < 600; second += 1) {
      server.cut();
      await time.pass(1000);
    }
    assert.ok(server.requests.length - before < 120, `${server.requests.length - before} requests in ten minutes`);

    await time.pass(60_000);
    assert.equal(session.connection.status, "open");
    server.cut();
    await time.pass(1000);
    assert.equal(session.connection.status, "open", "one that held is opened again soon");
  });
}

for (const [code, status, ends] of [
  ["store_unavailable", "open", "Where is order 7?|It is on its way."],
  ["invalid_cursor", "open", "Where is order 7?|It is on its way."],
  ["too_many_requests", "denied", "Where is order 7?"],
]) {
  test(`a session that can't be attached because of ${code} is attached again, or is said to be refused`, async () => {
    const { server, time, session } = watched("socket", ({ WebSocket }) => {
      const { attach } = WebSocket.prototype;
      let refusals = 1;
      WebSocket.prototype.attach = function (frame) {
        if (refusals-- > 0) this.say({ type: "error", session_id: frame.session_id, code, message: "not now" });
        else attach.call(this, frame);
      };
    });
    await time.pass(6000);
    server.tell(3);
    await settled();

    assert.equal(session.connection.status, status);
    assert.equal(text(session), ends);
  });
}
