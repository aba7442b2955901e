// The subset of Markdown that answers are shown with, and the log of raw events. Run by `test_reducer.py`.

import assert from "node:assert/strict";
import { test } from "node:test";

import { eventLog, filtered, groupOf } from "../../layers/runtime/perdure/embedded/console/event_log.js";
import { blocksOf, inlineOf, safeAddress } from "../../layers/runtime/perdure/embedded/console/markdown.js";
import { saidBy } from "../../layers/runtime/perdure/embedded/console/config.js";

const kinds = (text) => blocksOf(text).map(({ type }) => type);
const em = (...children) => ({ type: "em", children });
const strong = (...children) => ({ type: "strong", children });

test("blocks are told apart", () => {
  const text = "# Title\ntext\nmore\n\n- a\n- b\n\n1. one\n2. two\n\n> said\n\n---\n```py\nx = 1\n\ny\n```\n| a | b |\n|--|-:|\n| 1 | 2 |";

  assert.deepEqual(kinds(text), ["heading", "paragraph", "list", "list", "quote", "rule", "code", "table"]);
  const [, paragraph, , ordered, , , code, table] = blocksOf(text);
  assert.deepEqual(paragraph.inline, ["text\nmore"]);
  assert.deepEqual([ordered.ordered, ordered.start, ordered.items.length], [true, 1, 2]);
  assert.deepEqual([code.language, code.text], ["py", "x = 1\n\ny"]);
  assert.deepEqual([table.align, table.head, table.rows], [[null, "right"], [["a"], ["b"]], [[["1"], ["2"]]]]);
});

test("a fence that is still being written is code to its end", () => {
  assert.deepEqual(blocksOf("so:\n```js\nlet a"), [
    { type: "paragraph", inline: ["so:"] },
    { type: "code", language: "js", text: "let a" },
  ]);
});

test("lists nest, and tasks are told done or open", () => {
  const [{ items }] = blocksOf("- a\n  - b\n- [x] c\n- [ ] d");

  assert.deepEqual(items.map(({ blocks }) => blocks.map(({ type }) => type)), [["paragraph", "list"], ["paragraph"], ["paragraph"]]);
  assert.deepEqual(items.map(({ checked }) => checked), [null, true, false]);
});

test("emphasis, code and links are found, and what opens nothing stays text", () => {
  assert.deepEqual(inlineOf("a **b *c*** `d*e*`"), ["a ", strong("b ", em("c")), " ", { type: "code", text: "d*e*" }]);
  assert.deepEqual(inlineOf("snake_case_name and 2 * 3 * 4"), ["snake_case_name and 2 * 3 * 4"]);
  assert.deepEqual(inlineOf("**open and `half"), ["**open and `half"]);
  assert.deepEqual(inlineOf("\\*not\\*"), ["*not*"]);
  assert.deepEqual(inlineOf("[a](https://b.example/c_d) (https://e.example/x)."), [
    { type: "link", address: "https://b.example/c_d", children: ["a"] },
    " (",
    { type: "link", address: "https://e.example/x", children: ["https://e.example/x"] },
    ").",
  ]);
});

test("only addresses that lead to pages and mail are links", () => {
  assert.deepEqual(inlineOf("[a](javascript:alert(1))"), ["[a](javascript:alert(1))"]);
  assert.deepEqual(inlineOf("<b onclick=x>hi</b>"), ["<b onclick=x>hi</b>"]);
  assert.equal(inlineOf("![x](https://a.example/p.png)")[0].type, "image");
  const refused = ["javascript:alert(1)", "java\nscript:x", "data:text/html,x", "vbscript:x", "//a.example", "/v1/x", "blob:x"];
  assert.deepEqual(refused.map(safeAddress), refused.map(() => null));
  assert.equal(safeAddress("mailto:a@b.example"), "mailto:a@b.example");
});

test("no text takes long", () => {
  const hostile = [
    "*a ".repeat(6000), "`".repeat(15_000), "[".repeat(15_000), "**".repeat(9000), "> ".repeat(8000), "- ".repeat(8000), "`a``b".repeat(3000),
    "![](".repeat(4900), "**a _b ".repeat(2500), `${"|a".repeat(9000)}\n${"|-".repeat(9000)}`, "-\n".repeat(9000), "<".repeat(15_000), "http://a".repeat(2400),
  ];

  for (const text of hostile) {
    const before = performance.now();
    blocksOf(text);
    assert.ok(performance.now() - before < 1000, text.slice(0, 12));
  }
});

test("the log holds each durable event once, in order, and live ones where they came", () => {
  const log = eventLog();
  const durable = (sequence) => ({ type: "turn_started", sequence, cursor: `c${sequence}`, payload: {} });
  for (const event of [durable(1), { type: "text_delta", cursor: "l1", payload: { text: "Hi" } }, durable(3), durable(2), durable(3)]) log.take(event);

  assert.deepEqual(log.all().map(({ cursor }) => cursor), ["c1", "l1", "c2", "c3"]);
  assert.equal(log.take(durable(2)), false);
});

test("events are filtered by text, kind and whether they last", () => {
  const events = [
    { type: "turn_started", sequence: 1, payload: {} },
    { type: "tool.output", sequence: 2, payload: { output: "Boots" } },
    { type: "tool_progress", payload: { text: "half" } },
    { type: "settings.changed", sequence: 3, payload: {} },
  ];

  assert.deepEqual(events.map(({ type }) => groupOf(type)), ["turn", "tool", "tool", "session"]);
  assert.deepEqual(filtered(events, { text: "boots" }), [events[1]]);
  assert.deepEqual(filtered(events, { groups: new Set(["tool"]), live: false }), [events[1]]);
  assert.equal(filtered(events, {}).length, 4);
});

test("a token's own words are read, and a broken one says nothing", () => {
  const claims = btoa(JSON.stringify({ sub: "ada", exp: 1_800_000_000 })).replaceAll("=", "");

  assert.deepEqual(saidBy(`x.${claims}.y`), { subject: "ada", expiresAt: "2027-01-15T08:00:00.000Z" });
  assert.deepEqual(saidBy("broken"), { subject: null, expiresAt: null });
});
