import type { Delivery, FileRef, JsonObject } from "./wire.js";

/** A command as a value. Sent again, it counts once. */
export interface Command {
  operation: string;
  session_id: string;
  path?: { [name: string]: string };
  body?: JsonObject;
  idempotency_key: string;
}

/** `key`: the idempotency key, 1 to 256 characters. */
export interface Keyed {
  key: string;
}

export interface MessageOptions {
  messageId?: string;
  agent?: string;
  delivery?: Delivery;
  files?: FileRef[];
  metadata?: JsonObject;
  settings?: JsonObject;
  runSettings?: JsonObject;
}

export interface Grant {
  lasts_seconds: number;
  fields?: string[];
  max_uses?: number;
}

export type Place = { before: string } | { after: string } | { position: "first" | "last" };

export const RESERVED_PREFIX: "perdure:";
export function message(sessionId: string, text: string, options: Keyed & MessageOptions): Command;
export function approval(sessionId: string, interruptId: string, options: Keyed & { argumentsHash?: string; message?: string; arguments?: JsonObject; grant?: Grant }): Command;
export function rejection(sessionId: string, interruptId: string, options: Keyed & { argumentsHash?: string; message?: string }): Command;
export function answer(sessionId: string, interruptId: string, text: string, options: Keyed & { message?: string }): Command;
export function input(sessionId: string, interruptId: string, value: unknown, options: Keyed & { message?: string }): Command;
export function stop(sessionId: string, options: Keyed & { turnId?: string; frontier?: string; disposition?: "keep" | "discard" }): Command;
export function retry(sessionId: string, options: Keyed): Command;
export function pause(sessionId: string, options: Keyed): Command;
export function resume(sessionId: string, options: Keyed): Command;
export function rename(sessionId: string, title: string, options: Keyed): Command;
export function edit(sessionId: string, messageId: string, text: string, options: Keyed): Command;
export function move(sessionId: string, messageId: string, options: Keyed & Place): Command;
export function remove(sessionId: string, messageId: string, options: Keyed): Command;
export function deliver(sessionId: string, messageId: string, delivery: Delivery, options: Keyed): Command;
export function requestOf(command: Command): { method: string; path: string; headers: { [name: string]: string }; body?: string };
export function frameOf(command: Command, requestId: string): JsonObject;
export function segment(text: string): string;
