// A page with the AI SDK's `Chat` in it, and the little that a page has to do itself so that it comes back after a break: it
// keeps the resume token, and asks again until a `finish` was seen.

import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";

import { Chat } from "@ai-sdk/react";
import { DefaultChatTransport, WebSocketChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";

import { PATIENCE_MS, assertSame, reach, until } from "./api.mjs";

// A link is how a page reaches its server: it makes the transport of a page from the server's address, or a proxy's.
export const LINKS = {
  http: {
    transport: (base, page) =>
      new DefaultChatTransport({
        api: `${base}/v1/chat`,
        prepareSendMessagesRequest: ({ messages, body, ...rest }) => ({ body: { ...body, ...sent(rest, messages) } }),
        prepareReconnectToStreamRequest: () => ({ headers: page.place() }),
      }),
  },
  // The same where a broken body is told of as in a browser.
  browser: {
    transport: (base, page) =>
      new DefaultChatTransport({
        api: `${base}/v1/chat`,
        fetch: likeChromium,
        prepareSendMessagesRequest: ({ messages, body, ...rest }) => ({ body: { ...body, ...sent(rest, messages) } }),
        prepareReconnectToStreamRequest: () => ({ headers: page.place() }),
      }),
  },
  // Goes on in the step where the page is, and keeps what it has.
  exact: {
    transport: (base, page) =>
      new DefaultChatTransport({
        api: `${base}/v1/chat`,
        fetch: likeChromium,
        resumeStreamIsReplay: false,
        prepareSendMessagesRequest: ({ messages, body, ...rest }) => ({ body: { ...body, ...sent(rest, messages) } }),
        prepareReconnectToStreamRequest: () => ({
          api: `${base}/v1/chat/${page.session}/stream?exact=true&steps=${page.steps}`,
          headers: page.place(),
        }),
      }),
  },
  socket: {
    transport: (base, page) =>
      new WebSocketChatTransport({
        url: `${base}/v1/socket`,
        params: () => ticket(base),
        prepareSendMessagesRequest: ({ messages }) => ({ messages: messages.slice(-1) }),
        prepareReconnectToStreamRequest: () => ({ body: page.token === null ? {} : { resume_token: page.token } }),
      }),
  },
};

function sent({ id, trigger, messageId }, messages) {
  const named = messages.find((message) => message.id === messageId);
  return { id, trigger, messageId, messages: [named ?? messages.at(-1)] };
}

// A ticket opens one connection.
async function ticket(base) {
  const headers = { "content-type": "application/json" };
  const answer = await reach(`${base}/v1/socket-tickets`, { method: "POST", headers, body: "{}" });
  return { ticket: (await answer.json()).ticket };
}

// Node tells of a broken body by another message than browsers do.
async function likeChromium(...request) {
  const response = await fetch(...request);
  if (response.body === null) return response;
  const reader = response.body.getReader();
  const body = new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      } catch {
        controller.error(new TypeError("network error"));
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
  return new Response(body, { status: response.status, headers: response.headers });
}

function isBroken(finish) {
  return finish !== undefined && finish.finishReason === undefined && !finish.isAbort;
}

export class Page {
  token = null;
  events = [];
  errors = [];
  finishes = [];

  // What the conversation showed, moment by moment: the texts of the assistant's parts.
  moments = [];

  constructor(link, base, session, { messages = [], ...options } = {}) {
    this.session = session;
    this.chat = new Chat({
      id: session,
      messages,
      transport: link.transport(base, this),
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
      onData: (part) => this.#take(part),
      onError: (error) => this.errors.push(error),
      onFinish: (finish) => this.finishes.push(finish),
      ...options,
    });
    this.chat["~registerMessagesCallback"](() => this.moments.push(this.texts));
  }

  // What tells the server where this page is.
  place() {
    return this.token === null ? {} : { "x-resume-token": this.token };
  }

  get message() {
    return this.chat.messages.findLast((message) => message.role === "assistant");
  }

  // As JSON has it: parts hold keys that are undefined.
  get conversation() {
    return JSON.parse(JSON.stringify(this.chat.messages));
  }

  // How many steps the SDK's reader has begun: the last one may not be in the conversation yet.
  get steps() {
    return this.finish?.message.parts.filter((part) => part.type === "step-start").length ?? 0;
  }

  get texts() {
    return this.message?.parts.filter((part) => part.type === "text").map((part) => part.text) ?? [];
  }

  get finish() {
    return this.finishes.at(-1);
  }

  // The id of a message is made of its session, so that whoever says the same says it once.
  async say(text, number = 1) {
    const id = `${this.session}.${number}`;
    this.saying = { messageId: id, text };
    await this.#whole(this.chat.sendMessage({ id, role: "user", parts: [{ type: "text", text }] }));
  }

  // Goes back into a stream that broke, or that another page has begun.
  async resume() {
    await this.#whole(this.chat.resumeStream());
  }

  async decide(...decisions) {
    const finished = this.finishes.length;
    for (const [id, approved, reason] of decisions) await this.chat.addToolApprovalResponse({ id, approved, reason });
    await this.#whole(until(() => this.finishes.length > finished, "the answer to the decisions"));
  }

  // A clean end counts as one only if a `finish` was there. One who saw nothing of an answer asks for it once more: the same
  // message is accepted once.
  async #whole(running) {
    await running;
    const giveUp = Date.now() + PATIENCE_MS;
    for (let returns = 0; isBroken(this.finish); returns += 1) {
      assert.ok(Date.now() < giveUp, `no end in sight: ${this.errors.at(-1)}`);
      if (this.chat.error && !(this.chat.error instanceof TypeError)) throw this.chat.error; // no network's
      if (returns > 2) await pause(100); // the server may be away for a while
      if (this.token === null && this.saying) await this.chat.sendMessage(this.saying);
      else await this.chat.resumeStream();
    }
  }

  #take({ type, data }) {
    if (type === "data-agent-resume-token") this.token = data.token;
    if (type === "data-agent-event") this.events.push(data);
  }
}

export function calls(message) {
  return message.parts.filter((part) => part.type === "dynamic-tool");
}

// Holds that a page has what another is shown that asks for the whole turn when it is over.
export async function assertWhole(server, page, wish, what) {
  const other = new Page(LINKS.http, server.url, page.session);
  await other.say(wish);
  assertSame(page.conversation, other.conversation, what);
}
