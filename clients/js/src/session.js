// One session as a page holds it: its state, what follows the server, who is told of changes.

import { actionsOf } from "./actions.js";
import { connection } from "./connection.js";
import { ApiError } from "./http.js";
import { initialState, reduce } from "./reducer.js";
import { segment } from "./commands.js";
import { viewOf } from "./view.js";

const REFRESH_AGAIN_MS = 1000;
const OLDER = 50;

const exists = ({ snapshot }) => Boolean(snapshot?.state);

/**
 * Make a session's object. Nothing is asked of the server before someone subscribes, opens it or acts.
 *
 * @param {object} settings `follow(id, follower)` begins to follow (`socket.js`); `dispatch(command)` sends a command;
 *   `onActive(session)`, `onIdle(session)`: it has a subscriber, or none any more.
 */
export function createSession({ id, agent, initial, api, follow, dispatch, environment, onActive, onIdle }) {
  let state = initialState(id);
  let view = null;
  let denied = null; // why the server refuses to tell of it
  let link = null; // how it is followed, once it is loaded
  let restarting = false; // the stream begins anew: what still comes of the old one is dropped
  let lastGap = null;
  let fetching = null; // the snapshot that is on its way
  let wanted = false; // a newer one is wanted
  let fetches = 0; // snapshots that were asked for so far
  const listeners = new Set();
  const unconfirmed = new Set();
  const unread = new Set(); // what is stored, and waits for a snapshot that knows of it
  const loading = connection({ open: load, environment, onChange: notify });
  const path = `/v1/sessions/${segment(id)}`;

  function notify() {
    view = null;
    for (const listener of [...listeners]) listener();
  }

  function apply(action) {
    const before = state;
    state = reduce(state, action);
    if (state === before) return;
    if (exists(state) && !exists(before)) link?.begun?.();
    for (const item of [...unconfirmed]) if (item.by?.(state)) settle(item);
    notify();
  }

  function settle(item) {
    unconfirmed.delete(item);
    item.resolve();
  }

  // --- reading ----------------------------------------------------------------------------------

  function load({ opened, lost, denied }) {
    read().then(
      () => {
        opened();
        link ??= follow(id, follower);
      },
      (error) => (error instanceof ApiError && !error.retryable ? denied : lost)(error),
    );
    return () => {};
  }

  // A stream that begins at the start of the running turn tells all that is known of it.
  async function read() {
    if (state.cursor !== null) return; // a server has rendered it: the stream goes on from there
    const snapshot = await api.get(path);
    const turnId = snapshot.state?.turn_id;
    const turn = turnId ? await api.get(`${path}/turns/${segment(turnId)}`).catch(() => null) : null;
    apply({ type: "snapshot", snapshot, restart: true, ...(turn && { from: turn.cursor }) });
  }

  // One request at a time; a change that comes meanwhile asks for one more. Resolves when the state is up to date.
  function refresh() {
    wanted = true;
    fetching ??= fetchSnapshots().finally(() => {
      fetching = null;
    });
    return fetching;
  }

  async function fetchSnapshots() {
    while (wanted && loading.state.status !== "closed") {
      wanted = false;
      const number = (fetches += 1);
      const asOf = state.sequence ?? 0;
      try {
        apply({ type: "snapshot", snapshot: await api.get(path), asOf });
        for (const item of [...unconfirmed]) if (item.after < number) settle(item);
        for (const item of [...unread]) if (item.after < number && unread.delete(item)) item.read();
      } catch (error) {
        if (error instanceof ApiError && !error.retryable) return;
        wanted = true;
        if (session.connection.status !== "open") return; // the next connection asks for it
        await new Promise((resolve) => environment.after(REFRESH_AGAIN_MS, resolve));
      }
    }
  }

  // Where the stream can't go on, what it would have told is read, and it begins anew behind that.
  async function reload() {
    restarting = true;
    try {
      const snapshot = await api.get(path);
      apply({ type: "snapshot", snapshot, restart: true });
    } catch {
      wanted = true; // what follows finds the same gap, and comes here again
    }
    link?.restart();
  }

  const follower = {
    cursor: () => state.cursor,
    exists: () => exists(state),
    onAbsent: refresh,

    onAttached() {
      restarting = false;
      if (wanted) refresh();
    },

    onEvents(events, cursor, whole) {
      if (restarting) return;
      apply({ type: whole ? "events" : "stream", events, cursor });
      if (state.gap) fill(state.gap);
      else if (events.some(changes)) refresh();
    },

    onSnapshot(snapshot) {
      apply({ type: "snapshot", snapshot, restart: true });
    },

    onCursorRefused: reload,

    onDenied(error) {
      link?.close();
      link = null;
      denied = error;
      notify();
    },

    onConnection() {
      notify();
    },
  };

  // What is missing comes when the stream begins again at the last event that was taken. If not, it is gone.
  function fill(gap) {
    const gone = gap.stepId === undefined && lastGap?.expected === gap.expected;
    lastGap = gap;
    apply({ type: "stream_restarted" });
    if (gone) return void reload();
    restarting = true;
    link?.restart();
    refresh();
  }

  // The snapshot tells what is stored; what a durable event says of it, it may not know yet.
  function changes(event) {
    return event.sequence !== undefined && !(event.version <= (state.snapshot?.state?.version ?? 0));
  }

  // --- what others hold -------------------------------------------------------------------------

  // Until the state shows it (`by`), or a snapshot came that was asked for after the server had stored it (`read()`).
  function waitForConfirmation(by, read) {
    const item = { by, read, after: Infinity };
    item.promise = new Promise((resolve, reject) => Object.assign(item, { resolve, reject }));
    item.promise.catch(() => {}); // whoever does not look at it is not told of its failure
    item.acknowledged = () => {
      item.after = fetches;
      if (read) unread.add(item);
      if (by?.(state)) settle(item);
    };
    item.refused = (error) => {
      unconfirmed.delete(item);
      item.reject(error);
    };
    unconfirmed.add(item);
    return item;
  }

  const session = {
    id,

    /** Return the state: plain JSON, for a reducer or another page. */
    getState: () => state,

    /** Return what is shown (`viewOf`), with `connection`. The same object until something changes. */
    getView() {
      view ??= { ...viewOf(state), connection: session.connection };
      return view;
    },

    /** How it is connected: `{ status, attempt, retryAt, error }`, status `idle`, `connecting`, `open`, `waiting`, … */
    get connection() {
      if (denied) return { status: "denied", attempt: 0, retryAt: null, error: denied };
      return loading.state.status === "open" && link ? link.state : loading.state;
    },

    /** Call `listener` after each change; the session is followed as long as somebody listens. Returns how to stop. */
    subscribe(listener) {
      const own = () => listener(); // the same function may listen twice
      listeners.add(own);
      onActive(session);
      session.open();
      return () => {
        if (listeners.delete(own) && listeners.size === 0) onIdle(session);
      };
    },

    /** Whether somebody listens. */
    get subscribed() {
      return listeners.size > 0;
    },

    /** Begin to follow it. */
    open() {
      loading.start();
    },

    /** Take the state, or the snapshot, that a server has rendered: a beginning, or no news. */
    reconcile(rendered) {
      apply({ type: "initial", ...(rendered.sessionId === undefined ? { snapshot: rendered } : { state: rendered }) });
    },

    /** Try to connect at once. */
    retryNow() {
      if (denied) {
        denied = null;
        link = follow(id, follower);
      } else if (loading.state.status === "open") link?.retryNow();
      else loading.retryNow();
    },

    /** Stop trying to connect. */
    giveUp() {
      if (loading.state.status === "open") link?.giveUp();
      else loading.giveUp();
    },

    /** Follow it another way from now on. */
    relink() {
      if (link === null) return;
      link.close();
      link = follow(id, follower);
    },

    /** Load the messages before the oldest one. Resolves to whether there are more. */
    async older() {
      const before = state.nextBefore;
      if (before === null) return false;
      const page = await api.get(`${path}/messages`, { before, limit: OLDER });
      if (state.nextBefore === before) apply({ type: "older_messages", page });
      return state.nextBefore !== null;
    },

    /** Follow it no longer; what was not confirmed is left open. Subscribing opens it anew. */
    close() {
      loading.close();
      link?.close();
      link = null;
      denied = null;
      for (const item of [...unconfirmed]) item.refused(new Error("the session was closed before the stream confirmed this"));
    },
  };
  session.actions = actionsOf({
    sessionId: id,
    agent,
    getState: () => state,
    apply,
    refresh,
    environment,
    dispatch(command) {
      session.open();
      return dispatch(command);
    },
    waitForConfirmation,
  });
  if (initial) session.reconcile(initial);
  return session;
}
