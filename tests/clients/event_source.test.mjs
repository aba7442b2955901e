// A bare `EventSource` on a session's events: whatever breaks on the way, it has every durable event once and in order, and no
// piece of an answer twice.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { Api, assertSame, fresh, range, until } from "./lib/api.mjs";
import { Listener } from "./lib/listener.mjs";
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

// Follows a turn through a proxy that breaks as told, and returns what came.
async function followed(wish, faults, { holds = false } = {}) {
  const session = fresh("listener");
  const listener = new Listener(`${proxy.line(session, ...faults)}/v1/sessions/${session}/events`);
  const asked = proxy.asked.get(session);
  try {
    await until(() => listener.opened > 0, "a connection");
    await api.send(session, holds ? `${wish} hold:${session}` : wish);
    if (holds) {
      await until(() => asked.length > faults.length && listener.isOpen, "the last connection");
      server.release(session);
    }
    await listener.seen("turn_completed");
    return { session, events: listener.events, asked };
  } finally {
    listener.close();
  }
}

// The text of an answer as its pieces told it, by the step that gave it. A reset that has a sequence only records one that was
// seen while it happened.
function told(events) {
  const texts = {};
  for (const { type, step_execution_id: step, payload } of events.filter((event) => event.sequence === undefined)) {
    if (type === "attempt_reset") texts[step] = "";
    if (type === "text_delta") texts[step] = (texts[step] ?? "") + payload.text;
  }
  return Object.values(texts);
}

async function assertWhole({ session, events }, what) {
  const durable = events.filter((event) => event.sequence !== undefined).map(withoutCursor);
  const kept = await api.events(session);
  assertSame(durable, kept.map(withoutCursor), `${what}: its durable events`);
  assertSame(durable.map((event) => event.sequence), range(1, kept.length), `${what}: its sequences`);
}

// A cursor also says how much of the running steps was seen, so that of another reader is another one.
function withoutCursor({ cursor: _, ...event }) {
  return event;
}

async function answers(session) {
  const { messages } = await api.snapshot(session);
  return messages
    .filter((message) => message.role === "assistant")
    .map((message) => message.parts.find((part) => part.type === "text").text);
}

describe("EventSource", { concurrency: true }, () => {
  it("shows a whole turn, each piece of it in the step that it belongs to", async () => {
    const turn = await followed("tour", []);

    await assertWhole(turn, "uncut");
    await assertBegun(turn, "uncut");
    for (const type of ["reasoning_delta", "text_delta", "tool_progress"]) {
      assert.ok(turn.events.some((event) => event.type === type), `no ${type}`);
    }
    assert.equal(turn.asked.length, 1);
  });

  it("loses and doubles nothing when the stream breaks at any of its boundaries", async () => {
    const uncut = await followed("tour", []);
    const frames = uncut.events.length + 1; // and the one that opens it

    const turns = await Promise.all(range(0, frames - 1).map((cut) => followed("tour", [{ frames: cut }])));

    for (const [cut, turn] of turns.entries()) {
      await assertWhole(turn, `cut at frame ${cut}`);
      await assertBegun(turn, `cut at frame ${cut}`);
      const isCut = turn.events.length + 1 > cut; // the end of an answer may come with its commit, so that there are fewer frames
      assert.equal(turn.asked.length, isCut ? 2 : 1, `cut at frame ${cut}: connections`);
    }
  });

  it("loses and doubles nothing when the stream breaks within an event, comes in crumbs, or ends early", async () => {
    const faults = [];
    for (const frames of [1, 5, 12, 30, 45]) {
      for (const bytes of [1, 25, 60]) faults.push([{ frames, bytes }]);
      faults.push([{ frames, clean: true }], [{ frames, slice: 3 }], [{ frames: 1000, slice: 1 }]);
    }

    const turns = await Promise.all(faults.map((fault) => followed("tour", fault)));

    for (const [place, turn] of turns.entries()) {
      await assertWhole(turn, JSON.stringify(faults[place]));
      await assertBegun(turn, JSON.stringify(faults[place]));
    }
  });

  it("gets the rest of an answer that still runs, from the piece at which the stream broke", async () => {
    const cuts = range(0, 6); // before and behind the opening, turn_started, model_started, and the three pieces before it holds

    const turns = await Promise.all(cuts.map((frames) => followed("talk", [{ frames }, { frames: 1 }], { holds: true })));

    for (const [cut, turn] of turns.entries()) {
      await assertWhole(turn, `cut at frame ${cut}`);
      await assertBegun(turn, `cut at frame ${cut}`);
    assert.ok(told(turn.events)[0].length > 3 * 14, `cut at frame ${cut}: nothing came behind the hold`);
    }
  });

  it("begins in the middle of a turn with one snapshot, and goes on behind it wherever the stream breaks", async () => {
    const turns = await Promise.all(
      range(0, 6).map(async (frames) => {
        const session = fresh("late");
        await api.send(session, `talk hold:${session}`);
        await until(async () => (await api.snapshot(session)).state.status === "running_model", "an answer that runs");
        const path = `/v1/sessions/${session}/events?snapshot=true`;
        const listener = new Listener(`${proxy.line(session, { frames }, { frames: 1 })}${path}`);
        try {
          await until(() => proxy.asked.get(session).length > 2 && listener.isOpen, "the last connection");
          server.release(session);
          await listener.seen("turn_completed");
          return { session, events: listener.events };
        } finally {
          listener.close();
        }
      }),
    );

    for (const [cut, { session, events }] of turns.entries()) {
      const [{ snapshot }, ...followed] = events;
      assertSame(events.map((event) => event.type === "snapshot"), events.map((_, place) => place === 0), `cut at frame ${cut}`);
      assertSame(snapshot.messages.map((message) => message.role), ["user"], `cut at frame ${cut}: what it begins with`);
      const durable = followed.filter((event) => event.sequence !== undefined).map(withoutCursor);
      const { events: kept } = await api.get(`/v1/sessions/${session}/events?after=${snapshot.cursor}`);
      assertSame(durable, kept.map(withoutCursor), `cut at frame ${cut}: its durable events`);
      await assertBegun({ session, events: followed }, `cut at frame ${cut}`);
    }
  });

  it("shows an attempt that broke off as reset, and the one that stands", async () => {
    const turn = await followed("stumble", []);

    await assertWhole(turn, "retried");
    await assertBegun(turn, "retried");
    const live = turn.events.filter((event) => event.sequence === undefined);
    assert.match(live.map((event) => event.payload.text ?? "").join(""), /^A first attempt that breaks off.*One piece after/);
    assert.ok(live.some((event) => event.type === "attempt_reset"));
  });

  it("stays open in silence, by comments that move its place nowhere", async () => {
    const session = fresh("silent");
    const listener = new Listener(`${proxy.line(session)}/v1/sessions/${session}/events`);
    try {
      await api.send(session, "talk");
      await listener.seen("turn_completed");
      const heard = listener.events.length;

      await until(() => proxy.comments.get(session)?.includes(": keep-alive"), "a comment");

      assert.equal(listener.opened, 1);
      assert.ok(listener.isOpen);
      assert.equal(listener.events.length, heard);
    } finally {
      listener.close();
    }
  });
});

// Whatever was shown of an answer is how it begins: its end may have come with the commit.
async function assertBegun({ session, events }, what) {
  const whole = await answers(session);
  for (const text of told(events)) {
    assert.ok(whole.some((answer) => answer.startsWith(text)), `${what}: ${JSON.stringify(text)} begins none of the answers`);
  }
}
