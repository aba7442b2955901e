import type { JsonObject } from "./wire.js";

export const COMMANDS: { [operation: string]: { method: string; path: string; body?: JsonObject } };

/** Throw a TypeError that says what is wrong with a command, and where. */
export function checkCommand(command: { operation: string; body?: JsonObject }): void;

/** Return what is wrong with a value, as sentences; none: it fits the schema. */
export function problemsOf(value: unknown, schema: JsonObject, at?: string): string[];
