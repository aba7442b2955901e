// What stands beside the conversation: the timeline, the raw events, the schedules, one at a time.

import { setAttribute, setText, show } from "./dom.js";
import { eventLog } from "./event_log.js";
import { eventsView } from "./events_view.js";
import { sessionUsage } from "./facts.js";
import { storyOf } from "./story.js";
import { timelineView } from "./timeline_view.js";

const TURNS = 30; // and as many more whenever somebody asks
const DELTAS = new Set(["text_delta", "reasoning_delta"]);

/** Return `{ take(events), reset(), draw(shown), show(name) }` of the inspector in `panel`. */
export function inspector(panel) {
  const $ = (selector) => panel.querySelector(selector);
  const tabs = [...panel.querySelectorAll("[role=tab]")];
  const events = eventsView($("#events"));
  const drawTimeline = timelineView($("#turns"), {
    onEvents(text) {
      open("events");
      events.search(text);
      $("#events [type=search]").focus();
    },
  });
  let log = eventLog();
  let turns = TURNS;
  let story = null; // null: the events have changed
  let lastWasDelta = false;

  function open(name) {
    for (const tab of tabs) {
      const chosen = tab.dataset.tab === name;
      setAttribute(tab, "aria-selected", chosen ? "true" : "false");
      tab.tabIndex = chosen ? 0 : -1;
      show(document.getElementById(tab.getAttribute("aria-controls")), chosen);
    }
    if (name === "events") events.draw(log);
  }

  function byKey(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const at = tabs.indexOf(event.target);
    const to = event.key === "Home" ? 0 : event.key === "End" ? tabs.length - 1 : by && (at + by + tabs.length) % tabs.length;
    if (to === undefined) return;
    event.preventDefault();
    open(tabs[to].dataset.tab);
    tabs[to].focus();
  }

  for (const tab of tabs) {
    tab.addEventListener("click", () => open(tab.dataset.tab));
    tab.addEventListener("keydown", byKey);
  }
  $("#older-turns").addEventListener("click", () => {
    turns += TURNS;
    story = null;
    panel.dispatchEvent(new Event("again"));
  });

  return {
    open,
    /** Take events of the open session; those that are known change nothing. */
    take(more) {
      for (const event of more) {
        const isDelta = DELTAS.has(event.type);
        if (log.take(event) && !(isDelta && lastWasDelta)) story = null;
        lastWasDelta = isDelta;
      }
    },
    reset() {
      log = eventLog();
      [story, turns, lastWasDelta] = [null, TURNS, false];
      events.reset(log);
      drawTimeline([], Date.now());
    },
    draw({ usage, stoppingTurn, schedules, grants }) {
      story ??= storyOf(log.all()).reverse();
      const shown = story.slice(0, turns).map((turn) => (turn.key === stoppingTurn && !turn.endedAt ? { ...turn, status: "stopping" } : turn));
      drawTimeline(shown, Date.now());
      show($("#no-turns"), story.length === 0);
      show($("#older-turns"), story.length > turns);
      setText($("#older-turns"), `Show ${Math.min(TURNS, story.length - turns)} of ${story.length - turns} older turns`);
      setText($("#usage"), sessionUsage(usage));
      show($("#usage"), $("#usage").textContent !== "");
      const standing = schedules + grants;
      setText($("#standing-count"), standing ? String(standing) : "");
      events.draw(log);
    },
  };
}
