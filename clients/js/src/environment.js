// What the client takes from where it runs, so that tests can give it something else.

/**
 * Return `given` with what is missing: `now()` in milliseconds, `after(ms, run)` that returns how to cancel it,
 * `random()` from 0 to 1, and `newKey()` for idempotency keys that nobody else makes.
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
    newKey: () => globalThis.crypto.randomUUID(),
    ...given,
  };
}
