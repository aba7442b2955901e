// What the package gives: the pure half first, which runs anywhere, then the client.

export { initialState, reduce } from "./reducer.js";
export { messagesOf, stateOf } from "./messages.js";
export { viewOf } from "./view.js";
export { toolCallsOf } from "./tool_calls.js";
export { frontierOf, openInterrupts, openQuestion, runningTurn } from "./turns.js";
export { activityOf, indicatorOf, statusOf } from "./status.js";
export { advanceProgress, advanceSequence } from "./position.js";
export { createClient } from "./client.js";
export { ApiError, UnsettledError } from "./http.js";
export { secondsLeft } from "./connection.js";
export * as commands from "./commands.js";
export { checkCommand } from "./schema.js";
