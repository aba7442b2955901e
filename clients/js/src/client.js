// The client: one API, one connection, one object per session.

import { environmentOf } from "./environment.js";
import { streamLink } from "./following.js";
import { httpApi } from "./http.js";
import { createSession } from "./session.js";
import { socketLink } from "./socket.js";

const IDLE_MS = 5 * 60 * 1000;
const TRIES = 2; // of a socket that has never opened, before the client does without

/**
 * Return a client of a Perdure server.
 *
 * @param {object} settings
 * @param {string} settings.url Address of the API, without a slash at its end.
 * @param {string} [settings.token] Sent as a bearer token; `getToken()` instead, when it changes.
 * @param {"auto" | "socket" | "stream"} [settings.transport] `auto`: a WebSocket, or event streams where there is none.
 * @param {string} [settings.socketUrl] Address of the WebSocket; by default what `/healthz` names, or `/v1/socket` at `url`.
 * @param {string} [settings.streamUrl] Address of the event streams; by default what `/healthz` names, or `url`.
 * @param {number} [settings.idleMs] How long a session without subscribers is followed on, 5 minutes by default.
 * @param {string} [settings.agent] The agent of sessions that begin here.
 */
export function createClient(settings) {
  const { url, transport = "auto", idleMs = IDLE_MS, agent } = settings;
  if (typeof url !== "string") throw new TypeError("createClient needs the `url` of the API, such as https://api.example.com");
  const { WebSocket = globalThis.WebSocket } = settings;
  const base = url.replace(/\/+$/, "");
  const environment = environmentOf(settings.environment);
  const api = httpApi({ ...settings, url: base, environment });
  const sessions = new Map();
  const idle = new Map(); // by session id: how not to collect it
  let socket = transport !== "stream" && WebSocket ? newSocket() : null;
  if (transport === "socket" && socket === null) throw new TypeError("there is no WebSocket here: give one, or use the transport `stream`");

  function newSocket() {
    let opened = false;
    return socketLink({
      api,
      WebSocket,
      environment,
      onChange({ status, attempt }) {
        opened ||= status === "open";
        if (!opened && transport === "auto" && (status === "denied" || attempt >= TRIES)) doWithout();
      },
    });
  }

  function doWithout() {
    if (socket === null) return;
    socket = null;
    for (const session of sessions.values()) session.relink();
  }

  function follow(sessionId, follower) {
    if (socket === null) return streamLink({ api, environment, sessionId, follower });
    const { retryNow, giveUp } = socket;
    const link = socket;
    return { ...link.follow(sessionId, follower), retryNow, giveUp, get state() { return link.state; } };
  }

  // There is a network again: no need to wait for the next try.
  const deaf = environment.whenOnline(() => {
    for (const session of sessions.values()) if (session.connection.status === "waiting") session.retryNow();
  });

  function collect(session) {
    stay(session);
    const forget = () => {
      idle.delete(session.id);
      sessions.delete(session.id);
      session.close();
    };
    idle.set(session.id, environment.after(idleMs, forget, { background: true }));
  }

  function stay({ id }) {
    idle.get(id)?.();
    idle.delete(id);
  }

  return {
    api,

    /**
     * Return the session with this id: the same object for everybody, until nobody has listened for `idleMs`.
     *
     * @param {{initial?: object, agent?: string}} [options] `initial`: the state or snapshot that a server has rendered.
     */
    session(id, { initial, agent: own = agent } = {}) {
      const known = sessions.get(id);
      if (known) {
        if (initial) known.reconcile(initial);
        return known;
      }
      const session = createSession({
        id,
        agent: own,
        initial,
        api,
        follow,
        environment,
        dispatch: (command) => socket?.send(command) ?? api.send(command),
        onActive(active) {
          if (!sessions.has(id)) sessions.set(id, active); // collected meanwhile, and wanted again
          stay(active);
        },
        onIdle: collect,
      });
      sessions.set(id, session);
      collect(session);
      return session;
    },

    /** Whether there is an object of this session. */
    has: (id) => sessions.has(id),

    /** Return a page of your sessions, newest activity first: `{ sessions, next_cursor? }`. */
    list: (query = {}) => api.get("/v1/sessions", query),

    /** Close every session and the connection. */
    close() {
      deaf();
      for (const cancel of idle.values()) cancel();
      idle.clear();
      for (const session of sessions.values()) session.close();
      sessions.clear();
    },
  };
}
