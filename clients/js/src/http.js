// Requests to the API: reading, commands, the stream of a session's events.

import { requestOf, segment } from "./commands.js";
import { eventReader } from "./sse.js";

const WAIT_SECONDS = 20;
const PAGE = 500;
const SLOW_MS = 60_000; // a line that was cut without a word gives no answer, and no error for many minutes

/** What the server answered instead of a result (surface §4.1). `retryable`: the same request may succeed later. */
export class ApiError extends Error {
  constructor(status, { code, message, retryable } = {}) {
    super(message ?? `the server answered ${status}`);
    this.name = "ApiError";
    this.status = status;
    this.code = code ?? "unknown";
    this.retryable = retryable ?? (status === 429 || status >= 500);
  }
}

/** A command got no answer: nobody knows whether it was carried out. Sending it again with its key counts once. */
export class UnsettledError extends Error {
  constructor(command, cause) {
    super(`there was no answer to ${command.operation}: it may have been carried out or not; send it again with its key`, { cause });
    this.name = "UnsettledError";
    this.command = command;
    this.idempotencyKey = command.idempotency_key;
  }
}

/**
 * The API at an address.
 *
 * @param {{url: string, environment: object, token?: string, getToken?: () => string | null | Promise<string | null>, fetch?: typeof fetch,
 *   streamUrl?: string, socketUrl?: string}} settings
 *   `streamUrl`, `socketUrl`: where event streams and the WebSocket are, if that is elsewhere and `/healthz` does not say so.
 */
export function httpApi({ url, environment, streamUrl, socketUrl, token, getToken = () => token ?? null, fetch: fetches = globalThis.fetch.bind(globalThis) }) {
  let found = null;

  async function authorized(headers) {
    const current = await getToken();
    return current ? { ...headers, Authorization: `Bearer ${current}` } : headers;
  }

  async function get(path, query = {}, signal) {
    const headers = await authorized({ Accept: "application/json" });
    signal?.throwIfAborted();
    const aborter = new AbortController();
    const abort = () => aborter.abort(signal?.reason);
    signal?.addEventListener("abort", abort);
    const cancel = environment.after(SLOW_MS, () => aborter.abort(new TypeError("the server does not answer")));
    try {
      return await bodyOf(await fetches(url + withQuery(path, query), { headers, signal: aborter.signal }));
    } finally {
      cancel();
      signal?.removeEventListener("abort", abort);
    }
  }

  // A deployment may have streams and sockets elsewhere. Asked once; without an answer they are taken to be here.
  function addresses() {
    found ??= get("/healthz").catch(() => {
      found = null;
      return {};
    });
    return found.then(({ stream_url: stream = url, socket_url: socket }) => ({
      stream: streamUrl ?? stream,
      socket: socketUrl ?? socket ?? `${url.replace(/^http/, "ws")}/v1/socket`,
    }));
  }

  return {
    /** Return the JSON of a resource. Rejects with an ApiError, or a TypeError when there was no answer. */
    get,

    /** Send a command once. Rejects with an ApiError when it was refused, an UnsettledError when there was no answer. */
    async send(command) {
      const { method, path, headers, body } = requestOf(command);
      const given = await authorized(headers);
      try {
        return await bodyOf(await fetches(url + path, { method, headers: given, body }));
      } catch (error) {
        if (error instanceof ApiError && error.status < 500) throw error;
        throw new UnsettledError(command, error);
      }
    },

    /** Return where the WebSocket is, with a ticket that opens it once. */
    async socketAddress() {
      const headers = await authorized({ Accept: "application/json" });
      const { ticket } = await bodyOf(await fetches(`${url}/v1/socket-tickets`, { method: "POST", headers }));
      return `${(await addresses()).socket}?ticket=${encodeURIComponent(ticket)}`;
    },

    /**
     * Follow the events of a session from a cursor until `signal` aborts; returns when the server ends the stream.
     *
     * Where nothing can be streamed, pages are asked for, which wait for their first event. `onOpen()`: the server answers;
     * `onHeard()`: it still does, whatever it says; `onEvents(events, cursor, whole)`: `whole` says that nothing is missing before them.
     */
    async follow(sessionId, { cursor, signal, onOpen, onHeard, onEvents }) {
      const path = `/v1/sessions/${segment(sessionId)}/events`;
      const headers = await authorized({ Accept: "text/event-stream" });
      const { stream } = await addresses();
      const response = await fetches(stream + withQuery(path, { after: cursor() }), { headers, signal, cache: "no-store" });
      if (response.ok && response.headers.get("content-type")?.startsWith("text/event-stream")) {
        onOpen();
        await readStream(response, onHeard, onEvents);
        return;
      }
      const refused = response.ok ? null : await errorOf(response);
      if (refused !== null && (refused.code !== "invalid_request" || refused.status !== 400)) throw refused;
      for (let wait = 0; ; wait = WAIT_SECONDS) {
        const page = await get(path, { after: cursor(), limit: PAGE, wait_seconds: wait }, signal);
        onOpen();
        onHeard();
        onEvents(page.events, page.cursor, true);
      }
    },
  };
}

async function readStream(response, onHeard, onEvents) {
  const take = eventReader();
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    onHeard();
    const events = take(value).map(({ data }) => JSON.parse(data));
    if (events.length) onEvents(events, undefined, false);
  }
}

function withQuery(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

async function bodyOf(response) {
  if (!response.ok) throw await errorOf(response);
  const text = await response.text();
  try {
    return text ? JSON.parse(text) : {};
  } catch (cause) {
    throw new TypeError("the answer was cut off", { cause }); // as bad as a lost connection
  }
}

async function errorOf(response) {
  const text = await response.text();
  try {
    return new ApiError(response.status, JSON.parse(text).error);
  } catch {
    return new ApiError(response.status);
  }
}
