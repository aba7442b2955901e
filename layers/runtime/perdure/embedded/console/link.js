// How the page follows a session: an event stream, where its API has one, requests that wait, or the WebSocket it was given.

import { environmentOf } from "../client/environment.js";
import { streamLink } from "../client/following.js";
import { httpApi } from "../client/http.js";
import { socketLink } from "../client/socket.js";
import { CONFIG, bearer } from "./config.js";
import { newId } from "./ids.js";

const environment = environmentOf({ newKey: newId });

// Both addresses are told here: the page may talk to no others, whatever the API says of itself.
const api = httpApi({
  url: CONFIG.api,
  environment,
  streamUrl: CONFIG.stream || CONFIG.api,
  socketUrl: CONFIG.socket || undefined,
  getToken: bearer,
});

let socket = null; // one for all sessions, once there is one to follow

/**
 * Follow a session, with a follower as in `client/socket.js`. Returns `{ close(), restart(), retryNow(), giveUp(), state }`,
 * and over a socket `begun()`, to say that a session that nobody had written to is there.
 */
export function linkTo(sessionId, follower) {
  if (!CONFIG.socket) return streamLink({ api, environment, sessionId, follower });
  socket ??= socketLink({ api, WebSocket, environment });
  const { retryNow, giveUp } = socket;
  return { ...socket.follow(sessionId, follower), retryNow, giveUp, get state() { return socket.state; } };
}
