// Checks commands before they are sent, by the schemas that the server publishes. Runs anywhere; no server code.

import { COMMANDS } from "./schemas.js";

export { COMMANDS };

/**
 * Throw a TypeError that says what is wrong with a command, and where; a command that the server's document allows passes.
 *
 * The server checks again, and more: lengths, blank texts, and what the session allows.
 *
 * @param {{operation: string, body?: object}} command
 */
export function checkCommand({ operation, body }) {
  const known = Object.hasOwn(COMMANDS, operation) ? COMMANDS[operation] : null;
  if (known === null) {
    throw new TypeError(`a browser has no command ${JSON.stringify(operation)}: it may send ${Object.keys(COMMANDS).join(", ")}`);
  }
  if (known.body === undefined) {
    if (body !== undefined && Object.keys(body).length) throw new TypeError(`${operation} has no body`);
    return;
  }
  const [problem] = problemsOf(body ?? {}, known.body, "body");
  if (problem) throw new TypeError(`${operation}: ${problem}`);
}

/** Return what is wrong with a value, as sentences; none: it fits the schema. Knows the words that our schemas use. */
export function problemsOf(value, schema, at = "value") {
  if (schema.anyOf) {
    const fits = schema.anyOf.some((inner) => problemsOf(value, inner, at).length === 0);
    return fits ? [] : [`${at} is none of what it may be`];
  }
  if (schema.type && !isOfType(value, schema.type)) return [`${at} has to be ${article(schema.type)}`];
  if (schema.enum && !schema.enum.includes(value)) return [`${at} has to be one of ${schema.enum.join(", ")}`];
  if (schema.const !== undefined && value !== schema.const) return [`${at} has to be ${JSON.stringify(schema.const)}`];
  if (schema.type === "array") return value.flatMap((item, index) => problemsOf(item, schema.items ?? {}, `${at}[${index}]`));
  if (schema.type === "object") return [...objectProblems(value, schema, at), ...choiceProblems(value, schema, at)];
  return [];
}

function objectProblems(value, { properties = {}, required = [], additionalProperties = true }, at) {
  const missing = required.filter((name) => value[name] === undefined).map((name) => `${at}.${name} is missing`);
  const given = Object.keys(value).filter((name) => value[name] !== undefined);
  return given.reduce((problems, name) => {
    if (Object.hasOwn(properties, name)) return [...problems, ...problemsOf(value[name], properties[name], `${at}.${name}`)];
    return additionalProperties === false ? [...problems, `${at}.${name} is not known`] : problems;
  }, missing);
}

// Every `oneOf` of ours says which one of some fields has to be there.
function choiceProblems(value, { oneOf }, at) {
  if (!oneOf) return [];
  const fits = oneOf.filter((inner) => objectProblems(value, inner, at).length === 0).length;
  return fits === 1 ? [] : [`${at} needs exactly one of ${oneOf.map(({ required }) => required.join(" and ")).join(", ")}`];
}

function isOfType(value, type) {
  switch (type) {
    case "object":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    case "array":
      return Array.isArray(value);
    case "integer":
      return Number.isInteger(value);
    case "null":
      return value === null;
    default:
      return typeof value === type;
  }
}

function article(type) {
  return /^[aeiou]/.test(type) ? `an ${type}` : `a ${type}`;
}
