// `HttpAgent` of `@ag-ui/client` on `POST /v1/ag-ui`. The protocol knows no way back into a stream: a client that lost one runs
// again, and has to come to what it would have had.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { promisify } from "node:util";

import { Api, assertSame, fresh, range, until } from "./lib/api.mjs";
import { Proxy } from "./lib/proxy.mjs";
import { Runner, assertSameRun } from "./lib/runner.mjs";
import { PYTHON, Server } from "./lib/server.mjs";

let server;
let proxy;
let api;
let folder;

before(async () => {
  server = await Server.started();
  proxy = await Proxy.to(server.url);
  api = new Api(server.url);
  folder = mkdtempSync(join(tmpdir(), "perdure-ag-ui-"));
});

after(async () => {
  await proxy.close();
  await server.close();
  rmSync(folder, { recursive: true });
});

function runner(name, ...faults) {
  const session = fresh(name);
  return new Runner(proxy.line(session, ...faults), session);
}

async function answers(session) {
  const { messages } = await api.snapshot(session);
  const said = messages.filter((message) => message.role === "assistant");
  return said.map(({ parts }) => parts.find((part) => part.type === "text").text);
}

// Holds that a captured response keeps the rules of the protocol, by the word of somebody else's validator.
async function assertValid(captured, what) {
  const file = join(folder, `${fresh("capture")}.sse`);
  writeFileSync(file, captured);
  try {
    await promisify(execFile)(join(PYTHON, "../ag-ui-validate"), [file, "--no-color", "--fail-on", "warning"]);
  } catch (error) {
    assert.fail(`${what}: ${error.stdout || error}`);
  }
}

describe("HttpAgent", { concurrency: true }, () => {
  it("runs a whole turn: reasoning, texts, two tools side by side, a slow one", async () => {
    const client = runner("tour");

    await client.say("tour");

    assert.equal(client.ended.outcome, "success");
    assertSame(client.texts, await answers(client.session), "its texts");
    const roles = client.agent.messages.map((message) => message.role);
    assertSame(roles, ["user", "reasoning", "assistant", "tool", "tool", "assistant", "tool", "assistant"], "its messages");
    const calls = client.agent.messages.flatMap((message) => message.toolCalls ?? []);
    assertSame(calls.map((call) => call.function.name), ["lookup_order", "lookup_order", "count_stock"], "its calls");
    assertSame(calls.map((call) => JSON.parse(call.function.arguments)), [
      ...[{ order_id: "7" }, { order_id: "8" }, { shelf: "shelf B" }],
    ], "their arguments");
    assert.ok(client.customs.includes("perdure.tool_progress"));
    assert.match(client.captured, /^data: {"type":"RUN_STARTED",[^\n]*"protocolVersion":"1.0"/m);
    await assertValid(client.captured, "the run");
    await assertSameRun(server, client, "read again");
  });

  it("holds the same messages wherever a run breaks", async () => {
    const uncut = runner("tour", { frames: 1e6 });
    await uncut.say("tour");

    const clients = await Promise.all(
      range(0, proxy.frames.get(uncut.session) - 1).map(async (frames) => {
        const client = runner("tour", { frames }, { frames: (frames * 7) % 31 });
        await client.say("tour");
        return client;
      }),
    );

    for (const [cut, client] of clients.entries()) {
      assert.equal(client.ended.outcome, "success");
      assertSame(client.texts, await answers(client.session), `cut at frame ${cut}: its texts`);
      await assertSameRun(server, client, `cut at frame ${cut}`);
    }
    assert.ok(clients.filter((client) => client.breaks > 0).length > clients.length * 0.7, "most of them were cut");
    await Promise.all(clients.filter((_, cut) => cut % 8 === 3).map((client) => assertValid(client.captured, "run again")));
  });

  it("shows an answer that is under way to a client that comes into its middle, once", async () => {
    const first = runner("talk");
    const saying = first.say(`talk hold:${first.session}`);
    await until(() => first.texts[0]?.length === 3 * 14, "three pieces");

    const second = new Runner(server.url, first.session, structuredClone(first.agent.messages.slice(0, 1)));
    const third = new Runner(server.url, first.session, structuredClone(first.agent.messages));
    const fourth = new Runner(server.url, first.session);
    const running = [second, third, fourth].map((client) => client.run());
    await until(() => [second, fourth].every((client) => client.texts[0]?.length === 3 * 14), "the same pieces");
    server.release(first.session);
    await Promise.all([saying, ...running]);

    for (const client of [first, second, third, fourth]) {
      assertSame(client.texts, await answers(first.session), "the text");
      assertSame(client.conversation, first.conversation, "the conversation");
    }
  });

  it("takes an attempt back that broke off, and shows the one that stands", async () => {
    const client = runner("stumble");

    await client.say("stumble");

    const whole = await answers(client.session);
    assertSame(client.texts, whole, "the answer");
    const attempts = ["A first attempt that breaks off", whole[0]];
    for (const [text] of client.moments.filter((texts) => texts.length > 0)) {
      assert.ok(attempts.some((attempt) => attempt.startsWith(text)), `${JSON.stringify(text)} was shown`);
    }
    await assertValid(client.captured, "the run");
    await assertSameRun(server, client, "read again");
  });

  it("ends with what people are asked for, and goes on by their decisions", async () => {
    const client = runner("refund");

    await client.say("refund 7 8");
    assert.equal(client.ended.outcome, "interrupt");
    assertSame(client.ended.interrupts.map((asked) => asked.reason), ["tool_call", "tool_call"], "what is asked");
    await assertValid(client.captured, "the run that asks");
    await client.decide({ approved: true }, { approved: false, message: "not this one" });

    assert.equal(client.ended.outcome, "success");
    assertSame(client.agent.pendingInterrupts, [], "what is still asked");
    const { tool_calls: kept } = await api.snapshot(client.session);
    assertSame(kept.map((call) => call.status), ["succeeded", "rejected"], "the record");
    assertSame(client.texts, await answers(client.session), "the texts");
    await assertValid(client.captured, "the run that goes on");
    await assertSameRun(server, client, "read again");
  });

  it("takes a cancelled interrupt for a rejection", async () => {
    const client = runner("refund");

    await client.say("refund 7");
    await client.decide(null);

    assert.equal(client.ended.outcome, "success");
    const { tool_calls: kept } = await api.snapshot(client.session);
    assertSame(kept.map((call) => call.status), ["rejected"], "the record");
  });

  it("holds the same messages wherever the run that goes on breaks, and decides once", async () => {
    const clients = await Promise.all(
      range(0, 16).map(async (frames) => {
        const client = runner("refund", { frames: 1e6 }, { frames });
        await client.say("refund 7 8");
        await client.decide({ approved: true }, { approved: false });
        return client;
      }),
    );

    for (const [cut, client] of clients.entries()) {
      const { tool_calls: kept } = await api.snapshot(client.session);
      assertSame(kept.map((call) => call.status), ["succeeded", "rejected"], `cut at frame ${cut}: the record`);
      await assertSameRun(server, client, `cut at frame ${cut}`);
    }
  });

  it("asks a question, and carries its answer back", async () => {
    const client = runner("ask");

    await client.say("ask");
    assertSame(client.ended.interrupts.map(({ message, reason }) => [message, reason]), [["Which colour?", "input_required"]], "it");
    await client.decide({ answer: "blue" });

    assert.equal(client.ended.outcome, "success");
    assert.match(client.texts.at(-1), /blue/);
    await assertValid(client.captured, "the run that goes on");
  });

  it("tells why a turn failed", async () => {
    const client = runner("fail");

    await client.say("fail");

    assertSame(client.ended, { outcome: "error", code: "provider", message: "the provider refused it" }, "the end");
    await assertValid(client.captured, "the run");
  });

  it("is told what is wrong with what it sent before a stream begins", async () => {
    const client = new Runner(server.url, "no session id/");
    client.agent.addMessage({ id: "m", role: "user", content: "talk" });

    await assert.rejects(() => client.run(), /400|session/);
  });

  it("ends as cancelled when somebody stops the turn", async () => {
    const client = runner("talk");
    const saying = client.say(`talk hold:${client.session}`);
    await until(() => client.texts[0]?.length === 3 * 14, "three pieces");

    await api.post(`/v1/sessions/${client.session}/stop`);
    await saying;

    assert.equal(client.ended.outcome, "cancelled");
    await assertValid(client.captured, "the run");
    server.release(client.session);
  });

  it("keeps two runs of a thread apart", async () => {
    const client = runner("two");

    await client.say("missing", 1);
    await client.say("talk", 2);

    assertSame(client.texts, await answers(client.session), "the texts");
    assertSame(client.agent.messages.filter(({ role }) => role === "user").map(({ content }) => content), ["missing", "talk"], "users");
    await assertValid(client.captured, "the second run");
  });
});
