// Requests to the server the page came from.

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

/** The address of a session's resource. */
export function sessionPath(sessionId, ...rest) {
  return ["/v1/sessions", sessionId, ...rest].map((part, i) => (i ? encodeURIComponent(part) : part)).join("/");
}

/** GET; a failed connection rejects with a TypeError, an error answer with an ApiError. */
export async function get(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  const search = new URLSearchParams(given).toString();
  return read(await fetch(search ? `${path}?${search}` : path, { headers: { Accept: "application/json" } }));
}

/**
 * Send a command until the server has answered: one whose answer was lost is sent again with the same
 * Idempotency-Key, so it counts once. `onDelay(message)` hears why it takes longer.
 */
export async function request(method, path, body, { key = crypto.randomUUID(), onDelay = () => {} } = {}) {
  const headers = { Accept: "application/json", "Idempotency-Key": key };
  if (method !== "DELETE") headers["Content-Type"] = "application/json";
  for (let attempt = 0; ; attempt += 1) {
    try {
      const content = method === "DELETE" ? undefined : JSON.stringify(body ?? {});
      return await read(await fetch(path, { method, headers, body: content }));
    } catch (error) {
      if (error instanceof ApiError && !error.retryable) throw error;
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
  if (!response.ok) throw new ApiError(response.status, body.error);
  return body;
}
