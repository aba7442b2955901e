// Requests to the API: the server that the page came from, or the one that its configuration names.

import { CONFIG, bearer } from "./config.js";
import { newId } from "./ids.js";

const RETRY_DELAYS_MS = [300, 700, 1500, 3000, 5000];

/** What the server answered instead of a result: `{code, message, retryable}` of surface §4.1. */
export class ApiError extends Error {
  constructor(status, { code, message, retryable } = {}) {
    super(message ?? `the server answered ${status}`);
    this.status = status;
    this.code = code ?? "unknown";
    this.retryable = retryable ?? (status === 429 || status >= 500);
  }
}

let onRefused = () => {};

/** Have a function called whenever the API no longer accepts the token. */
export function whenRefused(call) {
  onRefused = call;
}

/** The headers and the address of a request. */
export function outward(path, headers) {
  const token = bearer();
  return [CONFIG.api + path, { ...headers, ...(token && { Authorization: `Bearer ${token}` }) }];
}

/** The address of a session's resource. */
export function sessionPath(sessionId, ...rest) {
  return ["/v1/sessions", sessionId, ...rest].map((part, i) => (i ? encodeURIComponent(part) : part)).join("/");
}

/** GET; a failed connection rejects with a TypeError, an error answer with an ApiError. */
export async function get(path, query = {}, { signal } = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  const search = new URLSearchParams(given).toString();
  const [address, headers] = outward(search ? `${path}?${search}` : path, { Accept: "application/json" });
  return read(await fetch(address, { headers, signal }));
}

/**
 * Send a command until the server has answered: one whose answer was lost is sent again with the same
 * Idempotency-Key, so it counts once. `onDelay(message)` hears why it takes longer.
 */
export async function request(method, path, body, { key = newId(), onDelay = () => {} } = {}) {
  const headers = { Accept: "application/json", "Idempotency-Key": key };
  if (method !== "DELETE") headers["Content-Type"] = "application/json";
  for (let attempt = 0; ; attempt += 1) {
    try {
      const content = method === "DELETE" ? undefined : JSON.stringify(body ?? {});
      const [address, all] = outward(path, headers); // the token may be another one by now
      return await read(await fetch(address, { method, headers: all, body: content }));
    } catch (error) {
      if (error instanceof ApiError && error.status !== 401 && !error.retryable) throw error;
      onDelay(error instanceof ApiError ? error.message : "The server can't be reached.");
      await pause(RETRY_DELAYS_MS[Math.min(attempt, RETRY_DELAYS_MS.length - 1)]);
    }
  }
}

/** Wait. */
export function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function read(response) {
  const text = await response.text();
  let body = {};
  try {
    body = text ? JSON.parse(text) : {};
  } catch {
    if (response.ok) throw new TypeError("the answer was cut off"); // as bad as a lost connection
  }
  if (response.status === 401) onRefused();
  if (!response.ok) throw new ApiError(response.status, body.error ?? { message: body.message });
  return body;
}
