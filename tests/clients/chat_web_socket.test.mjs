// The same `Chat` with `WebSocketChatTransport`: chunks with numbers that have no gap, on a socket that breaks.

import { chatSuite } from "./lib/chat_suite.mjs";
import { LINKS } from "./lib/page.mjs";

chatSuite("Chat over a WebSocket", LINKS.socket);
