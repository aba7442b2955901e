// The half of the client that asks nobody: states out of what the server says, and what they show. Runs anywhere.

export { initialState, reduce } from "./reducer.js";
export { messagesOf, stateOf } from "./messages.js";
export { viewOf } from "./view.js";
export { toolCallsOf } from "./tool_calls.js";
export { frontierOf, openInterrupts, openQuestion, runningTurn } from "./turns.js";
export { activityOf, indicatorOf, statusOf } from "./status.js";
export { advanceProgress, advanceSequence } from "./position.js";
