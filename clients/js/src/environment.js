// What the client takes from where it runs, so that tests can give it something else.

/**
 * Return `given` with what is missing: `now()` in milliseconds, `after(ms, run)` that returns how to cancel it,
 * `random()` from 0 to 1, `newKey()` for idempotency keys that nobody else makes, and `whenOnline(run)`, which returns how to
 * hear no longer that there is a network again.
 */
export function environmentOf(given = {}) {
  return {
    now: () => Date.now(),
    after(ms, run, { background = false } = {}) {
      const timer = setTimeout(run, ms);
      if (background) timer.unref?.(); // a server that has rendered a page need not wait for it
      return () => clearTimeout(timer);
    },
    random: () => Math.random(),
    whenOnline(run) {
      globalThis.addEventListener?.("online", run);
      return () => globalThis.removeEventListener?.("online", run);
    },
    newKey: () => globalThis.crypto.randomUUID(),
    ...given,
  };
}
