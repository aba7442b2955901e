// The shared cases of `clients/vectors`, as this reducer takes them. `node clients/js/test/vectors.mjs` writes down what
// it makes of them: look at the difference before you keep it.

import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { initialState, reduce, viewOf } from "../src/index.js";

const FOLDER = new URL("../../vectors/", import.meta.url);

/** Return every case: `{ name, title, session_id, actions, expected: [{ after, view }] }`. */
export function vectors() {
  const names = readdirSync(FOLDER).filter((name) => name.endsWith(".json")).sort();
  return names.map((name) => ({ name, ...JSON.parse(readFileSync(new URL(name, FOLDER), "utf8")) }));
}

/** Return what is shown after the first `count` actions of a case, in the form in which cases say it. */
export function shownAfter(vector, count) {
  const actions = vector.actions.slice(0, count).map(camelKeys);
  return normalised(viewOf(frozen(actions.reduce((state, action) => reduce(frozen(state), frozen(action)), initialState(vector.session_id)))));
}

// Cases are the same for every language: snake_case, and nothing that says no more than its absence.
function normalised(value) {
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

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const { name, ...vector } of vectors()) {
    vector.expected = vector.expected.map(({ after }) => ({ after, view: shownAfter(vector, after) }));
    writeFileSync(new URL(name, FOLDER), `${JSON.stringify(vector, null, 1)}\n`);
  }
}
