// The client against a server that a test cuts, silences and lets answer: over event streams and over the WebSocket.

import assert from "node:assert/strict";
import { test } from "node:test";

import { UnsettledError, createClient, secondsLeft } from "../src/index.js";
import { fakeServer, fakeTime, settled } from "./fakes.mjs";
import { vector } from "./vectors.mjs";

const TRANSPORTS = ["stream", "socket"];

function opened(recorded, { transport = "stream", ...more } = {}) {
  const server = fakeServer(recorded);
  if (transport === "socket" && !server.snapshot().state) server.told = 1; // there is nothing to attach to before
  const time = fakeTime();
  const client = createClient({ url: "http://server", transport, environment: time, fetch: server.fetch, WebSocket: server.WebSocket, ...more });
  return { server, time, client, session: client.session("s-1") };
}

async function watched(recorded, more) {
  const all = opened(recorded, more);
  all.stop = all.session.subscribe(() => {});
  await settled();
  return all;
}

const shown = ({ session }) => {
  const { connection, ...view } = session.getView();
  return view;
};
const text = ({ session }) => session.getView().messages.map(({ parts }) => parts.map(({ text: said }) => said ?? "").join("")).join("|");

// --- following --------------------------------------------------------------------------------

for (const transport of TRANSPORTS) {
  for (const name of ["turn", "streaming", "retried_attempt", "failed_turn"]) {
    test(`${name} over ${transport}: cut anywhere, and resumed at once or when all is over, it ends as if uncut`, async () => {
      const uncut = await watched(vector(name), { transport });
      const { count } = uncut.server;
      for (let told = 0; told < count; told += 1) {
        uncut.server.tell();
        await settled();
      }
      const whole = shown(uncut);
      assert.ok(whole.messages.length >= 1);

      for (let cut = 0; cut <= count; cut += 1) {
        for (const meanwhile of [0, 1, count]) {
          const all = await watched(vector(name), { transport });
          for (let told = 0; told < cut; told += 1) {
            all.server.tell();
            await settled();
          }
          all.server.cut();
          await settled();
          all.server.tell(meanwhile);
          await all.time.pass(1000);
          for (let told = 0; told < count; told += 1) {
            all.server.tell();
            await settled();
          }
          assert.deepEqual(shown(all), whole, `cut behind ${cut}, ${meanwhile} told meanwhile`);
        }
      }
    });
  }

  test(`live text grows over ${transport} as it is told`, async () => {
    const all = await watched(vector("turn"), { transport });
    all.server.tell(3 - all.server.told);
    await settled();
    assert.equal(text(all), "Where is order 7?|It is ");

    all.server.tell();
    await settled();
    assert.equal(text(all), "Where is order 7?|It is on its way.");
  });

  test(`a reconnect over ${transport} is counted down, can be tried at once, and given up`, async () => {
    const { server, time, session } = await watched(vector("turn"), { transport });
    assert.equal(session.connection.status, "open");

    server.up = false;
    server.cut();
    await settled();
    assert.equal(session.connection.status, "waiting");
    assert.equal(secondsLeft(session.connection, time.now()), 1);

    await time.pass(10_000);
    const { attempt, retryAt } = session.connection;
    assert.ok(attempt >= 4 && retryAt - time.now() > 1000, "the delay grows");

    session.giveUp();
    const requests = server.requests.length;
    await time.pass(600_000);
    assert.equal(session.connection.status, "given_up");
    assert.equal(server.requests.length, requests);

    server.up = true;
    session.retryNow();
    await settled();
    assert.equal(session.connection.status, "open");
  });
}

test("a network that is back is tried at once", async () => {
  const { server, time, session, client } = await watched(vector("turn"));
  server.up = false;
  server.cut();
  await time.pass(20_000);
  server.up = true;
  time.isOnline();
  await settled();

  assert.equal(session.connection.status, "open");
  client.close();
  assert.equal(time.heardBy, 0);
});

test("who may not see a session is told so, and nothing is tried again", async () => {
  const { server, time, session, client } = opened(vector("turn"));
  const fetch = async () => new Response(JSON.stringify({ error: { code: "session_not_found", message: "there is no session", retryable: false } }), { status: 404 });
  const refused = createClient({ url: "http://server", transport: "stream", environment: time, fetch }).session("s-1");
  refused.subscribe(() => {});
  await time.pass(60_000);

  assert.equal(refused.connection.status, "denied");
  assert.equal(refused.connection.error.code, "session_not_found");
  assert.equal(server.requests.length, 0);
  assert.equal(session.connection.status, "idle");
  client.close();
});

test("a grant that ends closes the session for good, and another session goes on", async () => {
  const { server, client, session, time } = await watched(vector("turn"), { transport: "socket" });
  const [socket] = server.sockets;
  socket.say({ type: "access_denied", session_id: "s-1", code: "forbidden", message: "your access has ended" });
  await settled();

  assert.equal(session.connection.status, "denied");
  await time.pass(60_000);
  assert.equal(server.sockets.length, 1);
  client.close();
});

test("a stream that can't go on begins anew behind a snapshot", async () => {
  const { server, session } = await watched(vector("turn"), { transport: "socket" });
  const [socket] = server.sockets;
  socket.say({ type: "resync_required", session_id: "s-1", reason: "too_old" });
  const told = vector("resync").actions.findLast(({ type }) => type === "snapshot").snapshot;
  socket.say({ type: "snapshot", session_id: "s-1", snapshot: told });
  await settled();

  assert.equal(session.getView().turnId, "turn-30");
  assert.equal(session.getState().cursor, told.cursor);
});

test("a server that no longer answers pings is left", async () => {
  const { server, time, session } = await watched(vector("turn"), { transport: "socket" });
  await time.pass(24_000);
  assert.deepEqual(server.sockets[0].sent.map(({ type }) => type), ["attach"]);
  await time.pass(2000);
  assert.deepEqual(server.sockets[0].sent.map(({ type }) => type), ["attach", "ping"]);
  assert.equal(session.connection.status, "open");

  server.deaf = true;
  await time.pass(36_000);
  assert.equal(server.sockets[0].closed, true);
  await time.pass(1000);
  assert.equal(server.sockets.length, 2);
});

test("a stream that falls silent, without even a comment, is left and goes on where it was", async () => {
  const { server, time, session } = await watched(vector("turn"));
  const streams = () => server.requests.filter(({ path }) => path.endsWith("/events"));
  await time.pass(30_000);
  server.tell(2);
  await time.pass(30_000);
  assert.equal(streams().length, 1);

  await time.pass(16_000);
  assert.deepEqual([streams().length, session.connection.status], [2, "open"]);
  assert.equal(streams()[1].query.after, session.getState().cursor);
});

test("what changed while the server was away is read when it is back", async () => {
  const { server, time, session } = await watched(vector("turn"));
  server.tell(4);
  await settled();
  server.up = false;
  server.tell(4);
  await settled();
  server.cut();
  await time.pass(5000);
  assert.equal(session.getView().messages.at(-1).origin, "finished");

  server.up = true;
  await time.pass(60_000);
  assert.equal(session.getView().messages.at(-1).origin, "stored");
});

test("where there is no WebSocket to be had, events are streamed", async () => {
  const server = fakeServer(vector("turn"));
  server.tickets = false;
  const client = createClient({ url: "http://server", environment: fakeTime(), fetch: server.fetch, WebSocket: server.WebSocket });
  const session = client.session("s-1");
  session.subscribe(() => {});
  await settled();
  server.tell(4);
  await settled();

  assert.equal(server.sockets.length, 0);
  assert.equal(text({ session }), "Where is order 7?|It is on its way.");
});

test("where nothing can be streamed, pages are read", async () => {
  const server = fakeServer(vector("turn"));
  server.told = server.count;
  const events = vector("turn").actions.filter(({ type }) => type === "event").map(({ event }) => event);
  const asked = [];
  async function fetch(url, init) {
    const { pathname, searchParams } = new URL(url);
    if (!pathname.endsWith("/events")) return server.fetch(url, init);
    if (init.headers.Accept === "text/event-stream") {
      return new Response(JSON.stringify({ error: { code: "invalid_request", message: "not here", retryable: false } }), { status: 400 });
    }
    asked.push(searchParams.get("wait_seconds"));
    if (asked.length === 1) return new Response(JSON.stringify({ events, cursor: "end" }));
    return new Promise(() => {});
  }
  const session = createClient({ url: "http://server", transport: "stream", environment: fakeTime(), fetch }).session("s-1");
  session.subscribe(() => {});
  await settled();

  assert.deepEqual(asked, ["0", "20"]);
  assert.equal(session.getState().cursor, "end");
  assert.equal(text({ session }), "Where is order 7?|It is on its way.");
});

test("streams and sockets are where the deployment says", async () => {
  const server = fakeServer(vector("turn"));
  const asked = [];
  async function fetch(url, init) {
    const { origin, pathname } = new URL(url);
    asked.push(`${origin}${pathname}`);
    if (pathname === "/healthz") return new Response(JSON.stringify({ status: "ok", stream_url: "http://streams", socket_url: "ws://sockets/v1" }));
    return server.fetch(url, init);
  }
  for (const transport of TRANSPORTS) {
    createClient({ url: "http://server/", transport, environment: fakeTime(), fetch, WebSocket: server.WebSocket }).session("s-1").subscribe(() => {});
    await settled();
  }

  assert.deepEqual(asked.filter((address) => /healthz|events/.test(address)).slice(0, 2), ["http://server/healthz", "http://streams/v1/sessions/s-1/events"]);
  assert.equal(server.sockets[0].address, "ws://sockets/v1?ticket=t-1");
});

test("an event that never comes is left out, and what it changed is read", async () => {
  const { actions } = vector("turn");
  const lossy = actions.filter(({ event }) => event?.sequence !== 2);
  const { server, time, session } = await watched({ actions: lossy });
  for (let told = 0; told < 7; told += 1) {
    server.tell();
    await settled();
  }
  await time.pass(5000);

  assert.equal(text({ session }), "Where is order 7?|It is on its way.");
  assert.equal(session.getView().messages.at(-1).origin, "stored");
  assert.equal(session.getState().gap, null);
  const requests = server.requests.length;
  await time.pass(40_000); // a real server has said by then that it is there
  assert.equal(server.requests.length, requests, "it has come to rest");
});

// --- sessions ---------------------------------------------------------------------------------

test("a session is one object for everybody, is followed once, and is collected when nobody has listened for a while", async () => {
  const { server, time, client, session, stop } = await watched(vector("turn"));
  const again = client.session("s-1");
  const stopAgain = again.subscribe(() => {});
  await settled();
  assert.equal(again, session);
  assert.equal(server.watched, 1);

  stop();
  await time.pass(400_000);
  assert.equal(server.watched, 1, "somebody still listens");
  stopAgain();
  await time.pass(299_000);
  assert.equal(server.watched, 1);
  await time.pass(2000);
  assert.equal(server.watched, 0);
  assert.notEqual(client.session("s-1"), session);
});

test("who listens again to a collected session follows it again, from where it stood", async () => {
  const { server, time, session, stop } = await watched(vector("turn"), { idleMs: 1000 });
  server.tell(1);
  await settled();
  stop();
  await time.pass(1001);
  server.tell(3);
  session.subscribe(() => {});
  await settled();

  assert.equal(text({ session }), "Where is order 7?|It is on its way.");
  assert.equal(server.watched, 1);
});

test("what a server has rendered is shown at once, followed from there, and no news to a session that knows more", async () => {
  const server = fakeServer(vector("turn"));
  server.told = 4;
  const client = createClient({ url: "http://server", transport: "stream", environment: fakeTime(), fetch: server.fetch });
  const rendered = vector("turn").actions.filter(({ type }) => type === "snapshot")[1].snapshot;
  const session = client.session("s-1", { initial: { ...rendered, cursor: "c1" } });
  assert.equal(text({ session }), "Where is order 7?");
  assert.equal(server.requests.length, 0);

  session.subscribe(() => {});
  await settled();
  assert.equal(text({ session }), "Where is order 7?|It is on its way.");
  assert.deepEqual(server.requests.map(({ path }) => path), ["/healthz", "/v1/sessions/s-1/events"]);

  const known = session.getState();
  assert.equal(client.session("s-1", { initial: rendered }), session);
  assert.equal(session.getState().cursor, known.cursor);
  assert.equal(text({ session }), "Where is order 7?|It is on its way.");
});

test("a page that is rendered again with what its server said is told of no change", async () => {
  const rendered = vector("server_rendered").actions[1].snapshot;
  const { session } = opened({ actions: [] }, { environment: fakeTime() });
  session.reconcile(rendered);
  const view = session.getView();
  session.reconcile(structuredClone(rendered)); // a hook whose caller makes the object anew would render for ever
  assert.equal(session.getView(), view);
});

test("a lost answer is never sent again by itself, and counts once when it is", async () => {
  const all = await watched({ actions: [] });
  const keys = [];
  all.server.answer = async ({ headers }) => {
    keys.push(headers["Idempotency-Key"]);
    if (keys.length === 1) throw new TypeError("fetch failed");
    return { status: 202, body: { message_id: "perdure:key-1", delivered_as: "queue", duplicate: true, cursor: "c0" } };
  };
  const lost = all.session.actions.send("hello");
  const error = await lost.catch((failure) => failure);
  await all.time.pass(600_000);

  assert.ok(error instanceof UnsettledError);
  assert.equal(error.idempotencyKey, "key-1");
  assert.deepEqual(keys, ["key-1"]);
  assert.equal(shown(all).messages[0].origin, "sending");
  assert.match(shown(all).messages[0].problem, /no answer/);

  assert.equal((await error.resend()).duplicate, true);
  assert.deepEqual(keys, ["key-1", "key-1"]);
  assert.equal(shown(all).messages.length, 1);
});

for (const transport of TRANSPORTS) {
  test(`an answer over ${transport} that says that nobody knows is none`, async () => {
    const { server, session } = await watched(vector("turn"), { transport });
    server.answer = () => ({ status: 503, body: { error: { code: "store_unavailable", message: "the store gave no answer", retryable: true } } });
    const error = await session.actions.pause().catch((failure) => failure);
    assert.ok(error instanceof UnsettledError);
    assert.equal(error.cause.code, "store_unavailable");

    server.answer = () => ({ status: 429, body: { error: { code: "too_many_requests", message: "later", retryable: true } } });
    await assert.rejects(session.actions.pause(), { code: "too_many_requests", retryable: true });
  });
}

test("a caller's own key goes out as it is", async () => {
  const { server, session } = await watched({ actions: [] });
  server.answer = () => ({ status: 202, body: { message_id: "m-1", delivered_as: "queue", cursor: "c0" } });
  await session.actions.send("hello", { idempotencyKey: "mine", messageId: "m-1" });

  const sent = server.requests.find(({ method }) => method === "POST");
  assert.equal(sent.headers["Idempotency-Key"], "mine");
  assert.deepEqual(sent.body, { text: "hello", message_id: "m-1" });
});
