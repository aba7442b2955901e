// A session as a React hook. The same session in two components is one object, followed once.

import { useEffect, useMemo, useSyncExternalStore } from "react";

import { createClient } from "./client.js";

const clients = new Map(); // by address, for those who bring none

/**
 * Return what is shown of a session, with `state`, `actions`, and `retryNow`, `giveUp` and `older` of its connection.
 *
 * @param {object} settings `id`; a `client`, or the `url` of an API that needs no token; `initial`: the state or snapshot that
 *   a server has rendered; `agent`: of a session that begins here. On a server, make a client for each request.
 */
export function useSession({ client: given, url, id, initial, agent }) {
  const client = given ?? clientAt(url);
  const session = useMemo(
    () => client.session(id, { agent, ...(client.has(id) ? {} : { initial }) }),
    [client, id], // what the others are later says nothing about a session that is there
  );
  useEffect(() => {
    if (initial) session.reconcile(initial);
  }, [session, initial]);
  const view = useSyncExternalStore(session.subscribe, session.getView, session.getView);
  return useMemo(() => {
    const { actions, retryNow, giveUp, older } = session;
    return { ...view, state: session.getState(), actions, retryNow, giveUp, older };
  }, [session, view]);
}

function clientAt(url) {
  if (!clients.has(url)) clients.set(url, createClient({ url }));
  return clients.get(url);
}
