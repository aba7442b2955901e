// `useChat`'s own `Chat` with the transport that it has by default: server-sent events over HTTP.

import { LINKS } from "./lib/page.mjs";
import { chatSuite } from "./lib/chat_suite.mjs";

chatSuite("Chat over HTTP", LINKS.http);
