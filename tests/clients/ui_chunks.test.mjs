// The UI message stream itself: every chunk is one that the AI SDK knows, its own reader makes the message of them, and a
// client that asks for no more than the rest of its step gets just that.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { parseJsonEventStream } from "@ai-sdk/provider-utils";
import { DefaultChatTransport, readUIMessageStream, uiMessageChunkSchema } from "ai";

import { Api, assertSame, fresh, range, reach, until } from "./lib/api.mjs";
import { LINKS, Page, assertWhole } from "./lib/page.mjs";
import { Proxy } from "./lib/proxy.mjs";
import { Server } from "./lib/server.mjs";

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

const said = (session, text) => ({ id: `${session}.1`, role: "user", parts: [{ type: "text", text }] });

async function chunksOf(response) {
  const chunks = [];
  for await (const parsed of parseJsonEventStream({ stream: response.body, schema: uiMessageChunkSchema })) {
    assert.ok(parsed.success, `no chunk of the AI SDK: ${parsed.error?.message}`);
    chunks.push(parsed.value);
  }
  return chunks;
}

function post(session, messages) {
  const body = JSON.stringify({ id: session, trigger: "submit-message", messages });
  return reach(`${server.url}/v1/chat`, { method: "POST", headers: { "content-type": "application/json" }, body });
}

describe("the UI message stream", { concurrency: true }, () => {
  for (const wish of ["tour", "stumble", "fail", "refund 7 8", "ask", "missing", "large"]) {
    it(`has chunks of the AI SDK alone: ${wish}`, async () => {
      const session = fresh("chunks");

      const live = await chunksOf(await post(session, [said(session, wish)]));
      const again = await chunksOf(await post(session, [said(session, wish)]));

      for (const chunks of [live, again]) {
        const types = chunks.map((chunk) => chunk.type);
        assert.equal(types[0], "start");
        assert.equal(types.filter((type) => type === "finish").length, 1);
        assert.equal(types.at(-1), wish === "fail" ? "error" : "finish");
      }
    });
  }

  it("says by its headers what it is", async () => {
    const session = fresh("headers");

    const response = await post(session, [said(session, "missing")]);
    await response.body.cancel();

    assert.equal(response.status, 200);
    assert.equal(response.headers.get("content-type"), "text/event-stream");
    assert.equal(response.headers.get("x-vercel-ai-ui-message-stream"), "v1");
    assert.equal(response.headers.get("x-accel-buffering"), "no");
  });

  it("becomes the message by the AI SDK's own reader", async () => {
    const session = fresh("reader");
    const messages = [said(session, "tour")];
    const transport = new DefaultChatTransport({ api: `${server.url}/v1/chat` });

    const stream = await transport.sendMessages({ chatId: session, messages, trigger: "submit-message" });
    let last;
    for await (const message of readUIMessageStream({ stream, terminateOnError: true })) last = message;

    const { messages: kept } = await api.snapshot(session);
    const parts = kept.filter((message) => message.role === "assistant").flatMap((message) => message.parts);
    for (const type of ["text", "reasoning"]) {
      const texts = (shown) => shown.filter((part) => part.type === type).map((part) => part.text);
      assertSame(texts(last.parts), texts(parts), type);
    }
    assertSame(
      last.parts.filter((part) => part.type === "dynamic-tool").map((part) => [part.toolCallId, part.input]),
      parts.filter((part) => part.type === "tool_call").map((part) => [part.tool_call_id, part.arguments]),
      "the calls",
    );
  });

  it("goes on behind what a page was given that loads in the middle of an answer", async () => {
    const session = fresh("load");
    const wish = `talk hold:${session}`;
    const first = new Page(LINKS.http, server.url, session);
    const saying = first.say(wish);
    await until(() => first.texts[0]?.length === 3 * 14, "three pieces");

    const { messages, resume_token: token } = await api.get(`/v1/sessions/${session}?format=ui`);
    const second = new Page(LINKS.http, server.url, session, { messages });
    second.token = token;
    server.release(session);
    await Promise.all([saying, second.resume()]);

    assertSame(messages.map((message) => message.role), ["user"], "what is stored of an answer that is not whole");
    assertSame(second.conversation, first.conversation, "the conversation");
  });

  it("goes on in the step where a page is, wherever the stream breaks, and doubles no text", async () => {
    const uncut = fresh("exact");
    await new Page(LINKS.exact, proxy.line(uncut, { frames: 1e6 }), uncut).say("tour");

    const pages = await Promise.all(
      range(2, proxy.frames.get(uncut) - 1).map(async (frames) => {
        const session = fresh("exact");
        const open = new Page(LINKS.exact, proxy.line(session, { frames }, { frames: (frames * 7) % 23 }), session);
        await open.say("tour");
        return open;
      }),
    );

    for (const [cut, open] of pages.entries()) {
      await assertWhole(server, open, "tour", `cut at frame ${cut + 2}`);
      for (const shown of open.moments) {
        for (const [place, text] of shown.entries()) {
          assert.ok(open.texts[place]?.startsWith(text), `cut at frame ${cut + 2}: ${JSON.stringify(shown)} was shown`);
        }
      }
    }
  });
});
