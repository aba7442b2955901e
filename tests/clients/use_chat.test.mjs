// `useChat` in a component, as docs/concepts/streams.md shows it: it comes back by itself, when the page loads and when it is
// shown again after a break.

import assert from "node:assert/strict";
import { after, before, it } from "node:test";

import { useChat } from "@ai-sdk/react";
import { lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { createElement as h } from "react";
import { create } from "react-test-renderer";

import { Api, assertSame, fresh, until } from "./lib/api.mjs";
import { LINKS, Page, assertWhole, calls } from "./lib/page.mjs";
import { Proxy } from "./lib/proxy.mjs";
import { Server } from "./lib/server.mjs";

let server;
let proxy;
let api;

// What the hook needs of a browser: whether the page is seen.
const page = new EventTarget();
page.visibilityState = "visible";

function show(state) {
  page.visibilityState = state;
  page.dispatchEvent(new Event("visibilitychange"));
}

before(async () => {
  globalThis.document = page;
  server = await Server.started();
  proxy = await Proxy.to(server.url);
  api = new Api(server.url);
});

after(async () => {
  await proxy.close();
  await server.close();
});

// A component with a chat, and what it shows now.
class Mounted {
  token = null;
  cameBack = false;
  moments = [];

  constructor(base, session, messages = []) {
    this.session = session;
    const transport = LINKS.browser.transport(base, this);
    const reconnect = transport.reconnectToStream.bind(transport);
    transport.reconnectToStream = (options) => reconnect(options).finally(() => (this.cameBack = true));
    const Conversation = () => {
      this.chat = useChat({
        id: session,
        messages,
        transport,
        resume: true,
        onData: ({ type, data }) => type === "data-agent-resume-token" && (this.token = data.token),
        sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
      });
      this.moments.push(this.texts);
      return h("main", null, ...this.texts.map((text, key) => h("p", { key }, text)));
    };
    this.tree = create(h(Conversation));
  }

  get message() {
    return this.chat?.messages.findLast((message) => message.role === "assistant");
  }

  get texts() {
    return this.message?.parts.filter((part) => part.type === "text").map((part) => part.text) ?? [];
  }

  get conversation() {
    return JSON.parse(JSON.stringify(this.chat.messages));
  }

  place() {
    return this.token === null ? {} : { "x-resume-token": this.token };
  }

  // The end of a way back that found nothing makes the chat `ready`, also when it has been sent a message meanwhile.
  async say(text) {
    await until(() => this.cameBack && this.chat.status === "ready", "nothing to come back to");
    this.chat.sendMessage({ id: `${this.session}.1`, role: "user", parts: [{ type: "text", text }] });
  }
}

async function mounted(...how) {
  const component = new Mounted(...how);
  await until(() => component.chat, "the first rendering");
  return component;
}

it("shows an answer that is under way to a page that loads in its middle", async () => {
  const session = fresh("load");
  const wish = `talk hold:${session}`;
  const first = new Page(LINKS.http, server.url, session);
  const saying = first.say(wish);
  await until(() => first.texts[0]?.length === 3 * 14, "three pieces");

  const { messages } = await api.get(`/v1/sessions/${session}?format=ui`);
  const component = await mounted(server.url, session, messages);
  await until(() => component.texts[0]?.length === 3 * 14, "the same pieces");
  server.release(session);
  await saying;
  await until(() => component.chat.status === "ready", "its end");

  assertSame(component.conversation, first.conversation, "the conversation");
  assert.ok(component.moments.every((texts) => texts.length < 2 && first.texts[0].startsWith(texts[0] ?? "")), "doubled");
  component.tree.unmount();
});

it("comes back when it is shown again after its connection broke, also to a turn that is over", async () => {
  for (const isOver of [false, true]) {
    const session = fresh("shown");
    const wish = `talk hold:${session}`;
    const component = await mounted(proxy.line(session, { frames: 11 }), session);
    await component.say(wish);
    await until(() => component.chat.status === "error", "the break");
    assert.ok(component.texts[0]?.length > 0, "what it had");

    if (isOver) server.release(session);
    if (isOver) await api.settled(session);
    show("hidden");
    show("visible");
    await until(() => component.chat.status === "streaming" || isOver, "it streams again");
    server.release(session);
    await until(() => component.chat.status === "ready", "its end");

    await assertWhole(server, component, wish, isOver ? "over" : "running");
    component.tree.unmount();
  }
});

it("sends a decision, and shows what came of it in the same message", async () => {
  const component = await mounted(server.url, fresh("decide"));
  await component.say("refund 7");
  await until(() => component.chat.status === "ready" && component.message, "the question");

  const [call] = calls(component.message);
  component.chat.addToolApprovalResponse({ id: call.approval.id, approved: true });
  await until(() => component.texts.length === 2 && component.chat.status === "ready", "the answer");

  assertSame(calls(component.message).map((part) => [part.state, part.output]), [["output-available", "paid 5.5 for 7"]], "it");
  await assertWhole(server, component, "refund 7", "read again");
  component.tree.unmount();
});
