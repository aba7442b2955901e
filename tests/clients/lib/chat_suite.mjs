// What a page with the AI SDK's `Chat` has to come to, over whichever link it reaches its server.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { Api, assertSame, fresh, range, until } from "./api.mjs";
import { LINKS, Page, assertWhole, calls } from "./page.mjs";
import { Proxy } from "./proxy.mjs";
import { Server } from "./server.mjs";

export function chatSuite(name, link) {
  let server;
  let proxy;
  let api;

  // A page of a session of its own, whose answers break as told.
  function page(wish, ...faults) {
    const session = fresh(wish);
    const opened = new Page(link, proxy.line(session, ...faults), session);
    opened.asked = proxy.asked.get(session);
    return opened;
  }

  async function answers(session) {
    const { messages } = await api.snapshot(session);
    const said = messages.filter((message) => message.role === "assistant").flatMap((message) => message.parts);
    return said.filter((part) => part.type === "text").map((part) => part.text);
  }

  describe(name, { concurrency: true }, () => {
    before(async () => {
      server = await Server.started();
      proxy = await Proxy.to(server.url);
      api = new Api(server.url);
    });

    after(async () => {
      await proxy.close();
      await server.close();
    });

    it("shows a whole turn: reasoning, texts, two tools side by side, a slow one", async () => {
      const open = page("tour");

      await open.say("tour");

      const kinds = open.message.parts.map((part) => part.type);
      assertSame(kinds, [
        ...["step-start", "reasoning", "text", "dynamic-tool", "dynamic-tool"],
        ...["step-start", "text", "dynamic-tool", "step-start", "text"],
      ], "its parts");
      assertSame(open.texts, await answers(open.session), "its texts");
      assert.ok(open.message.parts.every((part) => part.type !== "dynamic-tool" || part.state === "output-available"));
      assert.ok(open.moments.length > 10, "it came in pieces");
      assert.ok(open.events.some((event) => event.type === "tool_progress"));
      assert.equal(open.message.id, "turn-1-assistant");
      assert.equal(open.finish.finishReason, "stop");
      assert.equal(open.chat.status, "ready");
      await assertWhole(server, open, "tour", "read again");
    });

    it("holds the same message wherever its answer breaks", async () => {
      const uncut = page("tour", { frames: 1e6 });
      await uncut.say("tour");
      const cuts = range(0, proxy.frames.get(uncut.session) - 1);

      const pages = await Promise.all(
        cuts.map(async (frames) => {
          const open = page("tour", { frames });
          await open.say("tour");
          return open;
        }),
      );

      for (const [cut, open] of pages.entries()) {
        await assertWhole(server, open, "tour", `cut at frame ${cut}`);
        assert.equal(open.finish.finishReason, "stop");
      }
      const broken = pages.filter((open) => open.asked.length > 1).length;
      assert.ok(broken > cuts.length * 0.7, `only ${broken} of ${cuts.length} were cut`);
    });

    it("holds the same message when the way back breaks, too, or ends as if it were whole", async () => {
      const plans = [3, 9, 17, 26].flatMap((frames) => [
        [{ frames }, { frames: 1 }, { frames: frames + 4 }],
        [{ frames, bytes: 20 }, { frames: frames + 9, bytes: 1 }],
        [{ frames: 1e6, slice: 5 }],
        ...(link === LINKS.socket ? [] : [[{ frames, clean: true }, { frames: 2, clean: true }]]),
      ]);

      const pages = await Promise.all(
        plans.map(async (faults) => {
          const open = page("tour", ...faults);
          await open.say("tour");
          return open;
        }),
      );

      for (const [place, open] of pages.entries()) await assertWhole(server, open, "tour", JSON.stringify(plans[place]));
    });

    it("shows an answer that is under way to a page that opens in its middle, once", async () => {
      const first = page("talk");
      const hold = first.session;
      const saying = first.say(`talk hold:${hold}`);
      await until(() => first.texts[0]?.length === 3 * 14, "three pieces");

      const second = new Page(link, server.url, first.session, { messages: first.chat.messages.slice(0, 1) });
      const third = new Page(link, server.url, first.session, { messages: structuredClone(first.chat.messages) });
      const resuming = [second.resume(), third.resume()];
      await until(() => second.texts[0]?.length === 3 * 14 && third.token !== null, "the same pieces");
      server.release(hold);
      await Promise.all([saying, ...resuming]);

      const whole = await answers(first.session);
      for (const open of [first, second, third]) {
        assertSame(open.texts, whole, "the text");
        assertSame(open.conversation, first.conversation, "the conversation");
        assert.ok(open.moments.every((texts) => texts.length < 2 && whole[0].startsWith(texts[0] ?? "")), "a doubled text");
      }
    });

    it("takes an attempt back that broke off, and shows the one that stands", async () => {
      const open = page("stumble");

      await open.say("stumble");

      assertSame(open.texts, await answers(open.session), "the answer");
      assert.ok(open.moments.some((texts) => texts[0]?.startsWith("A first attempt that")), "the first attempt was shown");
      await assertWhole(server, open, "stumble", "read again");
    });

    it("carries approvals and rejections back, and goes on in the same message", async () => {
      const open = page("refund");

      await open.say("refund 7 8");
      assert.equal(open.finish.finishReason, "tool-calls");
      const asked = calls(open.message);
      assertSame(asked.map((part) => part.state), ["approval-requested", "approval-requested"], "the calls");
      assertSame(asked.map((part) => part.input), [{ order_id: "7", amount: 5.5 }, { order_id: "8", amount: 5.5 }], "inputs");
      await open.decide([asked[0].approval.id, true], [asked[1].approval.id, false, "not this one"]);

      assertSame(calls(open.message).map((part) => part.state), ["output-available", "output-denied"], "the outcomes");
      assert.equal(calls(open.message)[0].output, "paid 5.5 for 7");
      assert.equal(calls(open.message)[1].approval.reason, "not this one");
      assert.equal(open.chat.messages.length, 2);
      assert.equal(open.finish.finishReason, "stop");
      const { tool_calls: kept } = await api.snapshot(open.session);
      assertSame(kept.map((call) => call.status), ["succeeded", "rejected"], "the record");
      assert.match(open.texts.at(-1), /^Came of it: succeeded, /);
    });

    it("rejects a call, and the model hears of it", async () => {
      const open = page("refund");

      await open.say("refund 7");
      await open.decide([calls(open.message)[0].approval.id, false]);

      assert.equal(calls(open.message)[0].state, "output-denied");
      assertSame(open.texts, await answers(open.session), "the texts");
      assert.equal(open.chat.status, "ready");
    });

    it("runs what was asked for, whatever the page that approves it makes of it", async () => {
      const open = page("refund");

      await open.say("refund 7");
      calls(open.message)[0].input = { order_id: "9", amount: 9999 };
      await open.decide([calls(open.message)[0].approval.id, true]);

      assert.equal(calls(open.message)[0].output, "paid 5.5 for 7");
      await assertWhole(server, open, "refund 7", "read again");
    });

    it("shows what became of a call to a page that decides too late", async () => {
      const early = page("refund");
      await early.say("refund 7 8");
      const late = new Page(link, server.url, early.session, { messages: structuredClone(early.chat.messages) });
      const [first, second] = calls(early.message).map((part) => part.approval.id);

      await api.post(`/v1/sessions/${early.session}/interrupts/${first}`, { approved: true });
      await early.decide([first, false], [second, true]);
      await late.decide([first, false], [second, false]);

      assertSame(calls(early.message).map((part) => part.state), ["output-available", "output-available"], "the outcomes");
      assertSame(late.conversation, early.conversation, "the conversation");
      const refused = early.events.filter((event) => event.type === "decision_refused");
      assertSame(refused.map((event) => event.payload.interrupt_id), [first], "what was refused");
    });

    it("gives a message that comes while another is answered an answer of its own", async () => {
      const first = page("talk");
      const answering = first.say(`talk hold:${first.session}`);
      await until(() => first.texts[0]?.length === 3 * 14, "three pieces");

      const second = new Page(link, server.url, first.session);
      const waiting = second.say("missing", 2);
      await until(async () => (await api.snapshot(first.session)).inbox.length === 1, "it waits");
      server.release(first.session);
      await Promise.all([answering, waiting]);

      assert.equal(first.message.id, "turn-1-assistant");
      assertSame([...first.texts, ...second.texts], await answers(first.session), "the texts");
      assertSame(second.chat.messages.map((message) => message.role), ["user", "assistant"], "the second page");
    });

    it("holds the same message wherever the answer to a decision breaks", async () => {
      const pages = await Promise.all(
        range(0, 16).map(async (frames) => {
          const open = page("refund", { frames: 1e6 }, ...(link === LINKS.socket ? [] : [{ frames }]));
          await open.say("refund 7 8");
          if (link === LINKS.socket) proxy.cut(open.session, frames);
          const [yes, no] = calls(open.message).map((part) => part.approval.id);
          await open.decide([yes, true], [no, false, "no"]);
          return open;
        }),
      );

      for (const [cut, open] of pages.entries()) {
        const { tool_calls: kept } = await api.snapshot(open.session);
        assertSame(kept.map((call) => call.status), ["succeeded", "rejected"], `cut at frame ${cut}: the record`);
        assert.equal(open.finish.finishReason, "stop", `cut at frame ${cut}`);
        await assertWhole(server, open, "refund 7 8", `cut at frame ${cut}`);
      }
    });

    it("shows a question, and carries its answer back", async () => {
      const open = page("ask");

      await open.say("ask");
      const question = open.message.parts.find((part) => part.type === "data-question");
      assertSame([question.data.question, question.data.choices], ["Which colour?", ["red", "blue"]], "the question");
      question.data = { ...question.data, answer: "blue" };
      open.chat.messages = [...open.chat.messages];
      await open.chat.sendMessage();

      assert.equal(open.finish.finishReason, "stop");
      assert.match(open.texts.at(-1), /blue/);
      assertSame(open.message.parts.filter((part) => part.type === "data-question").length, 1, "questions");
    });

    it("shows a tool that failed, and the answer after it", async () => {
      const open = page("missing");

      await open.say("missing");

      assert.equal(calls(open.message)[0].state, "output-error");
      assert.match(calls(open.message)[0].errorText, /there is no order 404/);
      assertSame(open.texts, await answers(open.session), "the texts");
    });

    it("tells why a turn failed, and tries it again", async () => {
      const open = page("fail");

      await open.say(`fail until:${open.session}`);
      assert.equal(open.chat.status, "error");
      assert.match(open.errors[0].message, /the provider refused it/);
      server.release(open.session);
      await open.chat.regenerate();

      assert.equal(open.chat.status, "ready");
      assert.equal(open.finish.finishReason, "stop");
      assertSame(open.texts, ["It went well this time."], "the texts");
    });

    it("leaves the turn alone when a page only leaves, and ends it when somebody stops it", async () => {
      const open = page("talk");
      const saying = open.say(`talk hold:${open.session}`);
      await until(() => open.texts[0]?.length === 3 * 14, "three pieces");

      await open.chat.stop();
      await saying;
      assert.equal((await api.snapshot(open.session)).state.status, "running_model");
      const resuming = open.chat.resumeStream();
      await until(() => open.chat.status === "streaming", "it streams again");
      await api.post(`/v1/sessions/${open.session}/stop`);
      await resuming;

      assert.equal(open.finish.finishReason, "interrupted");
      assert.equal(open.chat.status, "ready");
      const { state } = await api.settled(open.session);
      assert.equal(state.last_turn.outcome, "cancelled");
      server.release(open.session);
    });

    it("has nothing to come back to where nothing runs", async () => {
      const idle = page("talk");
      await idle.say("talk");
      const before = structuredClone(idle.chat.messages);
      idle.token = null;
      const unknown = page("nobody");

      await idle.chat.resumeStream();
      await unknown.chat.resumeStream();

      for (const open of [idle, unknown]) {
        assert.equal(open.chat.status, "ready");
        assertSame(open.errors, [], "its errors");
      }
      assertSame(idle.chat.messages, before, "what it had");
      assertSame(unknown.chat.messages, [], "what was never there");
    });

    it("is told what is wrong with what it sent", async () => {
      const open = page("talk");

      await open.chat.sendMessage({ text: "talk" }, { body: { agent: "nobody" } });

      assert.equal(open.chat.status, "error");
      assert.match(open.errors[0].message, /nobody/);
    });

    it("shows an answer that is larger than a frame of a WebSocket, uncut and cut", async () => {
      const pages = await Promise.all(
        [[], [{ frames: 6 }], [{ frames: 2 }, { frames: 4, bytes: 40 }]].map(async (faults) => {
          const open = page("large", ...faults);
          await open.say("large");
          return open;
        }),
      );

      for (const open of pages) assertSame(open.texts, await answers(open.session), "the text");
    });

    it("keeps two messages apart that were sent one after the other", async () => {
      const open = page("talk");

      await open.say("missing", 1);
      await open.say("talk", 2);

      assertSame(open.chat.messages.map((message) => message.role), ["user", "assistant", "user", "assistant"], "roles");
      assertSame(open.chat.messages.map((message) => message.id).filter((id) => id.startsWith("turn")), [
        "turn-1-assistant",
        (await api.snapshot(open.session)).state.last_turn.turn_id + "-assistant",
      ], "ids");
    });
  });
}
