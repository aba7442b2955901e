// One WebSocket for all sessions of a client: attaches them, carries their commands, puts frames that came in parts together.

import { frameOf } from "./commands.js";
import { connection } from "./connection.js";
import { ApiError, UnsettledError } from "./http.js";

const PING_MS = 25_000; // proxies cut a silent connection after 30 to 60 s, API Gateway after 10 minutes
const PONG_MS = 10_000;
const ABSENT_MS = 3000; // how often is looked for a session that nobody has written to
const REFUSED_MS = 5000; // how often a session is attached again that the server can't follow now
const ANSWER_MS = 35_000; // API Gateway waits 29 s for an answer: behind that none will come
const LARGEST_FRAME = 32 * 1024; // in bytes, of API Gateway

/**
 * The socket of a client. It connects when the first session attaches, and closes behind the last one.
 *
 * @param {object} settings `api` names the address, with a ticket; `WebSocket` is the class. `onChange(state)`: see `connection.js`.
 */
export function socketLink({ api, WebSocket, environment, onChange }) {
  const attached = new Map(); // by session id: what hears of it
  const expected = new Set(); // sessions whose attachment begins anew: what still comes of the one before is dropped
  const unheard = new Map(); // by session id: how to wait no longer for the answer to its attachment
  const waiting = new Map(); // by request id: commands without an answer
  const looking = new Map(); // by session id: how to stop looking for one that is not there yet
  let socket = null;
  let requests = 0;

  const link = connection({ open, environment, onChange: changed });

  function changed(state) {
    onChange?.(state);
    for (const follower of attached.values()) follower.onConnection(state);
  }

  function open({ opened, lost, denied }) {
    let current = null;
    let cancelPing = null;
    let cancelPong = null;
    let closed = false;
    const parts = partReader();

    api.socketAddress().then((address) => closed || connect(address), failed);

    function failed(error) {
      const refused = error instanceof ApiError && !error.retryable;
      (refused ? denied : lost)(error);
    }

    function connect(address) {
      current = new WebSocket(address);
      current.onopen = () => {
        socket = current;
        opened();
        for (const sessionId of attached.keys()) attach(sessionId);
        ping();
      };
      current.onmessage = ({ data }) => {
        cancelPong?.();
        cancelPong = null;
        const frame = parts(JSON.parse(data));
        if (frame && frame.type === undefined) lost(new TypeError(frame.message)); // of API Gateway: a frame was lost, it says not which
        else if (frame) take(frame, { lost, denied });
      };
      current.onclose = () => closed || lost(new TypeError("the connection was closed"));
      current.onerror = () => {}; // a close follows
    }

    function ping() {
      cancelPing = environment.after(PING_MS, () => {
        tell({ type: "ping" });
        cancelPong ??= environment.after(PONG_MS, () => lost(new TypeError("the server no longer answers")));
        ping();
      });
    }

    return function close() {
      closed = true;
      cancelPing?.();
      cancelPong?.();
      if (socket === current) socket = null;
      current?.close();
      for (const id of [...unheard.keys()]) heard(id);
      for (const id of [...waiting.keys()]) unanswered(id);
    };
  }

  function take(frame, end) {
    const follower = attached.get(frame.session_id);
    switch (frame.type) {
      case "attached":
        expected.delete(frame.session_id);
        heard(frame.session_id);
        found(frame.session_id);
        return follower?.onAttached();
      case "snapshot":
        return follower?.onSnapshot(frame.snapshot);
      case "events":
        return expected.has(frame.session_id) ? undefined : follower?.onEvents(frame.events, frame.cursor, false);
      case "resync_required":
        return undefined; // its snapshot follows
      case "access_denied":
        return refuse(frame, end);
      case "ack":
        return answer(frame);
      case "error":
        if (frame.request_id !== undefined) answer({ ...frame, status: 400, body: { error: frame } });
        else if (follower !== undefined) unattached(frame, follower, end);
        return undefined;
      default:
        return undefined; // a pong, or what a newer server says
    }
  }

  // When its token has ended a connection ends as a whole: the next ticket is asked for with the token of then.
  function refuse({ session_id: sessionId, code, message }, { lost, denied }) {
    const error = new ApiError(code === "unauthorized" ? 401 : 403, { code, message, retryable: false });
    if (code === "unauthorized") return lost(error);
    if (sessionId === undefined) return denied(error);
    return attached.get(sessionId)?.onDenied(error);
  }

  function answered(id) {
    const asked = waiting.get(id);
    waiting.delete(id);
    asked?.cancel();
    return asked;
  }

  function unanswered(id) {
    const { command, reject } = answered(id);
    reject(new UnsettledError(command));
  }

  function answer({ request_id: id, status, body }) {
    const asked = answered(id);
    if (asked === undefined) return;
    if (status < 400) {
      lookAgain(asked.command.session_id);
      asked.resolve(body ?? {});
    } else if (status >= 500) asked.reject(new UnsettledError(asked.command, new ApiError(status, body?.error)));
    else asked.reject(new ApiError(status, body?.error));
  }

  // Behind an error nothing comes of a session, so nobody may go on waiting for it.
  function unattached({ session_id: sessionId, ...error }, follower, { lost }) {
    heard(sessionId);
    if (error.code === "unauthorized") return lost(new ApiError(401, error));
    if (error.code === "invalid_cursor") return void follower.onCursorRefused();
    if (error.code === "session_not_found" && follower.onAbsent) return absent(sessionId, follower);
    if (error.code !== "store_unavailable") return follower.onDenied(new ApiError(400, error));
    environment.after(REFUSED_MS, () => attached.get(sessionId) === follower && attach(sessionId));
    return undefined;
  }

  function absent(sessionId, follower) {
    if (follower.exists() !== false) follower.onAbsent(); // it was purged, or is not known yet
    lookFor(sessionId, follower, { told: true });
  }

  function attach(sessionId) {
    const follower = attached.get(sessionId);
    const after = follower.cursor();
    expected.add(sessionId);
    heard(sessionId);
    unheard.set(sessionId, environment.after(ANSWER_MS, () => attach(sessionId)));
    tell({ type: "attach", session_id: sessionId, ...(after !== null && { after }) });
    if (follower.exists?.() === false) lookFor(sessionId, follower);
    else found(sessionId);
  }

  function heard(sessionId) {
    unheard.get(sessionId)?.();
    unheard.delete(sessionId);
  }

  // A session begins with its first message. Whoever sends that here attaches at once; one that begins elsewhere is looked for:
  // by attaching, and by reading it where the server says nothing of the attempt before.
  function lookFor(sessionId, follower, { told = false } = {}) {
    found(sessionId);
    const again = () => {
      looking.delete(sessionId);
      if (attached.get(sessionId) !== follower || socket === null) return;
      if (!told) follower.onAbsent();
      attach(sessionId);
    };
    looking.set(sessionId, environment.after(ABSENT_MS, again));
  }

  function found(sessionId) {
    looking.get(sessionId)?.();
    looking.delete(sessionId);
  }

  const lookAgain = (sessionId) => socket && looking.has(sessionId) && attached.has(sessionId) && attach(sessionId);

  function tell(frame) {
    socket?.send(JSON.stringify(frame));
  }

  return {
    get state() {
      return link.state;
    },
    retryNow: link.retryNow,
    giveUp: link.giveUp,

    /**
     * Follow a session: `{ cursor(), onAttached(), onSnapshot(snapshot), onEvents(events, cursor, whole), onDenied(error),
     * onConnection(state) }`, and of one that may not have begun `exists()` (undefined: not known yet) and `onAbsent()`, which looks
     * whether it is there by now. Returns how to follow it no longer, how to begin again at its cursor, and how to say that it
     * has `begun`.
     */
    follow(sessionId, follower) {
      attached.set(sessionId, follower);
      if (link.state.status === "open") attach(sessionId);
      else link.start();
      const restart = () => socket && attached.has(sessionId) && attach(sessionId);
      return {
        restart,
        begun: () => lookAgain(sessionId),
        close() {
          if (attached.get(sessionId) !== follower) return;
          found(sessionId);
          heard(sessionId);
          attached.delete(sessionId);
          tell({ type: "detach", session_id: sessionId });
          if (attached.size === 0) link.close();
        },
      };
    },

    /** Send a command; null when it can't go this way now: there is no connection, or it is too large for a frame. */
    send(command) {
      const requestId = String((requests += 1));
      const text = JSON.stringify(frameOf(command, requestId));
      if (socket === null || new TextEncoder().encode(text).length > LARGEST_FRAME) return null;
      return new Promise((resolve, reject) => {
        const cancel = environment.after(ANSWER_MS, () => unanswered(requestId));
        waiting.set(requestId, { command, resolve, reject, cancel });
        socket.send(text);
      });
    },
  };
}

/** Return `take(frame)`, which returns a frame that is whole, or null while parts of it are missing. */
export function partReader() {
  const begun = new Map();
  return function take(frame) {
    if (frame.type !== "part") return frame;
    const { part_id: id, index, count, data } = frame;
    const pieces = begun.get(id) ?? new Array(count).fill(null);
    pieces[index] = data;
    if (pieces.includes(null)) {
      begun.set(id, pieces);
      return null;
    }
    begun.delete(id);
    return JSON.parse(pieces.join(""));
  };
}
