// Draws the raw events: a filter, one row an event with its sequence, cursor and JSON, and what copies them.

import { codeBlock, copyButton } from "./codeblock.js";
import { el, reconcile, setAttribute, setText, show } from "./dom.js";
import { GROUP_NAMES, filtered, groupOf } from "./event_log.js";
import { clock } from "./format.js";
import { momentOf, toneOf } from "./moments.js";

const ROWS = 150; // and as many more whenever somebody asks

const LABELS = { turn: "Turns", model: "Model", tool: "Tools", decision: "Decisions", wait: "Waits", session: "Session" };

/**
 * Return `{ draw(log), search(text), reset() }` of the view in `panel`, which has a `form` and what belongs to it.
 *
 * The newest event comes first. Drawing costs nothing while the panel is hidden.
 */
export function eventsView(panel) {
  const $ = (selector) => panel.querySelector(selector);
  const text = $("[type=search]");
  const live = $("[name=live]");
  const list = $("ol");
  const groups = new Map(GROUP_NAMES.map((name) => [name, toggle(name)]));
  let log = null;
  let rows = ROWS;
  let shown = [];

  $(".groups").append(...[...groups.values()].map(({ node }) => node));
  $(".copies").append(copyButton(() => JSON.stringify(shown, null, 2), "Copy the events that are shown, as JSON"));

  function toggle(name) {
    const box = el("input", { type: "checkbox", name: "group", value: name, onchange: again });
    return { box, node: el("label", { class: "chip" }, box, el("span", {}, LABELS[name])) };
  }

  function again() {
    rows = ROWS;
    draw();
  }

  function draw() {
    if (!log || !panel.checkVisibility()) return;
    const chosen = new Set(GROUP_NAMES.filter((name) => groups.get(name).box.checked));
    const all = log.all();
    shown = filtered(all, { text: text.value, groups: chosen.size ? chosen : null, live: live.checked });
    const newest = shown.slice(-rows).reverse();
    reconcile(list, newest.map((event, index) => ({ key: keyOf(event, shown.length - index), event })), rowNode);
    show($(".more-events"), shown.length > newest.length);
    show($(".hint"), shown.length === 0);
    setText($(".hint"), all.length ? "No event fits the filter." : "Each thing that happens in this session will be a line here.");
    const durable = log.durable().length;
    setText($(".count"), `${shown.length} of ${all.length} shown, ${durable} durable${log.dropped() ? `, ${log.dropped()} older ones not kept here` : ""}`);
  }

  text.addEventListener("input", again);
  live.addEventListener("change", again);
  panel.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  $(".more-events").addEventListener("click", () => {
    rows += ROWS;
    draw();
  });

  return {
    draw(next = log) {
      log = next;
      draw();
    },
    search(wanted) {
      text.value = wanted;
      for (const { box } of groups.values()) box.checked = false;
      again();
    },
    reset(next) {
      log = next;
      rows = ROWS;
      list.replaceChildren();
      reconcile(list, [], rowNode);
    },
  };
}

function keyOf(event, index) {
  return event.sequence ?? `live/${event.cursor}/${index}`;
}

function rowNode() {
  let event = null;
  const sequence = el("span", { class: "event-sequence" });
  const type = el("code", { class: "event-type" });
  const when = el("time", {});
  const told = el("span", { class: "event-told", dir: "auto" });
  const json = codeBlock({ label: "the event as JSON" });
  const cursor = el("code", {});
  const place = el("p", { class: "event-cursor" }, el("span", {}, "cursor "), cursor, copyButton(() => event.cursor, "Copy: the cursor"));
  const summary = el("summary", {}, el("span", { class: "row" }, el("span", { class: "event-head" }, sequence, type), when), told);
  const details = el("details", {}, summary, place, json.node);
  const node = el("li", { class: "event" }, details);
  details.addEventListener("toggle", fill);

  function fill() {
    if (details.open && event) json.update(JSON.stringify(event, null, 2)); // thousands of rows hold no JSON
  }

  return {
    node,
    update(item) {
      event = item.event;
      setAttribute(node, "data-group", groupOf(event.type));
      setAttribute(node, "data-tone", toneOf(event));
      setText(sequence, event.sequence === undefined ? "live" : `#${event.sequence}`);
      setText(type, event.type);
      setText(when, clock(event.at, Date.now()));
      setAttribute(when, "datetime", event.at);
      setText(told, [momentOf(event), event.turn_id, event.step_execution_id].filter(Boolean).join(" · "));
      setText(cursor, event.cursor ?? "");
      fill();
    },
  };
}
