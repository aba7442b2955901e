// A page on which somebody writes on while an approval waits: it can still decide, and gets the answer to both.

import assert from "node:assert/strict";
import { after, before, it } from "node:test";

import { lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";

import { assertSame, fresh } from "./lib/api.mjs";
import { LINKS, Page, calls } from "./lib/page.mjs";
import { Server } from "./lib/server.mjs";

let server;

before(async () => {
  server = await Server.started();
});

after(() => server.close());

const sendAutomaticallyWhen = ({ messages }) =>
  lastAssistantMessageIsCompleteWithApprovalResponses({ messages: messages.filter((m) => m.role === "assistant") });

it("is free for a decision though a message waits behind it, and gets that message's answer when it asks for it", async () => {
  const page = new Page(LINKS.http, server.url, fresh("waits"), { sendAutomaticallyWhen });
  await page.say("refund 7");

  await page.say("talk", 2);
  assert.equal(page.finish.finishReason, "other");
  assertSame(page.events.filter((event) => event.type === "message_queued").length, 1, "what it was told");
  await page.decide([calls(page.message)[0].approval.id, true]);
  const waits = page.chat.messages.at(-1);
  await page.chat.sendMessage({ messageId: waits.id, parts: waits.parts });

  const shown = page.chat.messages.map((message) => (message.role === "user" ? "user" : message.id));
  assertSame(shown, ["user", "turn-1-assistant", "user", "turn-2-assistant"], "the conversation");
  assert.equal(calls(page.chat.messages[1])[0].state, "output-available");
  assert.equal(page.finish.finishReason, "stop");
});
