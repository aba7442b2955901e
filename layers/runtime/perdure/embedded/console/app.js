// Wires the page together: address, panels, composer, and the open session.

import { ApiError, get } from "./api.js";
import { el, reconcile, setAttribute, setText, show } from "./dom.js";
import { clock, words } from "./format.js";
import { sessionList, timeline } from "./panels.js";
import { openSession } from "./session.js";
import { transcript } from "./transcript.js";
import { view } from "./view.js";

const LIST_MS = 10_000;
const LIST_SOON_MS = 200;
const NEAR_END_PX = 80;
const KINDS = { approval: "an approval", question: "an answer", input: "an input", timer: "a timer", task: "a task" };

const $ = (id) => document.getElementById(id);
const drawSessions = sessionList($("session-list"));
const drawTimeline = timeline($("turns"));
const drawTranscript = transcript($("transcript"), {
  onDecide: (...decision) => session.decide(...decision),
});

let sessionId = null;
let session = null;
let state = null;
let online = false;
let summaries = [];
let nextSessions = null;
let scheduled = false;
let listTimer = null;

// --- drawing ----------------------------------------------------------------------------------

function draw() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    if (state) drawSession(view(state));
  });
}

function drawSession(shown) {
  const scroller = $("scroller");
  const atEnd = isAtEnd();
  setText($("session-title"), shown.sessionId);
  setText($("agent"), shown.agent ? `agent ${shown.agent}` : "not started yet");
  drawTranscript(shown.items);
  show($("older"), shown.hasOlder);
  show($("empty"), state.snapshot !== null && shown.items.length === 0);
  drawQueue(shown.queued);
  setText($("activity"), activityText(shown));
  setAttribute($("activity"), "data-kind", shown.activity.kind);
  const stop = $("stop");
  show(stop, shown.turnId !== null);
  stop.disabled = shown.stopping;
  setText(stop, shown.stopping ? "Stopping…" : "Stop");
  drawTimeline(shown.timeline, Date.now());
  show($("no-turns"), shown.timeline.length === 0);
  show($("older-turns"), shown.olderTurns > 0);
  setText($("older-turns"), `${shown.olderTurns} older turns`);
  setText($("usage"), usageText(shown.usage));
  if (atEnd) scroller.scrollTop = scroller.scrollHeight;
}

// What is under the conversation grows and shrinks, and screens turn: whoever reads the end stays there.
let readsEnd = true;
$("scroller").addEventListener("scroll", () => {
  readsEnd = isAtEnd();
});
new ResizeObserver(() => {
  if (readsEnd) $("scroller").scrollTop = $("scroller").scrollHeight;
}).observe($("scroller"));

function isAtEnd() {
  const { scrollHeight, scrollTop, clientHeight } = $("scroller");
  return scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
}

function drawQueue(queued) {
  show($("queue"), queued.length > 0);
  reconcile($("queue-list"), queued, () => {
    const node = el("li", { class: "text", dir: "auto" });
    return { node, update: (entry) => setText(node, entry.text) };
  });
}

function activityText({ activity, indicator, waiting }) {
  const waits = waiting.map((item) => {
    if (item.kind === "retry") return `Next attempt at ${clock(item.until ?? item.since, Date.now())}`;
    const until = item.until ? `, until ${clock(item.until, Date.now())}` : "";
    return `Waits for ${KINDS[item.kind] ?? words(item.kind)} since ${clock(item.since, Date.now())}${until}`;
  });
  switch (activity.kind) {
    case "idle":
      return indicator === "starting" ? "Starting…" : "";
    case "stopping":
      return "Stopping: what has started is being finished.";
    case "retry":
      return `The model's provider failed (${activity.reason}). Trying again in ${Math.ceil(activity.inMs / 1000)} s.`;
    case "tools":
      return [`Running ${activity.names.join(", ")}…`, ...waits].join(" · ");
    case "waiting":
      return waits.join(" · ");
    default: {
      const unseen = indicator === "starting" ? "Starting…" : "Thinking…";
      const doing = activity.kind === "writing" ? "Writing…" : unseen;
      return activity.attempt > 1 ? `${doing} Attempt ${activity.attempt}.` : doing;
    }
  }
}

function usageText(usage) {
  if (usage?.input_tokens?.value === undefined && usage?.output_tokens?.value === undefined) return "";
  const figure = (name) => (usage[name]?.value === undefined ? "?" : usage[name].value.toLocaleString());
  return `${figure("input_tokens")} in, ${figure("output_tokens")} out`;
}

function showError(message) {
  show($("error"), Boolean(message));
  setText($("error-text"), message ?? "");
}

function showOnline(isOnline) {
  online = isOnline;
  setAttribute($("connection"), "data-online", online ? "true" : "false");
  setText($("connection").firstElementChild, online ? "Connected" : "Reconnecting…");
}

// --- sessions ---------------------------------------------------------------------------------

async function loadSessions(cursor = null) {
  try {
    const page = await get("/v1/sessions", { cursor, limit: 50 });
    summaries = cursor ? [...summaries, ...page.sessions] : page.sessions;
    nextSessions = page.next_cursor ?? null;
    drawSessions(summaries, sessionId);
    show($("no-sessions"), summaries.length === 0);
    show($("more-sessions"), nextSessions !== null);
  } catch (error) {
    if (error instanceof ApiError && !error.retryable) showError(error.message);
  }
}

function loadSessionsSoon() {
  clearTimeout(listTimer);
  listTimer = setTimeout(() => loadSessions(), LIST_SOON_MS);
}

function newSessionId() {
  const day = new Date().toISOString().slice(0, 10);
  return `${day}-${crypto.randomUUID().slice(0, 8)}`;
}

function open(id) {
  session?.close();
  sessionId = id;
  state = null;
  showError(null);
  showOnline(false);
  document.title = `${id} · Perdure console`;
  session = openSession(id, {
    onState(next) {
      if (id !== sessionId) return;
      state = next;
      draw();
    },
    onOnline: (isOnline) => id === sessionId && showOnline(isOnline),
    onError: (message) => id === sessionId && showError(message),
    onChange: loadSessionsSoon,
  });
  drawSessions(summaries, id);
  showPanel("chat");
}

function openFromAddress() {
  let id = "";
  try {
    id = decodeURIComponent(location.hash.slice(1));
  } catch {
    // a broken address opens a new session
  }
  if (!id) history.replaceState(null, "", `#${(id = summaries[0]?.session_id ?? newSessionId())}`);
  if (id !== sessionId) open(id);
}

function showPanel(name) {
  document.body.dataset.panel = name;
  for (const tab of document.querySelectorAll("[data-show]")) {
    setAttribute(tab, "aria-pressed", tab.dataset.show === name ? "true" : "false");
  }
}

// --- what the user does -----------------------------------------------------------------------

const field = $("composer-text");

function fitField() {
  field.rows = Math.min(8, Math.max(1, field.value.split("\n").length));
}

async function send(event) {
  event.preventDefault();
  const text = field.value;
  if (!text.trim()) return;
  field.value = "";
  fitField();
  showError(null);
  $("scroller").scrollTop = $("scroller").scrollHeight;
  const sentTo = session;
  const accepted = await sentTo.send(text);
  if (!accepted && sentTo === session && !field.value) {
    field.value = text; // a refused message is not lost
    fitField();
  }
}

$("composer").addEventListener("submit", send);
field.addEventListener("input", fitField);
field.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
});
$("stop").addEventListener("click", () => {
  const { turnId } = view(state);
  if (turnId) session.stop(turnId);
});
$("older").addEventListener("click", () => session.older());
$("error-close").addEventListener("click", () => showError(null));
$("more-sessions").addEventListener("click", () => loadSessions(nextSessions));
$("new-session").addEventListener("click", () => {
  location.hash = newSessionId();
  field.focus();
});
$("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address names the session
  showPanel("chat");
  field.focus();
});
for (const tab of document.querySelectorAll("[data-show]")) {
  tab.addEventListener("click", () => showPanel(tab.dataset.show));
}
window.addEventListener("hashchange", openFromAddress);

setInterval(() => !document.hidden && loadSessions(), LIST_MS);
setInterval(() => state && view(state).turnId && draw(), 1000); // running steps get older
await loadSessions();
openFromAddress();
