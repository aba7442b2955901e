// A server in a few lines, over `fetch` and over a WebSocket, and a clock that a test moves. What the server knows is a
// recorded case: it has told the first `told` events of it, and forgets the live ones of a step that has been stored.

const SESSION = "/v1/sessions/s-1";

/** Time that stands still until `pass(ms)`. */
export function fakeTime() {
  let now = 0;
  let timers = [];
  let keys = 0;
  const online = new Set();
  return {
    whenOnline: (run) => (online.add(run), () => online.delete(run)),
    get heardBy() {
      return online.size;
    },
    isOnline: () => online.forEach((run) => run()),
    now: () => now,
    random: () => 0,
    newKey: () => `key-${(keys += 1)}`,
    after(ms, run) {
      const timer = { at: now + ms, run };
      timers.push(timer);
      return () => {
        timers = timers.filter((other) => other !== timer);
      };
    },
    async pass(ms) {
      const until = now + ms;
      await settled();
      for (let next = due(until); next; next = due(until)) {
        timers = timers.filter((other) => other !== next);
        now = Math.max(now, next.at);
        next.run();
        await settled();
      }
      now = until;
    },
  };

  function due(until) {
    return timers.filter(({ at }) => at <= until).sort((one, other) => one.at - other.at)[0];
  }
}

/** Let everything that is ready happen. */
export async function settled() {
  for (let turn = 0; turn < 30; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

export function fakeServer(recorded = { actions: [] }) {
  const events = recorded.actions.filter(({ type }) => type === "event").map(({ event }) => event);
  const snapshots = recorded.actions.filter(({ type }) => type === "snapshot").map(({ snapshot }) => snapshot);
  const streams = new Set();
  const server = {
    told: 0,
    up: true,
    sockets: [],
    requests: [],
    tickets: true,
    answer: () => ({ status: 200, body: { result: "recorded" } }),
    snapshot: () => snapshots.findLast(({ state }) => (state?.version ?? 0) <= versionOf(server.told)) ?? snapshots[0] ?? empty(),
    fetch,
    WebSocket: socketClass(),

    /** Tell the next events. */
    tell(count = 1) {
      for (let left = count; left > 0 && server.told < events.length; left -= 1) {
        server.told += 1;
        for (const stream of [...streams]) stream.push([events[server.told - 1]]);
      }
    },

    /** Say nothing to every stream but that the server is there. */
    whisper() {
      for (const stream of [...streams]) stream.push([]);
    },

    /** End every connection. */
    cut() {
      for (const stream of [...streams]) stream.end();
    },
    get watched() {
      return streams.size;
    },
    count: events.length,
  };
  return server;

  function versionOf(count) {
    return Math.max(0, ...events.slice(0, count).map(({ version }) => version ?? 0));
  }

  // What a viewer gets that stands at a cursor: live events only of steps that still run.
  function after(cursor) {
    const behind = /^c(\d+)\.$/.exec(cursor); // a snapshot's cursor
    const at = behind ? events.findLastIndex(({ version }) => version <= Number(behind[1])) : events.findIndex((event) => event.cursor === cursor);
    const ended = new Set(events.slice(0, server.told).filter(isEnd).map(({ step_execution_id: step }) => step));
    return events.slice(at + 1, server.told).filter((event) => event.sequence !== undefined || !ended.has(event.step_execution_id));
  }

  function follow(cursor, push, end) {
    const stream = { push, end: () => (streams.delete(stream), end()) };
    streams.add(stream);
    return { backlog: after(cursor), leave: () => streams.delete(stream) };
  }

  async function fetch(url, { method = "GET", headers = {}, body, signal } = {}) {
    const { pathname, searchParams } = new URL(url);
    const request = { method, path: pathname, headers, body: body && JSON.parse(body), query: Object.fromEntries(searchParams) };
    server.requests.push(request);
    if (!server.up) throw new TypeError("fetch failed");
    const aborted = new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
    aborted.catch(() => {}); // whoever waits for it hears of it
    if (method === "GET" && pathname === SESSION) return json(200, await Promise.race([server.snapshot(), aborted]));
    if (method === "GET" && pathname === `${SESSION}/events`) return stream(searchParams.get("after"), signal);
    const started = events.findIndex(({ type, turn_id: id }) => type === "turn_started" && pathname === `${SESSION}/turns/${id}`);
    if (started >= 0) return json(200, { cursor: events[started - 1]?.cursor ?? "c0" });
    if (method === "GET") return json(404, { error: { code: "not_found", message: "there is no such thing", retryable: false } });
    if (pathname === "/v1/socket-tickets") {
      return server.tickets ? json(200, { ticket: "t-1" }) : json(404, { error: { code: "not_found", message: "no sockets", retryable: false } });
    }
    const { status, body: reply } = await server.answer(request);
    return json(status, reply);
  }

  function stream(cursor, signal) {
    const encoder = new TextEncoder();
    let followed;
    const body = new ReadableStream({
      start(controller) {
        const send = (list) => controller.enqueue(encoder.encode(list.map(frame).join("") || ": keep-alive\n\n"));
        followed = follow(cursor, send, () => controller.error(new TypeError("terminated")));
        send(followed.backlog);
        signal?.addEventListener("abort", () => {
          followed.leave();
          try {
            controller.error(new DOMException("aborted", "AbortError"));
          } catch {} // it had ended
        });
      },
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  }

  function socketClass() {
    return class {
      constructor(address) {
        this.address = address;
        this.sent = [];
        this.followed = null;
        server.sockets.push(this);
        setImmediate(() => (server.up ? this.onopen() : this.onclose()));
      }

      async send(text) {
        const given = JSON.parse(text);
        this.sent.push(given);
        if (given.type === "ping" && !server.deaf) this.say({ type: "pong" });
        if (given.type === "attach" && !server.dumb) this.attach(given);
        if (given.type === "detach") this.followed?.leave();
        if (given.type === "command") {
          const { status, body } = await server.answer(given);
          this.say({ type: "ack", request_id: given.request_id, status, body });
        }
      }

      attach({ session_id: id, after: cursor }) {
        this.followed?.leave();
        this.say({ type: "attached", session_id: id, cursor });
        this.followed = follow(cursor, (list) => this.tell(id, list), () => this.onclose());
        if (this.followed.backlog.length) this.tell(id, this.followed.backlog);
      }

      tell(id, list) {
        this.say({ type: "events", session_id: id, events: list, cursor: list.at(-1).cursor });
      }

      // Everything comes in parts, out of which the client makes frames again.
      say(told) {
        const data = JSON.stringify(told);
        const half = Math.ceil(data.length / 2);
        const part = (index) => ({ type: "part", part_id: String(Math.random()), index, count: 2, data: "" });
        const one = { ...part(0), data: data.slice(0, half) };
        setImmediate(() => {
          this.onmessage?.({ data: JSON.stringify(one) });
          this.onmessage?.({ data: JSON.stringify({ ...one, index: 1, data: data.slice(half) }) });
        });
      }

      close() {
        this.followed?.leave();
        this.closed = true;
      }
    };
  }
}

function isEnd({ type, sequence }) {
  return sequence !== undefined && (type === "model_finished" || type === "tool_call_finished");
}

function frame(event) {
  return `id: ${event.cursor}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

function json(status, body) {
  return new Response(JSON.stringify(body), { status, headers: { "content-type": "application/json" } });
}

function empty() {
  return { session_id: "s-1", agent: null, state: null, messages: [], tool_calls: [], pending_interrupts: [], inbox: [], settings: {}, cursor: "c0" };
}
