// The events of one session by requests that wait: for an API that takes its token in a header, which no EventSource sends.

import { ApiError, get, pause } from "./api.js";

const WAIT_SECONDS = 20; // the longest that the API waits
const AGAIN_MS = [500, 1000, 2000, 5000];

/** Follow a session, as `follow` of `stream.js` does. Nothing is lost between two requests: each goes on at the cursor. */
export function poll(path, { cursor, onEvent, onStatus }) {
  const leaving = new AbortController();
  const closed = () => leaving.signal.aborted;

  async function run() {
    let failures = 0;
    let online = null;
    const tell = (now) => {
      if (now !== online && !closed()) onStatus((online = now));
    };
    while (!closed()) {
      try {
        const wait = online ? WAIT_SECONDS : 0; // the first answer tells that it works
        const page = await get(path, { after: cursor(), wait_seconds: wait }, { signal: leaving.signal });
        failures = 0;
        tell(true);
        for (const event of page.events) if (!closed()) onEvent(event);
      } catch (error) {
        if (closed()) return;
        tell(false);
        if (error instanceof ApiError && error.status === 401) return; // another token opens the session anew
        await pause(AGAIN_MS[Math.min(failures, AGAIN_MS.length - 1)]);
        failures += 1;
      }
    }
  }

  run();
  return { close: () => leaving.abort() };
}
