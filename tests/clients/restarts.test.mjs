// The server dies in the middle of answers, or is replaced, and comes back at its address: every client ends with the whole turn.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { Api, assertSame, fresh, range, until } from "./lib/api.mjs";
import { Listener } from "./lib/listener.mjs";
import { LINKS, Page, assertWhole } from "./lib/page.mjs";
import { Runner, assertSameRun } from "./lib/runner.mjs";
import { Server } from "./lib/server.mjs";

const CLIENTS = {
  "an EventSource": eventSource,
  "a Chat over HTTP": chat(LINKS.http),
  "a Chat over a WebSocket": chat(LINKS.socket),
  "an HttpAgent": httpAgent,
};

let server;
let api;

before(async () => {
  server = await Server.started();
  api = new Api(server.url);
});

after(() => server.close());

for (const [how, end] of [["killed", () => server.kill()], ["replaced, as by a deployment,", () => server.stop()]]) {
  describe(`a server that is ${how} in the middle of answers`, () => {
    const hold = fresh("hold");
    const clients = Object.fromEntries(Object.entries(CLIENTS).map(([name, client]) => [name, client(fresh("client"), hold)]));

    before(async () => {
      await Promise.all(Object.values(clients).map((client) => client.begin()));
      const ending = end();
      await Promise.all(Object.values(clients).map((client) => client.broken()));
      if (how !== "killed") server.release(hold); // the answers that run come to their end while it closes
      await ending;
      await server.start();
      server.release(hold);
    });

    for (const [name, client] of Object.entries(clients)) {
      it(`leaves ${name} with the whole turn`, () => client.check());
    }
  });
}

function eventSource(session, hold) {
  let listener;
  return {
    async begin() {
      listener = new Listener(`${server.url}/v1/sessions/${session}/events`);
      await until(() => listener.isOpen, "a connection");
      await api.send(session, `talk hold:${hold}`);
      await until(() => listener.events.filter((event) => event.type === "text_delta").length === 3, "three pieces");
    },
    broken: () => until(() => !listener.isOpen, "a broken connection"),
    async check() {
      try {
        await listener.seen("turn_completed");
        const durable = listener.events.filter((event) => event.sequence !== undefined);
        const kept = await api.events(session);
        assertSame(durable.map((event) => event.type), kept.map((event) => event.type), "its durable events");
        assertSame(durable.map((event) => event.sequence), range(1, kept.length), "its sequences");
        assert.ok(listener.opened > 1);
      } finally {
        listener.close();
      }
    },
  };
}

function chat(link) {
  return (session, hold) => {
    const wish = `talk hold:${hold}`;
    let open;
    let saying;
    return {
      async begin() {
        open = new Page(link, server.url, session);
        saying = open.say(wish);
        await until(() => open.texts[0]?.length === 3 * 14, "three pieces");
      },
      broken: () => until(() => open.errors.length > 0, "a broken connection"),
      async check() {
        await saying;
        assert.ok(open.finishes[0].isError, "the break was taken for the end of the answer");
        assert.equal(open.finish.finishReason, "stop");
        assert.equal(open.chat.status, "ready");
        assert.equal(open.texts.length, 1);
        await assertWhole(server, open, wish, "the conversation");
      },
    };
  };
}

function httpAgent(session, hold) {
  let client;
  let saying;
  return {
    async begin() {
      client = new Runner(server.url, session);
      saying = client.say(`talk hold:${hold}`);
      await until(() => client.texts[0]?.length === 3 * 14, "three pieces");
    },
    broken: () => until(() => client.breaks > 0, "a broken connection"),
    async check() {
      await saying;
      assert.equal(client.ended.outcome, "success");
      assert.equal(client.texts.length, 1);
      await assertSameRun(server, client, "the conversation");
    },
  };
}
