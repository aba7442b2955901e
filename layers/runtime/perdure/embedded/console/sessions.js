// The list of sessions: searched and filtered by the server, page by page, and read again while somebody looks.

import { ApiError, get } from "./api.js";
import { countdown } from "./countdown.js";
import { el, reconcile, setAttribute, setText, show } from "./dom.js";
import { clock, tone, words } from "./format.js";
import { waitingBadge } from "./wording.js";

const PAGE = 50;
const EVERY_MS = 10_000;
const SOON_MS = 200;
const TYPED_MS = 250;
const MOST_PAGES = 20; // of a search, each of which looks at a part of the sessions, for one load

/** The choices of the filter, as queries. */
export const FILTERS = [
  { name: "", label: "All sessions", query: {} },
  { name: "active", label: "Active: a turn is open", query: { status: "active" } },
  { name: "any", label: "Waits for anything", query: { waiting_for: "any" } },
  { name: "approval", label: "Waits for an approval", query: { waiting_for: "approval" } },
  { name: "question", label: "Waits for an answer", query: { waiting_for: "question" } },
  { name: "input", label: "Waits for an input", query: { waiting_for: "input" } },
  { name: "timer", label: "Waits for a timer", query: { waiting_for: "timer" } },
  { name: "event", label: "Waits for an event", query: { waiting_for: "event" } },
  { name: "task", label: "Waits for a task", query: { waiting_for: "task" } },
  { name: "retry", label: "Waits for the provider", query: { waiting_for: "retry" } },
];

/**
 * Return `{ load(), soon(), draw(current), newest(), neighbour(by) }` of the list in `panel`.
 *
 * `onError(message)` hears what the server refused.
 */
export function sessionList(panel, { onError }) {
  const $ = (selector) => panel.querySelector(selector);
  const [search, filter, list] = [$("[type=search]"), $("select"), $("ul")];
  let summaries = null; // null: not loaded yet
  let next = null;
  let pages = 1;
  let current = null;
  let run = 0;
  let timer = null;

  filter.append(...FILTERS.map(({ name, label }) => el("option", { value: name }, label)));

  const query = () => {
    const text = search.value.trim();
    return { ...(text && { query: text.slice(0, PAGE * 4) }), ...FILTERS.find(({ name }) => name === filter.value).query };
  };
  const isSearch = () => Object.keys(query()).length > 0;

  // A page of a search may hold few rows, or none, and not be the last: it goes on until there is something to see.
  async function load() {
    const own = ++run;
    const wanted = query();
    setAttribute(panel, "aria-busy", "true");
    try {
      const found = [];
      let cursor = null;
      for (let page = 0; page < MOST_PAGES; page += 1) {
        const part = await get("/v1/sessions", { ...wanted, cursor, limit: PAGE });
        if (own !== run) return;
        found.push(...part.sessions);
        cursor = part.next_cursor ?? null;
        if (cursor === null || found.length >= pages * PAGE) break;
      }
      [summaries, next] = [found, cursor];
      show($(".list-problem"), false);
    } catch (error) {
      if (own !== run) return;
      if (error instanceof ApiError && !error.retryable) onError(error.message);
      else show($(".list-problem"), true);
    } finally {
      if (own === run) {
        setAttribute(panel, "aria-busy", null);
        draw();
      }
    }
  }

  function soon(ms = SOON_MS) {
    clearTimeout(timer);
    timer = setTimeout(load, ms);
  }

  function draw(id = current) {
    current = id;
    reconcile(list, (summaries ?? []).map((summary) => rowOf(summary, current)), rowNode);
    show($(".loading"), summaries === null && $(".list-problem").hidden);
    show($(".no-sessions"), summaries?.length === 0 && !isSearch());
    show($(".no-match"), summaries?.length === 0 && isSearch());
    show($(".more-sessions"), next !== null);
    setText($(".found"), isSearch() && summaries ? `${summaries.length}${next ? " or more" : ""} found` : "");
  }

  function again() {
    pages = 1;
    soon(TYPED_MS);
  }

  search.addEventListener("input", again);
  filter.addEventListener("change", () => {
    pages = 1;
    load();
  });
  $("form").addEventListener("submit", (event) => {
    event.preventDefault();
    list.querySelector("a")?.focus();
  });
  $(".clear-search").addEventListener("click", () => {
    search.value = filter.value = "";
    load();
    search.focus();
  });
  $(".more-sessions").addEventListener("click", () => {
    pages += 1;
    load();
  });
  setInterval(() => !document.hidden && load(), EVERY_MS);

  return {
    load,
    soon: () => soon(),
    draw,
    newest: () => summaries?.[0]?.session_id ?? null,
    focus: () => search.focus(),
    titleOf: (id) => summaries?.find(({ session_id: other }) => other === id)?.title ?? null,
    /** The id of the session above or below the open one, or null. */
    neighbour(by) {
      const at = summaries?.findIndex(({ session_id: id }) => id === current) ?? -1;
      return summaries?.[at < 0 ? 0 : at + by]?.session_id ?? null;
    },
  };
}

function rowOf(summary, current) {
  return {
    key: summary.session_id,
    title: summary.title ?? null,
    preview: plain(summary.preview ?? ""),
    badge: badgeOf(summary),
    at: summary.last_activity_at ?? null,
    current: summary.session_id === current,
  };
}

// The start of an answer, without the signs that it is formatted with.
function plain(preview) {
  return preview.replace(/^#{1,6} /, "").replace(/\*\*|`/g, "");
}

function badgeOf(summary) {
  const waits = waitingBadge(summary.waiting_for ?? []);
  if (waits) return waits;
  if (summary.blocked_reason || summary.held) return { text: summary.blocked_reason ? "blocked" : "held after a failure", tone: "bad" };
  if (summary.paused) return { text: "paused", tone: "ask" };
  if (summary.closed) return { text: "closed", tone: "quiet" };
  const runs = summary.status && summary.status !== "waiting_for_user_message";
  return runs ? { text: words("running"), tone: tone("running") } : null;
}

function rowNode() {
  const title = el("span", { class: "session-title", dir: "auto" });
  const preview = el("span", { class: "preview", dir: "auto" });
  const badge = el("span", { class: "badge" });
  const left = countdown({ role: null, class: "facts" });
  const name = el("span", { class: "session-name" });
  const when = el("time", {});
  const state = el("span", { class: "row state" }, badge, left.node);
  const link = el("a", {}, title, preview, el("span", { class: "row" }, name, when), state);
  return {
    node: el("li", {}, link),
    update(row) {
      setAttribute(link, "href", `#${encodeURIComponent(row.key)}`);
      setAttribute(link, "aria-current", row.current ? "page" : null);
      setText(title, row.title ?? (row.preview || "(no text)"));
      setText(preview, row.preview);
      show(preview, row.title !== null && row.preview !== "");
      setText(name, row.key);
      setText(badge, row.badge?.text ?? "");
      setAttribute(badge, "data-tone", row.badge?.tone ?? null);
      left.until(row.badge?.until ?? null);
      show(state, row.badge !== null);
      setText(when, row.at ? clock(row.at, Date.now()) : "");
      setAttribute(when, "datetime", row.at);
    },
  };
}
