// The arguments of a call as people read and edit them. Pure.

const MAX_CHANGES = 50; // that are listed

/** Return the object that a text stands for: `{ value }`, or `{ problem }` for people. */
export function parsedArguments(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { problem: `This is no JSON: ${error.message}` };
  }
  const isObject = value !== null && typeof value === "object" && !Array.isArray(value);
  return isObject ? { value } : { problem: "Arguments are a JSON object, in braces." };
}

/** Return what differs, as `{ key, before, after }` with a path and two JSON texts; null: it is not there. */
export function changesOf(before, after) {
  return differences(before, after, "").slice(0, MAX_CHANGES);
}

function differences(before, after, path) {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  if (!isTree(before) || !isTree(after) || Array.isArray(before) !== Array.isArray(after)) {
    return [{ key: path || "all", before: textOf(before), after: textOf(after) }];
  }
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  const below = (name) => (Array.isArray(before) ? `${path}[${name}]` : path ? `${path}.${name}` : name);
  return [...names].flatMap((name) => differences(before[name], after[name], below(name)));
}

function isTree(value) {
  return value !== null && typeof value === "object";
}

function textOf(value) {
  return value === undefined ? null : JSON.stringify(value);
}
