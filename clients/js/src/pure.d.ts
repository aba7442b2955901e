import type { Delivery, InboxEntry, Interrupt, JsonObject, Message, MessagePage, Part, SessionEvent, SessionStatus, Snapshot, ToolCall, TurnError, WaitingFor } from "./wire.js";

export type * from "./wire.js";

/** A state is plain JSON; what is in it besides these is the reducer's own. */
export interface State {
  sessionId: string;
  snapshot: Omit<Snapshot, "messages" | "next_before"> | null;
  messages: Message[];
  nextBefore: string | null;
  sequence: number | null;
  cursor: string | null;
  gap: { expected: number; got: number; stepId?: string; attempt?: number } | null;
  [name: string]: unknown;
}

export type Action =
  | { type: "event"; event: SessionEvent }
  | { type: "stream" | "events"; events: SessionEvent[]; cursor?: string }
  | { type: "snapshot"; snapshot: Snapshot; asOf?: number; restart?: boolean; from?: string }
  | { type: "messages"; messages: Message[] }
  | { type: "older_messages"; page: MessagePage }
  | { type: "initial"; state: State; snapshot?: undefined }
  | { type: "initial"; snapshot: Snapshot; state?: undefined }
  | { type: "stream_restarted" }
  | { type: "send"; messageId: string; text: string; delivery?: Delivery | null; waits?: boolean }
  | { type: "send_delayed"; messageId: string; problem: string }
  | { type: "send_answered" | "send_refused"; messageId: string }
  | { type: "decide"; interruptId: string; decision: Decision }
  | { type: "decide_answered"; interruptId: string }
  | { type: "stop"; turnId: string; partials?: JsonObject }
  | { type: "stop_refused"; turnId: string }
  | { type: "begin"; key: string; id: string; what: JsonObject }
  | { type: "end"; key: string; id: string };

export type Decision = boolean | "answered" | "declined";

/** A message, stored or not yet. `key` is the same before and after it is stored. */
export interface ShownMessage {
  key: string;
  origin: "stored" | "live" | "finished" | "sending";
  role: Message["role"];
  parts: Part[];
  message_id?: string;
  turn_id?: string;
  sequence?: number;
  created_at?: string;
  status?: string;
  metadata?: JsonObject;
  incomplete?: boolean;
  problem?: string;
}

export type Activity =
  | { kind: "idle" | "stopping" | "steering" | "waiting" | "paused" }
  | { kind: "tools"; names: string[] }
  | { kind: "writing" | "thinking"; attempt: number }
  | { kind: "retry"; reason: string | null; until: string; skippable: boolean };

export interface View {
  sessionId: string;
  agent: string | null;
  exists: boolean;
  messages: ShownMessage[];
  hasOlder: boolean;
  status: SessionStatus | "failed";
  indicator: "starting" | "thinking" | null;
  activity: Activity;
  waiting: WaitingFor[];
  turnId: string | null;
  stopping: boolean;
  error: TurnError | null;
  toolCalls: (ToolCall & { progress?: string })[];
  interrupts: (Interrupt & { deciding?: Decision })[];
  openQuestion: string | null;
  inbox: (Partial<InboxEntry> & { message_id: string; text: string; saving?: boolean; sending?: boolean; problem?: string })[];
  paused: boolean;
  closed: boolean;
  held: boolean;
  blockedReason: string | null;
  title: string | null;
  settings: JsonObject;
  usage: JsonObject | null;
  frontier: string | null;
}

export interface Turn {
  turnId: string;
  status: string;
  steps: string[];
}

/** Any part of a session's history. */
export type HistoryItem = SessionEvent | Snapshot | MessagePage | Message | Action | { events: SessionEvent[]; cursor?: string; messages?: Message[] };

export function initialState(sessionId: string): State;
export function reduce(state: State, action: Action): State;
export function stateOf(history: HistoryItem[], sessionId?: string): State;
export function messagesOf(history: State | HistoryItem[]): ShownMessage[];
export function viewOf(state: State): View;
export function toolCallsOf(state: State): View["toolCalls"];
export function runningTurn(state: State): Turn | null;
export function frontierOf(state: State, turn: Turn | null): string | null;
export function openInterrupts(state: State): Interrupt[];
export function openQuestion(state: State): string | null;
export function statusOf(state: State, turn: Turn | null): View["status"];
export function indicatorOf(state: State, turn: Turn | null): View["indicator"];
export function activityOf(state: State, turn: Turn | null): Activity;
export function advanceSequence(last: number | null, sequence: number): "accepted" | "duplicate" | "gap";
export function advanceProgress(known: { attempt: number; seen: number } | undefined, attempt: number, number: number | undefined): "accepted" | "duplicate" | "gap";
