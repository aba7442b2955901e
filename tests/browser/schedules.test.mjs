// Schedules as people write and read them. Run by `test_reducer.py`, or by hand:
// node --experimental-detect-module --import ./tests/browser/served.mjs --test tests/browser/

import assert from "node:assert/strict";
import { test } from "node:test";

import { view } from "../../layers/runtime/perdure/embedded/console/view.js";
import { formOf, whenOf, whenText } from "../../layers/runtime/perdure/embedded/console/when.js";
import { aSnapshot, after, at } from "./builders.mjs";

const FORM = { mode: "at", at: "2027-01-31T09:00:00", amount: "2", unit: "hours", cron: " 0 9 * * mon-fri ", zone: "Europe/Berlin" };

test("a form says once at a time, once after a while, and again by clock or interval", () => {
  const when = (mode) => whenOf({ ...FORM, mode }).when;

  assert.deepEqual(when("at"), { at: "2027-01-31T09:00:00", time_zone: "Europe/Berlin" });
  assert.deepEqual(when("after"), { after: { hours: 2 } });
  assert.deepEqual(when("interval"), { every: { hours: 2 }, time_zone: "Europe/Berlin" });
  assert.deepEqual(when("cron"), { every: "0 9 * * mon-fri", time_zone: "Europe/Berlin" });
});

test("what is missing or no number is said before anything is sent", () => {
  const problem = (more) => whenOf({ ...FORM, ...more }).problem;

  assert.match(problem({ at: "" }), /date/);
  assert.match(problem({ zone: " " }), /time zone/);
  assert.match(problem({ mode: "cron", cron: " " }), /five fields/);
  for (const amount of ["", "0", "1.5", "x"]) assert.match(problem({ mode: "after", amount }), /whole number/);
});

test("a schedule that is opened again has the form that it was written with", () => {
  const form = (when) => formOf(when, at(0), "UTC", (time) => time.slice(0, 19));

  for (const mode of ["interval", "cron"]) {
    const again = form(whenOf({ ...FORM, mode }).when);
    assert.deepEqual(whenOf(again), whenOf({ ...FORM, mode }));
  }
  assert.deepEqual([form({ after: { hours: 2 } }).mode, form({ after: { hours: 2 } }).at], ["at", at(0).slice(0, 19)]);
  assert.equal(form({ at: "2027-01-31T09:00:00", time_zone: "Asia/Tokyo" }).zone, "UTC"); // the field holds this page's time
});

test("when it comes is said in words", () => {
  const texts = [{ every: "0 9 * * *", time_zone: "UTC" }, { every: { hours: 1 } }, { every: { days: 1, hours: 2 } }, { after: { hours: 1 } }];

  assert.deepEqual(texts.map(whenText), ["by the clock: 0 9 * * * · UTC", "every hour", "every 1 day 2 hours", "once"]);
});

test("a schedule whose change is on its way is busy", () => {
  const schedules = [{ schedule_id: "s-1", text: "x", when: { after: { hours: 1 } }, next_at: at(60) }];
  const known = after([aSnapshot(), { type: "schedules", schedules }]);
  const busy = after([{ type: "begin", key: "wait/schedule:s-1", id: "c", what: { does: "skip" } }], known);

  assert.deepEqual(view(known).schedules.map(({ key, wait, busy: is }) => [key, wait, is]), [["s-1", "schedule:s-1", false]]);
  assert.equal(view(busy).schedules[0].busy, true);
});
