// Perdure's own API, as far as tests need it beside the client that they test.

import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";

export const PATIENCE_MS = 60_000;

export class Api {
  constructor(url) {
    this.url = url;
  }

  async post(path, body = {}) {
    const headers = { "content-type": "application/json" };
    const answer = await reach(`${this.url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    const told = await answer.json();
    assert.ok(answer.ok, `POST ${path}: ${answer.status} ${JSON.stringify(told)}`);
    return told;
  }

  async get(path) {
    const answer = await reach(`${this.url}${path}`);
    const told = await answer.json();
    assert.ok(answer.ok, `GET ${path}: ${answer.status} ${JSON.stringify(told)}`);
    return told;
  }

  send(session, text) {
    return this.post(`/v1/sessions/${session}/inputs`, { text, message_id: `input-of-${session}` });
  }

  snapshot(session) {
    return this.get(`/v1/sessions/${session}`);
  }

  // All events that a session keeps, as one reads them without a stream.
  async events(session) {
    const events = [];
    for (let after; ; ) {
      const page = await this.get(`/v1/sessions/${session}/events${after ? `?after=${after}` : ""}`);
      if (page.events.length === 0) return events;
      events.push(...page.events);
      after = page.cursor;
    }
  }

  // Waits until a session's turn is over, or waits for a person.
  async settled(session) {
    return until(async () => {
      const { state, ...snapshot } = await this.snapshot(session);
      const idle = state?.status === "waiting_for_user_message" && state.turn_count > 0;
      return (idle || snapshot.pending_interrupts.length > 0) && { state, ...snapshot };
    }, `${session} settles`);
  }
}

// Asks once more if the connection was one that the server closed just then, for having been idle too long. What is posted here
// may be posted twice.
export async function reach(url, options) {
  try {
    return await fetch(url, options);
  } catch {
    return fetch(url, options);
  }
}

// Asks again and again until the answer is true, and returns it.
export async function until(condition, what) {
  for (const giveUp = Date.now() + PATIENCE_MS; ; ) {
    const answer = await condition();
    if (answer) return answer;
    assert.ok(Date.now() < giveUp, `not within ${PATIENCE_MS / 1000} s: ${what}`);
    await pause(10);
  }
}

export function range(first, last) {
  return Array.from({ length: last - first + 1 }, (_, place) => first + place);
}

let count = 0;

// The id of a session that nobody else uses.
export function fresh(name) {
  count += 1;
  return `${name}-${process.pid}-${count}`;
}

// Holds that two values are equal, and tells the first place at which they are not: whole conversations are no message.
export function assertSame(actual, expected, what) {
  const place = difference(actual, expected, "it");
  if (place !== null) assert.fail(`${what}: ${place}`);
}

function difference(actual, expected, path) {
  const both = [actual, expected];
  if (both.every((value) => value !== null && typeof value === "object") && Array.isArray(actual) === Array.isArray(expected)) {
    for (const name of new Set(both.flatMap(Object.keys))) {
      const found = difference(actual[name], expected[name], `${path}.${name}`);
      if (found !== null) return found;
    }
    return null;
  }
  const [is, shouldBe] = both.map((value) => String(JSON.stringify(value)).slice(0, 400));
  return Object.is(actual, expected) ? null : `${path} is ${is}, and should be ${shouldBe}`;
}
