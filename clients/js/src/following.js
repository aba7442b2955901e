// How a session is followed without a socket: one stream of server-sent events, opened anew after each cut.

import { connection } from "./connection.js";
import { ApiError } from "./http.js";

const SILENCE_MS = 45_000; // a server is never silent for longer than 20 s: behind a network that went away nobody says so

/**
 * Follow a session over HTTP, with a follower as in `socket.js`. Returns `{ restart(), close(), retryNow(), giveUp(), state }`.
 */
export function streamLink({ api, environment, sessionId, follower }) {
  const link = connection({ open, environment, onChange: follower.onConnection });

  function open({ opened, lost, denied }) {
    const aborter = new AbortController();
    const told = { opened: false };
    let cancelSilence = null;

    function heard() {
      cancelSilence?.();
      cancelSilence = environment.after(SILENCE_MS, () => lost(new TypeError("the server no longer answers")));
    }

    heard();

    api
      .follow(sessionId, {
        cursor: follower.cursor,
        signal: aborter.signal,
        onHeard: () => aborter.signal.aborted || heard(),
        onOpen() {
          if (told.opened) return;
          told.opened = true;
          opened();
          follower.onAttached();
        },
        onEvents: (events, cursor, whole) => aborter.signal.aborted || follower.onEvents(events, cursor, whole),
      })
      .then(
        () => lost(null),
        (error) => {
          if (aborter.signal.aborted) return;
          if (error instanceof ApiError && error.code === "invalid_cursor") follower.onCursorRefused();
          else if (error instanceof ApiError && !error.retryable) denied(error);
          else lost(error);
        },
      );
    return () => {
      cancelSilence();
      aborter.abort();
    };
  }

  link.start();
  return {
    get state() {
      return link.state;
    },
    retryNow: link.retryNow,
    giveUp: link.giveUp,
    restart: () => link.drop(null),
    close: link.close,
  };
}
