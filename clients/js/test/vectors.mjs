// The shared cases of `clients/vectors`, as this reducer takes them. `node clients/js/test/vectors.mjs --write` writes
// down what it makes of them: look at the difference before you keep it.

import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { initialState, reduce, viewOf } from "../src/index.js";

const FOLDER = new URL("../../vectors/", import.meta.url);

/** Return every case: `{ name, title, session_id, actions, expected: [{ after, view, position }] }`. */
export function vectors() {
  const names = readdirSync(FOLDER).filter((name) => name.endsWith(".json")).sort();
  return names.map((name) => ({ name, ...JSON.parse(readFileSync(new URL(name, FOLDER), "utf8")) }));
}

/** Return one case. */
export const vector = (name) => vectors().find((one) => one.name === `${name}.json`);

/** Return what is shown after the first `count` actions of a case, and where its viewer stands, as cases say it. */
export function shownAfter(given, count) {
  const begun = frozen(initialState(given.session_id));
  const state = given.actions.slice(0, count).map(camelKeys).reduce((before, action) => frozen(reduce(before, frozen(action))), begun);
  const { sequence, cursor, gap } = state;
  return { view: normalised(viewOf(state)), position: normalised({ sequence, cursor, gap }) };
}

// Cases are the same for every language: snake_case, and nothing that says no more than its absence.
export function normalised(value) {
  if (Array.isArray(value)) return value.map(normalised);
  if (value === null || typeof value !== "object") return value;
  const told = Object.entries(value).map(([key, inner]) => [snake(key), normalised(inner)]);
  return Object.fromEntries(told.filter(([, inner]) => !isNothing(inner)));
}

function isNothing(value) {
  if (value === null || value === undefined || value === false) return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

const snake = (key) => key.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
const camel = (key) => key.replaceAll(/_([a-z])/g, (_, letter) => letter.toUpperCase());
const camelKeys = (action) => Object.fromEntries(Object.entries(action).map(([key, value]) => [camel(key), value]));

/** Freezes what it is given, so that a reducer that changes a state in place fails. */
export function frozen(value) {
  if (value && typeof value === "object" && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(frozen);
  }
  return value;
}

if (process.argv[1] === fileURLToPath(import.meta.url) && process.argv[2] === "--write") {
  for (const { name, ...told } of vectors()) {
    told.expected = told.expected.map(({ after }) => ({ after, ...shownAfter(told, after) }));
    writeFileSync(new URL(name, FOLDER), `${JSON.stringify(told, null, 1)}\n`);
  }
}
