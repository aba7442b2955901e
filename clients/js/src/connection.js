// One connection that is kept open: connects, and again after a cut, later each time. Says when, so that a page can count
// down, let its user try now, or give up.

const FIRST_MS = 500;
const LONGEST_MS = 30_000;
const STEADY_MS = 10_000; // a connection that ends sooner was no good: the delays go on growing

/**
 * Keep something open.
 *
 * @param {object} settings `open({ opened, lost, denied })` begins to connect and returns how to close; it calls
 *   `opened()` once it hears the server, `lost(error)` when that ends, `denied(error)` when there is no use in trying again.
 *   `environment`: see `environment.js`. `onChange(state)`: after each change.
 */
export function connection({ open, environment, onChange = () => {} }) {
  let state = { status: "idle", attempt: 0, retryAt: null, error: null };
  let close = null;
  let cancel = null;
  let failures = 0; // in a row
  let openedAt = 0;
  let generation = 0; // what an earlier try still says is of no interest

  function become(change) {
    state = { ...state, ...change };
    onChange(state);
  }

  function end() {
    generation += 1;
    cancel?.();
    cancel = null;
    close?.();
    close = null;
  }

  function connect() {
    end();
    const mine = generation;
    const current = (run) => (value) => mine === generation && run(value);
    become({ status: "connecting", retryAt: null });
    const closing = open({ opened: current(opened), lost: current(lost), denied: current(denied) });
    if (mine === generation) close = closing;
    else closing?.();
  }

  function opened() {
    openedAt = environment.now();
    become({ status: "open", attempt: 0, error: null });
  }

  // The delay doubles from half a second; its second half is random, so that many pages don't come back at once.
  function lost(error = null) {
    end();
    if (state.status === "open" && environment.now() - openedAt >= STEADY_MS) failures = 0;
    const full = Math.min(FIRST_MS * 2 ** failures, LONGEST_MS);
    failures += 1;
    const delay = Math.round(full / 2 + (environment.random() * full) / 2);
    cancel = environment.after(delay, connect);
    become({ status: "waiting", attempt: failures, retryAt: environment.now() + delay, error });
  }

  function denied(error) {
    end();
    become({ status: "denied", retryAt: null, error });
  }

  return {
    get state() {
      return state;
    },

    /** Connect, unless it is open or about to be. */
    start() {
      if (state.status === "idle" || state.status === "closed") connect();
    },

    /** Try again at once, also after it gave up or was refused. Without effect while it is open or connecting. */
    retryNow() {
      if (state.status !== "open" && state.status !== "connecting" && state.status !== "closed") connect();
    },

    /** Stop trying. What runs on the server goes on. */
    giveUp() {
      if (state.status === "closed") return;
      end();
      become({ status: "given_up", retryAt: null });
    },

    /** Let it end as if it had been cut, and come back as after a cut. */
    drop: lost,

    /** Close for good; `start` opens it anew. */
    close() {
      end();
      failures = 0;
      become({ status: "closed", attempt: 0, retryAt: null, error: null });
    },
  };
}

/** Return the whole seconds until the next try, for a countdown; null: none is planned. */
export function secondsLeft({ retryAt }, now = Date.now()) {
  return retryAt === null ? null : Math.max(0, Math.ceil((retryAt - now) / 1000));
}
