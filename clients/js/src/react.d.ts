import type { Actions, Client, SessionView } from "./index.js";
import type { Snapshot, State } from "./pure.js";

export interface UseSessionSettings {
  id: string;
  /** A client, or the address of an API that needs no token. */
  client?: Client;
  url?: string;
  initial?: State | Snapshot;
  agent?: string;
}

export interface SessionHook extends SessionView {
  state: State;
  actions: Actions;
  retryNow(): void;
  giveUp(): void;
  older(): Promise<boolean>;
}

export function useSession(settings: UseSessionSettings): SessionHook;
