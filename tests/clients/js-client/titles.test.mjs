// Titles, and sessions that are watched before they begin, on a real server.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { createClient } from "../../../clients/js/src/index.js";
import { Api, fresh, until } from "../lib/api.mjs";
import { Server } from "../lib/server.mjs";

let server;
let api;

before(async () => {
  server = await Server.started();
  api = new Api(server.url);
});

after(() => server.close());

async function watching(transport, id, run) {
  const client = createClient({ url: server.url, transport });
  const session = client.session(id);
  const stop = session.subscribe(() => {});
  try {
    await until(() => session.connection.status === "open", "a connection");
    return await run(session, client);
  } finally {
    stop();
    client.close();
  }
}

const isAnswered = (session) => session.getView().turnId === null && session.getView().messages.some(({ role, origin }) => role === "assistant" && origin === "stored");

for (const transport of ["stream", "socket"]) {
  describe(`over ${transport}`, () => {
    it("renames a session, and tells everybody who watches it", async () => {
      const id = fresh("titled");
      await watching(transport, id, async (session, client) => {
        await assert.rejects(session.actions.rename("too early"), { code: "session_not_found" });
        await session.actions.send("talk");
        await until(() => isAnswered(session), "the answer");
        await watching(transport, id, async (other) => {
          const renaming = session.actions.rename(" Where  order 7 is ", { idempotencyKey: `title-of-${id}` });
          assert.equal(session.getView().title, "Where order 7 is");
          assert.deepEqual(await renaming, { result: "recorded" });
          await renaming.confirmed;
          await until(() => other.getView().title === "Where order 7 is", "the title elsewhere");

          const again = session.actions.rename("Where order 7 is");
          assert.deepEqual(await again, { result: "already_recorded" });
          await again.confirmed;
          await assert.rejects(session.actions.rename("x".repeat(201)), { code: "invalid_request" });
          await until(() => session.getView().title === "Where order 7 is", "the title that is stored");
        });
        assert.equal((await api.snapshot(id)).title, "Where order 7 is");
        const { sessions } = await client.list({ query: "where order" });
        assert.deepEqual(sessions.filter(({ session_id: other }) => other === id).map(({ title }) => title), ["Where order 7 is"]);
      });
    });

    it("shows a session that begins elsewhere while it is watched, from its first event", async () => {
      const id = fresh("elsewhere");
      await watching(transport, id, async (session) => {
        assert.equal(session.getView().exists, false);
        await api.send(id, "talk");
        await until(() => isAnswered(session), "the answer");
        assert.equal(session.getState().sequence, (await api.events(id)).length);
      });
    });
  });
}
