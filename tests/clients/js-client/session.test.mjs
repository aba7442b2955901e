// The JavaScript client on a real server, over a line that breaks: at every frame and inside of one, it shows each turn as one
// that was never cut.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { UnsettledError, createClient } from "../../../clients/js/src/index.js";
import { Api, assertSame, fresh, range, until } from "../lib/api.mjs";
import { Proxy } from "../lib/proxy.mjs";
import { Server } from "../lib/server.mjs";

let server;
let proxy;
let api;

before(async () => {
  server = await Server.started();
  proxy = await Proxy.to(server.url);
  api = new Api(server.url);
});

after(async () => {
  await proxy.close();
  await server.close();
});

// Watches a turn through a line that breaks as told, decides what is asked, and returns what was shown at its end. `holds`: its
// text stops in the middle until the last connection is there.
async function watched(wish, faults, transport, { holds = false } = {}) {
  const id = fresh("client");
  const line = proxy.line(id, ...faults);
  const client = createClient({ url: line, transport });
  const session = client.session(id);
  const faulty = [];
  const live = new Map();
  const stop = session.subscribe(() => check(session.getView(), faulty, live));
  try {
    await until(() => session.connection.status !== "connecting" && session.connection.status !== "idle", "a connection");
    const sending = session.actions.send(holds ? `${wish} hold:${id}` : wish, { idempotencyKey: `input-of-${id}` });
    const { confirmed } = await stored(sending);
    if (holds) {
      await until(() => connections(id) > faults.length && session.connection.status === "open", "the last connection");
      server.release(id);
    }
    await until(() => decide(session) && isOver(session), `the end of ${wish}`);
    await confirmed;
    assert.deepEqual(faulty, []);
    if (!wish.startsWith("stumble")) assertBegun(live, session.getView(), `${wish} ${JSON.stringify(faults)}`);
    return { id, view: session.getView(), frames: session.getState().sequence };
  } finally {
    stop();
    client.close();
  }
}

// Waits for an answer to an action, and sends it again with its key when that was lost.
async function stored(acting) {
  try {
    await acting;
    return { confirmed: acting.confirmed };
  } catch (error) {
    if (!(error instanceof UnsettledError)) throw error;
    return stored(error.resend());
  }
}

const connections = (id) => proxy.asked.get(id).filter((line) => /\/events|\/v1\/socket\?/.test(line)).length;

const decided = new WeakMap();

// Approves and answers whatever is open, once.
function decide(session) {
  const done = decided.get(session) ?? new Set();
  decided.set(session, done);
  for (const { interrupt_id: id, kind } of session.getView().interrupts) {
    if (done.has(id)) continue;
    done.add(id);
    const deciding = kind === "approval" ? session.actions.approve(id) : session.actions.answer(id, "red");
    stored(deciding).catch(() => {}); // if it was refused, the turn does not come to its end
  }
  return true;
}

// The snapshot comes behind the events: with it, all that is shown is stored.
function isOver(session) {
  const { turnId, messages, exists } = session.getView();
  const stored = session.getState().snapshot?.state;
  return exists && turnId === null && stored.turn_count === 1 && stored.turn_id === undefined && messages.every(({ origin }) => origin === "stored");
}

// Holds at every moment: no message twice, and no text. Notes what was live, for `assertBegun`.
function check({ messages }, faulty, live = new Map()) {
  for (const { key, parts } of messages.filter(({ origin }) => origin === "live")) live.set(key, [...(live.get(key) ?? []), textOf(parts)]);
  const keys = messages.map(({ key }) => key);
  if (new Set(keys).size !== keys.length) faulty.push(`a message is shown twice: ${keys}`);
  const said = messages.filter(({ role }) => role === "assistant").map(({ parts }) => textOf(parts)).filter(Boolean);
  if (new Set(said).size !== said.length) faulty.push(`a text is shown twice: ${said}`);
}

const textOf = (parts) => parts.filter(({ type }) => type === "text").map(({ text }) => text).join("");

// Whatever was shown live of an answer is how it begins.
function assertBegun(live, { messages }, what) {
  for (const { key, parts } of messages) {
    for (const begun of live.get(key) ?? []) assert.ok(textOf(parts).startsWith(begun), `${what}: ${JSON.stringify(begun)} is not how ${key} begins`);
  }
}

async function assertShown({ id, view }, what) {
  const { messages, state } = await api.snapshot(id);
  const shown = view.messages.map(({ key, origin, ...message }) => message);
  assertSame(shown, messages, `${what}: its messages`);
  assert.equal(view.status, state.status);
  assert.deepEqual(view.interrupts, []);
}

async function inTurns(jobs, run, width = 6) {
  const left = [...jobs];
  await Promise.all(range(1, width).map(async () => {
    for (let job = left.shift(); job !== undefined; job = left.shift()) await run(job);
  }));
}

for (const transport of (process.env.PERDURE_TRANSPORTS ?? "stream,socket").split(",")) {
  describe(`a session over ${transport}`, () => {
    for (const wish of ["tour", "refund 7 and 8", "ask", "missing", "large", "stumble talk"]) {
      it(`shows "${wish}" as it is stored`, async () => {
        await assertShown(await watched(wish, [], transport), wish);
      });
    }

    for (const [wish, ...within] of [["tour", 9], ["refund 7"], ["ask"]]) {
      it(`shows "${wish}" as if uncut, whatever frame the line breaks behind${within.length ? ", and in the middle of it" : ""}`, async () => {
        const { frames } = await watched(wish, [], transport);
        const faults = range(0, 2 * frames).flatMap((count) => [[{ frames: count }], ...within.map((bytes) => [{ frames: count, bytes }])]);
        await inTurns(faults, async (broken) => assertShown(await watched(wish, broken, transport), `${wish} cut at ${JSON.stringify(broken)}`));
      });
    }

    it("goes on with an answer that still runs, from the piece at which the line broke", async () => {
      const most = transport === "socket" ? 3 : 6; // frames that come before it holds
      await inTurns(range(0, most), async (count) => {
        const broken = [{ frames: count }, { frames: 1 }];
        await assertShown(await watched("talk", broken, transport, { holds: true }), `held, cut at ${count}`);
      });
    });

    it("goes on with an answer over a server that is killed in the middle of it and comes back", async () => {
      const id = fresh("killed");
      const client = createClient({ url: server.url, transport });
      const session = client.session(id);
      const faulty = [];
      const stop = session.subscribe(() => check(session.getView(), faulty));
      try {
        await session.actions.send(`talk hold:${id}`);
        await until(() => session.getView().messages.at(-1)?.origin === "live", "some of the answer");
        await server.kill();
        await until(() => session.connection.status === "waiting", "the connection to break");
        server.release(id);
        await server.start();
        session.retryNow();
        await until(() => isOver(session), "the end of the answer");

        assert.deepEqual(faulty, []);
        await assertShown({ id, view: session.getView() }, "killed");
      } finally {
        stop();
        client.close();
      }
    });

    it("shows a turn as if uncut over a line that breaks every few frames and hands on a few bytes at a time", async () => {
      const faults = range(1, 12).map((count) => ({ frames: 1 + (count % 3), bytes: count, slice: 3 }));
      await assertShown(await watched("tour", faults, transport), "a bad line");
    });
  });
}
