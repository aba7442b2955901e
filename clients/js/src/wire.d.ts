/** What the server says, as it says it (snake_case). Fields that are not set are absent. More may come: ignore it. */

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type JsonObject = { [name: string]: unknown };

export type SessionStatus = "waiting_for_user_message" | "running_model" | "running_tools" | "compacting_context";
export type Delivery = "queue" | "inject" | "steer" | "interrupt" | "interrupt_next" | "supersede" | "passive";

export interface TurnError {
  code: string;
  message: string;
}

export interface WaitingFor {
  kind: "approval" | "question" | "input" | "timer" | "event" | "task" | "result" | "retry" | (string & {});
  id: string;
  since: string;
  until?: string;
}

export interface SessionState {
  status: SessionStatus;
  turn_id?: string;
  turn_count: number;
  version: number;
  interaction_mode?: string;
  paused?: boolean;
  held?: boolean;
  closed?: boolean;
  stopping?: boolean;
  steering?: boolean;
  blocked_reason?: string;
  last_turn_error?: TurnError;
  waiting_for?: WaitingFor[];
}

export type Part =
  | { type: "text"; text: string; truncated?: boolean; bytes?: number }
  | { type: "reasoning"; text: string }
  | { type: "tool_call"; tool_call_id: string; tool_name: string; arguments?: JsonObject; arguments_text?: string; draft?: undefined }
  | { type: "tool_call"; draft: true; tool_name: string | null; arguments_text: string; tool_call_id?: undefined }
  | { type: "tool_result"; tool_call_id: string; tool_name: string; status: string; output: unknown; truncated?: boolean; bytes?: number }
  | { type: "file"; reference: string; media_type?: string; name?: string };

export interface Message {
  message_id: string;
  sequence: number;
  turn_id: string;
  role: "user" | "assistant" | "tool";
  parts: Part[];
  created_at: string;
  status?: string;
  metadata?: JsonObject;
}

export interface ToolCall {
  tool_call_id: string;
  tool_name: string;
  arguments?: JsonObject;
  arguments_text?: string;
  arguments_hash?: string;
  effect?: string;
  requires_approval?: boolean;
  status: string;
  attempt: number;
  output?: unknown;
  error?: unknown;
  cancellation_reason?: string;
}

export interface Interrupt {
  interrupt_id: string;
  kind: "approval" | "question" | "input";
  tool_call_id?: string;
  tool_name?: string;
  arguments?: JsonObject;
  arguments_hash?: string;
  question?: string;
  choices?: string[];
  allows_free_text?: boolean;
  deadline?: string;
}

export interface InboxEntry {
  message_id: string;
  delivery: Delivery;
  state: string;
  text: string;
  created_at: string;
  urgent?: boolean;
}

export interface Snapshot {
  session_id: string;
  agent: string | null;
  state: SessionState | null;
  messages: Message[];
  next_before?: string;
  tool_calls: ToolCall[];
  pending_interrupts: Interrupt[];
  inbox: InboxEntry[];
  settings: JsonObject;
  usage?: JsonObject;
  title?: string;
  cursor: string;
}

/** Durable events carry `sequence` and `version`; live ones `progress_sequence`. */
export interface SessionEvent {
  type: string;
  sequence?: number;
  version?: number;
  progress_sequence?: number;
  cursor: string;
  turn_id?: string;
  step_execution_id?: string;
  attempt?: number;
  at: string;
  payload: JsonObject;
}

export interface MessagePage {
  messages: Message[];
  next_before?: string;
  deleted_before?: number;
}

export interface Receipt {
  message_id: string;
  turn_id?: string;
  interrupt_id?: string;
  delivered_as: Delivery | "answer";
  duplicate: boolean;
  cursor: string;
}

export interface FileRef {
  reference: string;
  media_type?: string;
  name?: string;
}
