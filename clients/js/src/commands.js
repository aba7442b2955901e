// Commands as values: what a person does to a session, ready to be sent by a page or by a server. Pure.
//
// Every command has an idempotency key, so sending the same value again counts once. Ids that are made here begin with
// `perdure:` and follow from the key; callers' own ids may not begin so.

import { COMMANDS } from "./schemas.js";

/** How the ids begin that are made here. */
export const RESERVED_PREFIX = "perdure:";

const LONGEST_ID = 128;

/** Return the command that sends a message. `key`: its idempotency key, from which its id follows unless it has one. */
export function message(sessionId, text, { key, messageId, agent, delivery, files, metadata, settings, runSettings } = {}) {
  const body = { text, message_id: messageId === undefined ? madeId(key) : ownId(messageId), agent, delivery };
  return command("send_input", sessionId, key, {}, { ...body, files, metadata, settings, run_settings: runSettings });
}

/** Return the command that lets a call run. `argumentsHash`: of the arguments that were shown. */
export function approval(sessionId, interruptId, { key, argumentsHash, message: said, arguments: changed, grant } = {}) {
  const body = { approved: true, arguments_hash: argumentsHash, message: said, arguments: changed, grant };
  return command("resolve_interrupt", sessionId, key, { interrupt_id: interruptId }, body);
}

/** Return the command that rejects a call, or leaves a question without an answer. */
export function rejection(sessionId, interruptId, { key, argumentsHash, message: said } = {}) {
  const body = { approved: false, arguments_hash: argumentsHash, message: said };
  return command("resolve_interrupt", sessionId, key, { interrupt_id: interruptId }, body);
}

/** Return the command that answers a question. */
export function answer(sessionId, interruptId, text, { key, message: said } = {}) {
  return command("resolve_interrupt", sessionId, key, { interrupt_id: interruptId }, { answer: text, message: said });
}

/** Return the command that gives an application the value that it asks for. */
export function input(sessionId, interruptId, value, { key, message: said } = {}) {
  return command("resolve_interrupt", sessionId, key, { interrupt_id: interruptId }, { value, message: said });
}

/** Return the command that stops a turn; `frontier`: the cursor of the last event that was shown. */
export function stop(sessionId, { key, turnId, frontier, disposition } = {}) {
  return command("stop", sessionId, key, {}, { turn_id: turnId, frontier, disposition });
}

/** Return the command that runs a failed turn's model step again. Each key is a retry of its own. */
export function retry(sessionId, { key } = {}) {
  return command("retry", sessionId, key, {}, { retry_id: madeId(key) });
}

/** Return the command that lets nothing new begin. */
export const pause = (sessionId, { key } = {}) => command("pause", sessionId, key, {}, {});

/** Return the command that lets everything begin again. */
export const resume = (sessionId, { key } = {}) => command("resume", sessionId, key, {}, {});

/** Return the command that names the session. */
export const rename = (sessionId, title, { key } = {}) => command("set_title", sessionId, key, {}, { title });

/** Return the command that changes the text of a message that waits. */
export function edit(sessionId, messageId, text, { key } = {}) {
  return command("change_message", sessionId, key, { message_id: messageId }, { text });
}

/** Return the command that moves a message that waits: `before` or `after` another one, or to a `position`. */
export function move(sessionId, messageId, { key, before, after, position } = {}) {
  return command("change_message", sessionId, key, { message_id: messageId }, { before, after, position });
}

/** Return the command that takes back a message that waits. */
export function remove(sessionId, messageId, { key } = {}) {
  return command("remove_message", sessionId, key, { message_id: messageId });
}

/** Return the command that delivers a message that waits in another way. */
export function deliver(sessionId, messageId, delivery, { key } = {}) {
  return command("deliver_message", sessionId, key, { message_id: messageId }, { delivery });
}

/** Return the command as an HTTP request: `{ method, path, headers, body? }`, the body as text. */
export function requestOf({ operation, session_id: sessionId, path = {}, body, idempotency_key: key }) {
  const { method, path: template } = COMMANDS[operation];
  const given = { session_id: sessionId, ...path };
  return {
    method,
    path: template.replaceAll(/\{(\w+)\}/g, (_, name) => segment(given[name])),
    headers: { Accept: "application/json", "Idempotency-Key": headerText(key), ...(body && { "Content-Type": "application/json" }) },
    ...(body && { body: JSON.stringify(body) }),
  };
}

/** Return the command as a frame of the WebSocket. */
export function frameOf(given, requestId) {
  return { type: "command", request_id: requestId, ...given };
}

/** Return a path segment that means this text: "." and ".." are ids like others, and would vanish from a path. */
export function segment(text) {
  return text === "." || text === ".." ? text.replaceAll(".", "%2E") : encodeURIComponent(text);
}

function command(operation, sessionId, key, path, body) {
  if (typeof key !== "string" || !/^[^\p{Cc}\p{Cs}]{1,256}$/u.test(key) || key !== key.trim()) {
    throw new TypeError("a command needs an idempotency `key` of 1 to 256 characters, without control characters and outer spaces");
  }
  const made = { operation, session_id: sessionId };
  if (Object.keys(path).length) made.path = path;
  if (body) made.body = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined));
  return { ...made, idempotency_key: key };
}

function madeId(key) {
  const id = `${RESERVED_PREFIX}${key}`;
  if (id.length > LONGEST_ID) {
    throw new TypeError(`an idempotency key of more than ${LONGEST_ID - RESERVED_PREFIX.length} characters makes no id: give a \`messageId\`, or a shorter key`);
  }
  return id;
}

function ownId(id) {
  if (!id.startsWith(RESERVED_PREFIX)) return id;
  throw new TypeError(`ids that begin with ${RESERVED_PREFIX} are made by the client: choose another one than ${JSON.stringify(id)}`);
}

// A header holds bytes; the server reads them as UTF-8.
function headerText(key) {
  return Array.from(new TextEncoder().encode(key), (byte) => String.fromCharCode(byte)).join("");
}
