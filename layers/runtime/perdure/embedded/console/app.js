// Wires the page together: address, panels, the open session, and what the user does to it.

import { aheadList } from "./ahead.js";
import { agentChoice } from "./agents.js";
import { whenRefused } from "./api.js";
import { themeSwitch } from "./appearance.js";
import { composer } from "./composer.js";
import { countdown, tick } from "./countdown.js";
import { ANSWER } from "./deliveries.js";
import { setAttribute, setText, show } from "./dom.js";
import { newId } from "./ids.js";
import { inbox } from "./inbox.js";
import { inspector } from "./inspector.js";
import { shortcutKeys } from "./keys.js";
import { linkView } from "./link_view.js";
import { wholeOutput } from "./outputs.js";
import { scheduleForm } from "./schedule_form.js";
import { scheduleList } from "./schedules.js";
import { valueOf } from "./requests.js";
import { openSession } from "./session.js";
import { sessionList } from "./sessions.js";
import { settingsEditor } from "./settings.js";
import { signIn } from "./sign_in.js";
import { sessionTitle } from "./title.js";
import { transcript } from "./transcript.js";
import { view } from "./view.js";
import { activityText, countdownText, gateText, waitingBadge } from "./wording.js";

const NEAR_END_PX = 80;

const $ = (id) => document.getElementById(id);
const list = sessionList($("sessions"), { onError: showError });
const agents = agentChoice($("agent-choice"), $("agent"), { onLoaded: draw });
const inspect = inspector($("inspector"));
const title = sessionTitle($("title"), { onRename: (text) => session.rename(text) });
const drawTranscript = transcript($("transcript"), {
  onDecide: (...decision) => session.decide(...decision),
  onOutput: (callId, onPiece) => wholeOutput(sessionId, callId, onPiece),
  onAnswer: (...answer) => session.answer(...answer),
  onGive: give,
  onDecline: (...decline) => session.decline(...decline),
  onSkip: (id) => session.skipWait(id),
  onChangeWait: (id, until) => session.changeWait(id, until),
  onCancelWait: (id) => session.cancelWait(id),
  onLostAnswer(text) {
    field.put(text);
    announce("The question is no longer open. What you wrote is in the message field.");
  },
  onRetry: () => session.retry(),
  onDismiss: (turnId) => session.dismiss(turnId),
});
const drawInbox = inbox($("inbox-list"), {
  rows: () => view(state).inbox,
  onEdit: (id, text) => session.edit(id, text),
  onMove: (id, before, ids) => session.move(id, before, ids),
  onDeliver: (id, delivery) => session.deliver(id, delivery),
  onRecall: recall,
  onLost: (text) => {
    field.put(text);
    announce("The message is no longer waiting. What you wrote is in the message field.");
  },
  announce,
});
const field = composer($("composer"), $("composer-hint"), {
  onSend: send,
  onStop: stop,
  onRecall: recallLast,
});
drawInbox.onEmptied(field.focus);
const waitsLeft = countdown({ role: null, "aria-hidden": "true" });
$("waiting-for").append(waitsLeft.node);
const showLink = linkView($("connection"), $("link"), {
  onRetry: () => session?.retryLink(),
  onGiveUp: () => session.giveUpLink(),
});
const openSchedule = scheduleForm($("schedule"), { onSave: (id, body) => session.schedule(id, body) });
const drawSchedules = scheduleList($("schedule-list"), {
  onSkip: (id) => session.skipWait(id),
  onChangeWait: (id, until) => session.changeWait(id, until),
  onEdit: openSchedule,
  onCancel: (id) => session.cancelSchedule(id),
});
const drawAhead = aheadList($("ahead-list"), { onRevoke: (id) => session.revoke(id) });
const settings = settingsEditor($("settings"), { onSave: (changed) => session.saveSettings(changed) });

let sessionId = null;
let session = null;
let state = null;
let drawn = null; // the state that the screen shows
let scheduled = false;

// --- drawing ----------------------------------------------------------------------------------

function draw() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    if (!state) return;
    drawn = state;
    drawSession(view(state));
  });
}

function drawSession(shown) {
  const scroller = $("scroller");
  const atEnd = isAtEnd();
  title.update({ sessionId: shown.sessionId, title: shown.title, changeable: shown.exists });
  agents.draw(shown, state.snapshot !== null && shown.items.length === 0);
  drawWaitingFor(shown.waiting);
  show($("session-controls"), shown.exists);
  setText($("pause"), shown.paused ? "Resume" : "Pause");
  settings.update(shown.settings);
  drawTranscript(shown.items);
  show($("older"), shown.hasOlder);
  show($("opening"), state.snapshot === null && shown.items.length === 0);
  show($("empty"), state.snapshot !== null && shown.items.length === 0);
  drawFoot(shown);
  drawAhead(shown.grants);
  show($("ahead"), shown.grants.length > 0);
  drawSchedules(shown.schedules);
  show($("no-schedules"), shown.schedules.length === 0);
  inspect.draw({
    usage: shown.usage,
    stoppingTurn: shown.stopping ? shown.turnId : null,
    schedules: shown.schedules.length,
    grants: shown.grants.length,
  });
  if (atEnd) scroller.scrollTop = scroller.scrollHeight;
}

function drawWaitingFor(waiting) {
  const badge = waitingBadge(waiting);
  const button = $("waiting-for");
  show(button, badge !== null);
  if (!badge) return;
  setText(button.firstElementChild, badge.text);
  setAttribute(button, "aria-label", `${badge.text}: go to it`);
  setAttribute(button, "data-tone", badge.tone);
  setAttribute(button, "data-goes-to", badge.id);
  waitsLeft.until(badge.until);
}

function drawFoot(shown) {
  const now = Date.now();
  const { kind, skippable } = shown.activity;
  setText($("gate"), gateText(shown));
  show($("gate"), $("gate").textContent !== "");
  setAttribute($("gate"), "data-tone", shown.blockedReason && !shown.paused ? "bad" : "ask");
  show($("inbox"), shown.inbox.length > 0);
  setText($("inbox-title"), `Waiting: ${shown.inbox.length}`);
  drawInbox(shown.inbox);
  setText($("activity"), activityText(shown, now));
  setAttribute($("activity"), "data-kind", kind);
  setText($("countdown"), countdownText(shown, now));
  show($("countdown"), kind === "retry");
  show($("retry-now"), kind === "retry" && skippable);
  const stop = $("stop");
  show(stop, shown.turnId !== null);
  setAttribute(stop, "aria-disabled", shown.stopping ? "true" : null); // it keeps the focus
  setText(stop, shown.stopping ? "Stopping…" : kind === "retry" ? "Give up" : "Stop");
  field.update(shown);
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

function showError(message) {
  show($("error"), Boolean(message));
  setText($("error-text"), message ?? "");
}

function announce(text) {
  setText($("announce"), text);
}

// --- sessions ---------------------------------------------------------------------------------

function newSessionId() {
  const day = new Date().toISOString().slice(0, 10);
  return `${day}-${newId().slice(0, 8)}`;
}

function open(id) {
  session?.close();
  drawTranscript([]); // what was begun in a card stays with its session: calls of two sessions may have the same ids
  inspect.reset();
  sessionId = id;
  state = null;
  $("settings").close();
  $("schedule").close();
  showError(null);
  showLink({ status: "connecting" });
  document.title = `${id} · Perdure console`;
  session = openSession(id, {
    onState(next) {
      if (id !== sessionId) return;
      state = next;
      draw();
    },
    onLink: (link) => id === sessionId && showLink(link),
    onError: (message) => id === sessionId && showError(message),
    onChange: list.soon,
    onEvents: (events) => id === sessionId && inspect.take(events),
  });
  list.draw(id);
  showPanel("chat");
}

function openFromAddress() {
  let id = "";
  try {
    id = decodeURIComponent(location.hash.slice(1));
  } catch {
    // a broken address opens a new session
  }
  if (!id) history.replaceState(null, "", `#${(id = list.newest() ?? newSessionId())}`);
  if (id !== sessionId) open(id);
}

function showPanel(name) {
  document.body.dataset.panel = name;
  for (const tab of document.querySelectorAll("[data-show]")) {
    setAttribute(tab, "aria-pressed", tab.dataset.show === name ? "true" : "false");
  }
}

// --- what the user does -----------------------------------------------------------------------

function send(text, delivery, files) {
  showError(null);
  $("scroller").scrollTop = $("scroller").scrollHeight;
  if (delivery === ANSWER.name) return answer(text, files);
  const sentTo = session;
  const options = { delivery, files, waits: delivery !== null, agent: agents.chosen() };
  return sentTo.send(text, options).then((accepted) => accepted || sentTo !== session);
}

async function answer(text, files) {
  const { openQuestion } = view(state);
  if (openQuestion && files.length === 0) return (await session.answer(openQuestion, text)) === null;
  showError(openQuestion ? "An answer carries no files: leave them out, or choose Queue." : "The question is no longer open.");
  return false;
}

function give(id, schema, text, message) {
  const { value, problem } = valueOf(schema, text);
  if (problem) showError(problem);
  else session.give(id, value, message);
}

function stop() {
  const { turnId, stopping, frontier } = view(drawn); // what the user saw, not what came since
  if (turnId && !stopping) session.stop(turnId, { frontier, partials: drawn.partials });
}

async function recall(messageId) {
  const recalled = await session.recall(messageId);
  if (recalled === null) return;
  field.put(recalled.text, recalled.files);
  field.focus();
  announce("The message is back in the message field.");
}

async function openSettings() {
  const opened = session;
  const models = await agents.modelsOf(view(state).agent);
  if (opened === session) settings.open(view(state).settings, models);
}

function goToWaiting() {
  const id = $("waiting-for").dataset.goesTo ?? "";
  const cards = [...document.querySelectorAll("[data-call]")];
  const card = cards.find(({ dataset }) => id === dataset.call || id.startsWith(`${dataset.call}-`));
  showPanel("chat");
  card?.scrollIntoView({ block: "nearest" });
  (card?.querySelector(".approval button:not(:disabled), .wait button") ?? card)?.focus();
}

function startNew() {
  location.hash = newSessionId();
  showPanel("chat");
  field.focus();
}

function goTo(by) {
  const id = list.neighbour(by);
  if (id) location.hash = encodeURIComponent(id);
}

function inspectAs(name) {
  showPanel("inspector");
  inspect.open(name);
  $(`tab-${name}`).focus();
}

function recallLast() {
  const last = view(state).inbox.at(-1);
  if (last && !last.sending) recall(last.key);
}

$("stop").addEventListener("click", stop);
$("retry-now").addEventListener("click", () => session.retry());
$("pause").addEventListener("click", () => session.pause(!view(state).paused));
$("open-settings").addEventListener("click", openSettings);
$("waiting-for").addEventListener("click", goToWaiting);
$("new-schedule").addEventListener("click", () => openSchedule());
$("older").addEventListener("click", () => session.older());
$("error-close").addEventListener("click", () => showError(null));
$("new-session").addEventListener("click", startNew);
$("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address names the session
  showPanel("chat");
  field.focus();
});
for (const tab of document.querySelectorAll("[data-show]")) {
  tab.addEventListener("click", () => showPanel(tab.dataset.show));
}
$("inspector").addEventListener("again", draw);
$("widen").addEventListener("click", () => {
  const wide = document.body.toggleAttribute("data-wide");
  setAttribute($("widen"), "aria-pressed", wide ? "true" : "false");
});
window.addEventListener("hashchange", openFromAddress);

const theme = themeSwitch($("theme"));
const help = shortcutKeys($("shortcuts"), [
  { key: "n", tells: "new session", run: startNew },
  { key: "/", tells: "search sessions", run: () => (showPanel("sessions"), list.focus()) },
  { key: "j", tells: "next session", run: () => goTo(1) },
  { key: "k", tells: "session before", run: () => goTo(-1) },
  { key: "m", tells: "message field", run: () => (showPanel("chat"), field.focus()) },
  { key: "w", tells: "what the session waits for", run: goToWaiting },
  { key: "t", tells: "timeline", run: () => inspectAs("timeline") },
  { key: "e", tells: "events", run: () => inspectAs("events") },
  { key: "s", tells: "schedules", run: () => inspectAs("schedules") },
  { key: "r", tells: "rename the session", run: () => (showPanel("chat"), title.edit()) },
  { key: "d", tells: "light, dark, or as the system says", run: theme.next },
]);
$("help").addEventListener("click", help.open);

const door = signIn($("sign-in"), $("who"), {
  onChange() {
    agents.load();
    if (sessionId !== null) open(sessionId);
  },
});
whenRefused(door.again);

setInterval(tick, 1000);
setInterval(() => state && view(state).turnId && draw(), 1000); // running steps get older, waits get shorter
await door.ready();
agents.load();
await list.load();
openFromAddress();
