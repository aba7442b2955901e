// What the reducer costs where a session is long.

import assert from "node:assert/strict";
import { test } from "node:test";

import { initialState, reduce } from "../src/reducer.js";

test("a piece of live text copies none of the session's steps, and the first one after a wait for the provider ends it", () => {
  let number = 0;
  const live = (type, payload) => ({
    type: "event",
    event: { type, progress_sequence: (number += 1), cursor: `c${number}`, turn_id: "turn-1", step_execution_id: "model-1-0", attempt: 1, at: "2026-11-30T12:00:00.000Z", payload },
  });
  const begun = reduce(reduce(initialState("s-1"), live("model_started", {})), live("text_delta", { text: "one ", segment: 0 }));
  const next = reduce(begun, live("text_delta", { text: "two ", segment: 0 }));
  const waits = reduce(next, live("model_retry_scheduled", { attempt: 1, reason: "overloaded", retry_in_ms: 500 }));
  const goesOn = reduce(waits, live("text_delta", { text: "three", segment: 0 }));

  assert.equal(next.steps, begun.steps);
  assert.equal(waits.steps["model-1-0"].retry.reason, "overloaded");
  assert.equal(goesOn.steps["model-1-0"].retry, undefined);
  assert.equal(goesOn.partials["model-1-0"].text, "one two three");
});
