// What the package gives: the pure half, and the client.

export * from "./pure.js";
export { createClient } from "./client.js";
export { ApiError, UnsettledError } from "./http.js";
export { secondsLeft } from "./connection.js";
export * as commands from "./commands.js";
export { checkCommand } from "./schema.js";
