// Commands as values, the schemas that they are held to, and the reader of event streams.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as commands from "../src/commands.js";
import { COMMANDS, checkCommand, problemsOf } from "../src/schema.js";
import { eventReader } from "../src/sse.js";

const KEY = { key: "k-1" };

const EVERY = {
  message: commands.message("s-1", "hello", { ...KEY, delivery: "queue", files: [{ reference: "f-1" }], metadata: { a: 1 }, settings: {}, runSettings: {}, agent: "support" }),
  approval: commands.approval("s-1", "call-1-0", { ...KEY, argumentsHash: "h", message: "fine", arguments: { order: 7 }, grant: { lasts_seconds: 60, fields: ["order"] } }),
  rejection: commands.rejection("s-1", "call-1-0", { ...KEY, argumentsHash: "h", message: "no" }),
  answer: commands.answer("s-1", "question-1-0", "red", { ...KEY, message: "mine" }),
  input: commands.input("s-1", "seat", { row: 7 }, KEY),
  stop: commands.stop("s-1", { ...KEY, turnId: "turn-1", frontier: "c", disposition: "discard" }),
  retry: commands.retry("s-1", KEY),
  pause: commands.pause("s-1", KEY),
  resume: commands.resume("s-1", KEY),
  rename: commands.rename("s-1", "Refund of order 7", KEY),
  edit: commands.edit("s-1", "m-1", "other", KEY),
  move: commands.move("s-1", "m-1", { ...KEY, before: "m-2" }),
  remove: commands.remove("s-1", "m-1", KEY),
  deliver: commands.deliver("s-1", "m-1", "steer", KEY),
};

for (const [name, command] of Object.entries(EVERY)) {
  test(`a ${name} is what the server's schema allows, is plain JSON, and is the same each time`, () => {
    checkCommand(command);
    assert.deepEqual(JSON.parse(JSON.stringify(command)), command);
    assert.equal(command.idempotency_key, "k-1");

    const { method, path, headers, body } = commands.requestOf(command);
    assert.equal(method, COMMANDS[command.operation].method);
    assert.match(path, /^\/v1\/sessions\/s-1(\/|$)/);
    assert.doesNotMatch(path, /[{}]/);
    assert.equal(headers["Idempotency-Key"], "k-1");
    assert.deepEqual(body && JSON.parse(body), command.body);
    assert.deepEqual(commands.frameOf(command, "r-1"), { type: "command", request_id: "r-1", ...command });
  });
}

test("ids follow from the key and begin with our prefix; nobody else's do", () => {
  assert.equal(commands.message("s-1", "hello", KEY).body.message_id, "perdure:k-1");
  assert.equal(commands.message("s-1", "hello", { ...KEY, messageId: "mine" }).body.message_id, "mine");
  assert.equal(commands.retry("s-1", KEY).body.retry_id, "perdure:k-1");
  assert.throws(() => commands.message("s-1", "hello", { ...KEY, messageId: "perdure:k-2" }), /are made by the client/);
  assert.throws(() => commands.message("s-1", "hello", { key: "k".repeat(121) }), /makes no id/);
  commands.message("s-1", "hello", { key: "k".repeat(256), messageId: "mine" });
});

test("a key that can't be a header is refused, and any other text goes out as UTF-8", () => {
  for (const key of [undefined, "", " k", "k\n", "k".repeat(257), "\ud800"]) assert.throws(() => commands.pause("s-1", { key }), /idempotency `key`/);

  const sent = commands.requestOf(commands.pause("s-1", { key: "schlüssel 🔑" })).headers["Idempotency-Key"];
  assert.equal(new TextDecoder().decode(Uint8Array.from(sent, (character) => character.charCodeAt(0))), "schlüssel 🔑");
});

test("an id that is a path of its own stays an id", () => {
  assert.equal(commands.requestOf(commands.pause("..", KEY)).path, "/v1/sessions/%2E%2E/pause");
  assert.equal(commands.requestOf(commands.remove("s-1", "a/b?c", KEY)).path, "/v1/sessions/s-1/inbox/a%2Fb%3Fc");
});

test("what is wrong with a command is said with its place", () => {
  const wrong = (operation, body) => () => checkCommand({ operation, body });

  assert.throws(wrong("send_input", {}), /body\.text is missing/);
  assert.throws(wrong("send_input", { text: 7 }), /body\.text has to be a string/);
  assert.throws(wrong("send_input", { text: "a", role: "assistant" }), /body\.role is not known/);
  assert.throws(wrong("send_input", { text: "a", files: [{ name: "x" }] }), /body\.files\[0\]\.reference is missing/);
  assert.throws(wrong("resolve_interrupt", { approved: true, answer: "a" }), /exactly one of approved, answer, value/);
  assert.throws(wrong("resolve_interrupt", { approved: "yes" }), /body\.approved has to be a boolean/);
  assert.throws(wrong("resolve_interrupt", { approved: true, grant: { lasts_seconds: 1.5 } }), /lasts_seconds has to be an integer/);
  assert.throws(wrong("change_message", {}), /exactly one of text, before, after, position/);
  assert.throws(wrong("remove_message", { text: "a" }), /has no body/);
  assert.throws(wrong("toString", {}), /a browser has no command/);
  assert.deepEqual(problemsOf(null, { anyOf: [{ type: "string" }, { type: "null" }] }), []);
});

test("server-sent events come out whole, wherever their bytes are cut", () => {
  const stream = "\ufeffretry: 1000\n: open\n\nid: c1\nevent: text_delta\ndata: {\"text\": \"Äpfel 🍎\"}\n\n: keep-alive\n\nid: c2\r\ndata: one\r\ndata:  two\r\n\r\ndata\n\nevent: x\n\nid: a\0b\rdata: last\r\r";
  const bytes = new TextEncoder().encode(`${stream}\n`);
  const whole = eventReader()(bytes);
  assert.deepEqual(whole, [
    { id: "c1", event: "text_delta", data: "{\"text\": \"Äpfel 🍎\"}" },
    { id: "c2", event: "message", data: "one\n two" },
    { id: "c2", event: "message", data: "" },
    { id: "c2", event: "message", data: "last" },
  ]);

  for (let size = 1; size < bytes.length; size += 1) {
    const take = eventReader();
    const pieces = [];
    for (let at = 0; at < bytes.length; at += size) pieces.push(...take(bytes.subarray(at, at + size)));
    assert.deepEqual(pieces, whole, `in pieces of ${size}`);
  }
});
