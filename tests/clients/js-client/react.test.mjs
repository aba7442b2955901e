// The React hook on a real server: rendered on a server, taken over by a page, shared by two components.

import assert from "node:assert/strict";
import { after, before, it } from "node:test";

import { createElement as h } from "react";
import { renderToString } from "react-dom/server";
import { create } from "react-test-renderer";

import { Api, fresh, until } from "../lib/api.mjs";
import { installed } from "../lib/installed.mjs";
import { Server } from "../lib/server.mjs";

let server;
let api;
let packed;
let createClient;
let useSession;

before(async () => {
  server = await Server.started();
  api = new Api(server.url);
  packed = installed();
  ({ createClient } = await packed.load("@perdure/client"));
  ({ useSession } = await packed.load("@perdure/client/react"));
});

after(async () => {
  packed.remove();
  await server.close();
});

let shown = null;

function Chat(settings) {
  shown = useSession(settings);
  const texts = shown.messages.map(({ key, parts }) => h("p", { key }, parts.map(({ text }) => text ?? "").join("")));
  return h("main", { "data-status": shown.status }, ...texts);
}

const textOf = (tree) => JSON.stringify(tree.toJSON());

async function mounted(element) {
  shown = null;
  const tree = create(element);
  await until(() => shown !== null && tree.toJSON() !== null, "the first rendering");
  return tree;
}

it("shows a turn from the click to the answer, and what it does", async () => {
  const id = fresh("hook");
  const client = createClient({ url: server.url, transport: "stream" });
  const tree = await mounted(h(Chat, { client, id }));
  assert.equal(shown.exists, false);

  const sending = shown.actions.send("refund 7");
  await until(() => shown.interrupts.length === 1, "an approval");
  assert.equal((await sending).message_id, shown.messages[0].message_id);
  assert.equal(shown.messages[0].origin, "stored");
  await shown.actions.approve();
  await until(() => textOf(tree).includes("Came of it: succeeded.") && shown.status === "waiting_for_user_message", "the answer");

  assert.equal(shown.state.snapshot.state.turn_count, 1);
  tree.unmount();
  client.close();
});

it("renders on a server what it was given, asks nobody, and goes on from there in a page", async () => {
  const id = fresh("rendered");
  await api.send(id, "talk");
  const initial = await api.settled(id);
  const snapshot = await api.snapshot(id);
  const asked = [];
  const fetch = (url, init) => (asked.push(url), globalThis.fetch(url, init));

  const html = renderToString(h(Chat, { client: createClient({ url: server.url, transport: "stream", fetch }), id, initial: snapshot }));
  assert.match(html, /<main data-status="waiting_for_user_message"><p>talk<\/p><p>One piece after/);
  assert.deepEqual(asked, []);
  assert.ok(initial);

  const client = createClient({ url: server.url, transport: "stream" });
  const tree = await mounted(h(Chat, { client, id, initial: snapshot }));
  assert.match(textOf(tree), /One piece after/);
  await api.post(`/v1/sessions/${id}/inputs`, { text: "ask again" });
  await until(() => shown.openQuestion !== null, "the question of the second turn");
  tree.unmount();
  client.close();
});

it("follows a session once for two components, and does not lose it when one of them goes", async () => {
  const id = fresh("shared");
  const client = createClient({ url: server.url, transport: "stream" });
  function Both({ one }) {
    return h("div", null, one && h(Chat, { client, id }), h(Chat, { client, id }));
  }
  const tree = await mounted(h(Both, { one: true }));
  const session = client.session(id);
  await until(() => session.subscribed, "somebody to listen");
  tree.update(h(Both, { one: false }));
  await until(() => tree.toJSON().children.length === 1, "one of them to go");
  assert.equal(session.subscribed, true);
  await shown.actions.send("missing");
  await until(() => textOf(tree).includes("It failed."), "the answer");

  tree.unmount();
  await until(() => !session.subscribed, "the end");
  client.close();
});
