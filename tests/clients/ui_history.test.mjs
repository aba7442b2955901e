// Stored messages for a page that loads: what the AI SDK's `Chat` came to by following, and nothing that the SDK would refuse.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { validateUIMessages } from "ai";

import { Api, assertSame, fresh } from "./lib/api.mjs";
import { LINKS, Page, calls } from "./lib/page.mjs";
import { Server } from "./lib/server.mjs";

let server;
let api;

before(async () => {
  server = await Server.started();
  api = new Api(server.url);
});

after(() => server.close());

async function assertLoads(page, what) {
  const loaded = await api.get(`/v1/sessions/${page.session}?format=ui`);
  assertSame(loaded.messages, page.conversation, what);
  await validateUIMessages({ messages: loaded.messages });
  return loaded;
}

describe("a page that loads", { concurrency: true }, () => {
  for (const wish of ["tour", "stumble", "missing", "large"]) {
    it(`has what following showed: ${wish}`, async () => {
      const page = new Page(LINKS.http, server.url, fresh("history"));

      await page.say(wish);

      assert.equal((await assertLoads(page, wish)).resume_token, null);
    });
  }

  it("has the requests that wait, and what became of them", async () => {
    const page = new Page(LINKS.http, server.url, fresh("history"));
    await page.say("refund 7 8");
    assert.ok((await assertLoads(page, "asked")).resume_token);

    const [yes, no] = calls(page.message).map((part) => part.approval.id);
    await page.decide([yes, true], [no, false, "not this one"]);

    assert.equal((await assertLoads(page, "decided")).resume_token, null);
  });

  it("has a question, and its answer", async () => {
    const page = new Page(LINKS.http, server.url, fresh("history"));
    await page.say("ask");
    await assertLoads(page, "asked");

    const question = page.message.parts.find((part) => part.type === "data-question");
    question.data = { ...question.data, answer: "blue" };
    page.chat.messages = [...page.chat.messages];
    await page.chat.sendMessage();

    await assertLoads(page, "answered");
  });

  it("goes on with what it loaded as if it had never been away", async () => {
    const first = new Page(LINKS.http, server.url, fresh("history"));
    await first.say("refund 7");
    const { messages, resume_token: token } = await assertLoads(first, "asked");

    const second = new Page(LINKS.http, server.url, first.session, { messages });
    second.token = token;
    await second.resume();
    await second.decide([calls(second.message)[0].approval.id, true]);

    assert.equal(calls(second.message)[0].state, "output-available");
    await assertLoads(second, "gone on");
  });
});
