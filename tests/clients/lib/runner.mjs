// An AG-UI client as an application holds it: `HttpAgent`, and what an application has to do itself after a break, which is to
// run again with the id of the run that broke.

import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";

import { HttpAgent } from "@ag-ui/client";

import { PATIENCE_MS, assertSame } from "./api.mjs";

export class Runner {
  #runs = 0;

  breaks = 0;
  ended = null;
  error = null;
  customs = [];

  // What the conversation showed, moment by moment: the texts of the assistant's messages.
  moments = [];

  // What the latest response was made of.
  captured = "";

  constructor(base, session, initialMessages = []) {
    this.session = session;
    this.agent = new HttpAgent({
      url: `${base}/v1/ag-ui`,
      threadId: session,
      initialMessages,
      fetch: async (url, options) => this.#watched(await fetch(url, options)),
    });
  }

  // The texts of what the agent said.
  get texts() {
    return this.agent.messages.filter((message) => message.role === "assistant" && message.content).map(({ content }) => content);
  }

  get conversation() {
    return JSON.parse(JSON.stringify(this.agent.messages));
  }

  // The id of a message is made of its session, so that whoever says the same says it once.
  async say(text, number = 1) {
    this.agent.addMessage({ id: `${this.session}.${number}`, role: "user", content: text });
    await this.run();
  }

  async decide(...decisions) {
    const resume = this.agent.pendingInterrupts.map(({ id }, place) => {
      const payload = decisions[place];
      return payload === null ? { interruptId: id, status: "cancelled" } : { interruptId: id, status: "resolved", payload };
    });
    await this.run({ resume });
  }

  async run(parameters = {}) {
    this.#runs += 1;
    const runId = `${this.session}-run-${this.#runs}-${process.pid}`;
    const giveUp = Date.now() + PATIENCE_MS;
    for (this.ended = null; this.ended === null; ) {
      assert.ok(Date.now() < giveUp, "no end in sight");
      this.error = null;
      await this.agent.runAgent({ runId, ...parameters }, this.#subscriber());
      if (this.ended !== null) return;
      if (this.error?.status !== undefined) throw this.error;
      this.breaks += 1;
      if (this.breaks > 3) await pause(100); // the server may be away for a while
    }
  }

  #subscriber() {
    return {
      onRunFinishedEvent: ({ event, ...ended }) => {
        this.ended = { ...ended, runId: event.runId, usage: event.usage };
      },
      onRunErrorEvent: ({ event }) => {
        this.ended = { outcome: "error", code: event.code, message: event.message };
      },
      onRunFailed: ({ error }) => {
        this.error = error;
        return { stopPropagation: true }; // else it is written to the console
      },
      onMessagesChanged: () => this.moments.push(this.texts),
      onCustomEvent: ({ event }) => this.customs.push(event.name),
    };
  }

  // Keeps what a response is made of. `HttpAgent` cancels the reader of a body that broke and lets nobody catch what comes of
  // it, which ends a Node process; here it comes to nothing.
  #watched(response) {
    this.captured = "";
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    const read = async () => {
      const piece = await reader.read();
      this.captured += decoder.decode(piece.value, { stream: !piece.done });
      return piece;
    };
    const cancel = () => reader.cancel().catch(() => undefined);
    const { ok, status, headers } = response;
    const text = async () => {
      while (!(await read()).done);
      return this.captured;
    };
    return { ok, status, headers, text, body: { getReader: () => ({ read, cancel }) } };
  }
}

// Holds that a client has what another gets that shows the question alone, and runs when all is over.
export async function assertSameRun(server, runner, what) {
  const [question] = runner.agent.messages;
  const other = new Runner(server.url, runner.session, [structuredClone(question)]);
  await other.run();
  assertSame(runner.conversation, other.conversation, what);
}
