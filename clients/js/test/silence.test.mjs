// A server that says nothing though nothing was cut, and one that ends a connection with the token that it was opened with.

import assert from "node:assert/strict";
import { test } from "node:test";

import { createClient } from "../src/index.js";
import { fakeServer, fakeTime, settled } from "./fakes.mjs";
import { vector } from "./vectors.mjs";

function opened({ transport = "stream", ...more } = {}) {
  const server = fakeServer(vector("turn"));
  if (transport === "socket") server.told = 1; // there is nothing to attach to before
  const time = fakeTime();
  const client = createClient({ url: "http://server", transport, environment: time, fetch: server.fetch, WebSocket: server.WebSocket, ...more });
  return { server, time, session: client.session("s-1") };
}

async function watched(settings) {
  const all = opened(settings);
  all.session.subscribe(() => {});
  await settled();
  return all;
}

const text = ({ session }) => session.getView().messages.map(({ parts }) => parts.map(({ text: said }) => said ?? "").join("")).join("|");

test("a snapshot that never comes is asked for again, and no later one waits for it", async () => {
  const { server, time, session } = await watched();
  let asked = 0;
  const { snapshot } = server;
  server.snapshot = () => ((asked += 1) === 1 ? new Promise(() => {}) : snapshot());
  server.tell(8);
  for (let seconds = 0; seconds < 75; seconds += 15) {
    await time.pass(15_000);
    server.whisper();
  }

  assert.equal(asked, 2);
  assert.equal(session.getView().messages.at(-1).origin, "stored");
});

test("pages are asked for no longer once their reader has left, be it while it takes one", async () => {
  const server = fakeServer(vector("turn"));
  const asked = [];
  async function fetch(url, init) {
    const { pathname } = new URL(url);
    if (!pathname.endsWith("/events")) return server.fetch(url, init);
    if (init.headers.Accept === "text/event-stream") return new Response("{}", { headers: { "content-type": "application/json" } });
    init.signal.throwIfAborted();
    asked.push(init.signal);
    return new Response(JSON.stringify({ events: [], cursor: `c${asked.length}` }));
  }
  const environment = fakeTime();
  const session = createClient({ url: "http://server", transport: "stream", environment, fetch }).session("s-1");
  session.subscribe(() => asked.length === 3 && session.connection.status !== "closed" && session.close());
  await settled();
  assert.equal(asked.length, 3);
  assert.equal(session.connection.status, "closed");
});

test("an attachment that is never answered is asked for again on the same connection", async () => {
  const all = opened({ transport: "socket" });
  all.server.dumb = true;
  all.session.subscribe(() => {});
  await all.time.pass(34_000);
  all.server.dumb = false;
  all.server.tell(3);
  await all.time.pass(2000);

  assert.equal(text(all), "Where is order 7?|It is on its way.");
  assert.equal(all.server.sockets.length, 1);
  const attaches = () => all.server.sockets[0].sent.filter(({ type }) => type === "attach").length;
  assert.equal(attaches(), 2);
  await all.time.pass(120_000);
  assert.equal(attaches(), 2);
});

test("a page whose token has ended comes back with the next one, and is refused when there is none", async () => {
  const tokens = ["first", "second", "third"];
  const { server, time, session } = await watched({ transport: "socket", getToken: () => tokens[0] });
  const of = { session_id: "s-1" };
  for (const said of [{ type: "access_denied" }, { type: "error", ...of }, { type: "access_denied", ...of }]) {
    tokens.shift();
    server.sockets.at(-1).say({ ...said, code: "unauthorized", message: "the token has ended" });
    await settled();
    assert.equal(session.connection.status, "waiting");
    server.tickets = tokens.length > 0;
    await time.pass(1000);
  }

  assert.deepEqual(server.sockets.map(({ closed }) => closed), [true, true, true]);
  assert.equal(session.connection.status, "denied");
});
