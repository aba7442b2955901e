// The reducer against the cases that every reducer has to pass.

import assert from "node:assert/strict";
import { test } from "node:test";

import { shownAfter, vectors } from "./vectors.mjs";

const cases = vectors();

test("there are cases", () => assert.ok(cases.length >= 17));

for (const vector of cases) {
  test(`${vector.name}: ${vector.title}`, () => {
    assert.ok(vector.expected.length > 0);
    for (const { after, ...expected } of vector.expected) assert.deepEqual(shownAfter(vector, after), expected, `after ${after} actions`);
  });
}
