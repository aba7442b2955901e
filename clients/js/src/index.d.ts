import type { Command, Grant, MessageOptions, Place } from "./commands.js";
import type { Delivery, InboxEntry, JsonObject, Receipt, Snapshot, State, View } from "./pure.js";

export * from "./pure.js";
export * as commands from "./commands.js";
export { checkCommand } from "./schema.js";

export interface Connection {
  status: "idle" | "connecting" | "open" | "waiting" | "denied" | "given_up" | "closed";
  attempt: number;
  /** When the next try is, in milliseconds since 1970; null: none is planned. */
  retryAt: number | null;
  error: Error | null;
}

/** Resolves when the server has stored it; `confirmed` when the stream has returned it. */
export interface Pending<Reply> extends Promise<Reply> {
  confirmed: Promise<void>;
}

/** `idempotencyKey`: a new one if left out. The same one again counts once. */
export interface ActionOptions {
  idempotencyKey?: string;
}

type Said = ActionOptions & { message?: string };

export interface Actions {
  send(text: string, options?: ActionOptions & MessageOptions & { waits?: boolean }): Pending<Receipt>;
  forget(messageId: string): void;
  approve(interruptId?: string, options?: Said & { arguments?: JsonObject; grant?: Grant }): Pending<{ result: string }>;
  reject(interruptId?: string, options?: Said): Pending<{ result: string }>;
  answer(interruptId: string, text: string, options?: Said): Pending<{ result: string }>;
  give(interruptId: string, value: unknown, options?: Said): Pending<{ result: string }>;
  decline(interruptId: string, options?: Said): Pending<{ result: string }>;
  stop(options?: ActionOptions & { turnId?: string; frontier?: string; partials?: JsonObject; disposition?: "keep" | "discard" }): Pending<{ result: string }>;
  retry(options?: ActionOptions): Pending<{ result: string; turn_id?: string }>;
  pause(options?: ActionOptions): Pending<{ result: string }>;
  resume(options?: ActionOptions): Pending<{ result: string }>;
  rename(title: string, options?: ActionOptions): Pending<{ result: string }>;
  edit(messageId: string, text: string, options?: ActionOptions): Pending<{ result: string }>;
  move(messageId: string, place: Place, options?: ActionOptions): Pending<{ result: string }>;
  remove(messageId: string, options?: ActionOptions): Pending<Partial<InboxEntry>>;
  deliver(messageId: string, delivery: Delivery, options?: ActionOptions): Pending<JsonObject>;
  push(command: Command): Pending<JsonObject>;
}

export interface Session {
  readonly id: string;
  readonly actions: Actions;
  readonly connection: Connection;
  readonly subscribed: boolean;
  getState(): State;
  getView(): SessionView;
  subscribe(listener: () => void): () => void;
  open(): void;
  close(): void;
  reconcile(rendered: State | Snapshot): void;
  retryNow(): void;
  giveUp(): void;
  older(): Promise<boolean>;
}

export interface SessionView extends View {
  connection: Connection;
}

export interface SessionSummaries {
  sessions: JsonObject[];
  next_cursor?: string;
}

export interface Client {
  session(id: string, options?: { initial?: State | Snapshot; agent?: string }): Session;
  has(id: string): boolean;
  list(query?: { [name: string]: string | number }): Promise<SessionSummaries>;
  close(): void;
}

export interface ClientSettings {
  url: string;
  token?: string;
  getToken?: () => string | null | Promise<string | null>;
  transport?: "auto" | "socket" | "stream";
  socketUrl?: string;
  streamUrl?: string;
  /** How long a session without subscribers is followed on, in milliseconds; 5 minutes by default. */
  idleMs?: number;
  agent?: string;
  fetch?: typeof fetch;
  WebSocket?: unknown;
  environment?: Partial<Environment>;
}

export interface Environment {
  now(): number;
  after(ms: number, run: () => void, options?: { background?: boolean }): () => void;
  random(): number;
  newKey(): string;
  whenOnline(run: () => void): () => void;
}

export function createClient(settings: ClientSettings): Client;

/** Return the whole seconds until the next try, for a countdown; null: none is planned. */
export function secondsLeft(connection: Pick<Connection, "retryAt">, now?: number): number | null;

/** What the server answered instead of a result. `retryable`: the same request may succeed later. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly retryable: boolean;
}

/** A command got no answer: nobody knows whether it was carried out. */
export class UnsettledError extends Error {
  readonly command: Command;
  readonly idempotencyKey: string;
  /** Send the same command with the same key: it counts once. Absent on commands that were sent by `client.api`. */
  resend(): Pending<JsonObject>;
}
