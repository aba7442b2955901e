// A conversation's messages, from a state or from raw history. Pure; needs no page.

import { liveTexts } from "./live.js";
import { initialState, reduce } from "./reducer.js";

/**
 * Return the messages to show, oldest first: those that are stored, those that are being written, those on their way.
 *
 * Each is a message as the server has it, with `key` (stable while it goes from one to the next) and `origin`:
 * `stored`, `live` (its text still grows), `finished` (it is about to be stored) or `sending` (`problem`: why it is not
 * there yet). A call that the model is still writing is a part with `draft: true`. What a turn gave back to the inbox is
 * left out.
 *
 * @param {object | object[]} history A state, or what `stateOf` takes.
 */
export function messagesOf(history) {
  const state = Array.isArray(history) ? stateOf(history) : history;
  return [...storedMessages(state), ...liveMessages(state), ...outgoing(state)];
}

/**
 * Return the state that raw history leads to: any mix, in order, of events, snapshots, pages of events or messages,
 * commits (`{ messages, events }`), single messages, and the reducer's own actions.
 */
export function stateOf(history, sessionId = "") {
  return history.flatMap(actionsOf).reduce(reduce, initialState(sessionId));
}

function actionsOf(item) {
  if (item.payload !== undefined) return [{ type: "event", event: item }];
  if (item.type !== undefined) return [item];
  if (item.state !== undefined && item.messages) return [{ type: "snapshot", snapshot: item, restart: true }];
  if (item.parts) return [{ type: "messages", messages: [item] }];
  const { messages, events, cursor } = item;
  if (!messages && !events) throw new TypeError(`this is no part of a session's history: ${JSON.stringify(item).slice(0, 200)}`);
  return [
    ...(messages ? [{ type: "messages", messages }] : []),
    ...(events ? [{ type: "stream", events, cursor }] : []),
  ];
}

function storedMessages(state) {
  const answers = {};
  return state.messages
    .filter(({ status }) => status !== "rehomed")
    .map((message) => {
      if (message.role !== "assistant") return { ...message, key: message.message_id, origin: "stored" };
      answers[message.turn_id] = (answers[message.turn_id] ?? 0) + 1;
      return { ...message, key: `${message.turn_id}/${answers[message.turn_id]}`, origin: "stored" };
    });
}

function liveMessages(state) {
  return liveTexts(state).map(({ key, turnId, segments, drafts, held, live, incomplete }) => ({
    key,
    origin: live ? "live" : "finished",
    turn_id: turnId,
    role: "assistant",
    parts: [
      ...segments.map(({ type, text }) => ({ type, text })),
      ...drafts.map(({ toolName, text }) => ({ type: "tool_call", draft: true, tool_name: toolName, arguments_text: text })),
    ],
    ...(held && { status: "interrupted" }),
    ...(incomplete && { incomplete }),
  }));
}

function outgoing(state) {
  return state.outbox
    .filter(({ waits }) => !waits)
    .map(({ messageId, text, problem }) => ({
      key: messageId,
      origin: "sending",
      message_id: messageId,
      role: "user",
      parts: [{ type: "text", text }],
      ...(problem && { problem }),
    }));
}
