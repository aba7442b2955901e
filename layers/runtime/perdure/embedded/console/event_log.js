// The events as they came, for the raw view: durable ones once each and in order, live ones as far as there is room.

const MOST_DURABLE = 20_000;
const MOST_LIVE = 400;

const GROUPS = {
  turn: /^(turn_|compaction_)/,
  model: /^(model_|attempt_reset|usage_|text_delta|reasoning_delta)/,
  tool: /^(tool_|tool\.|task\.)/,
  decision: /^(interrupt_|approval\.)/,
  wait: /^(timer_|wait\.|schedule\.)/,
};

/** The groups that events can be filtered by. */
export const GROUP_NAMES = [...Object.keys(GROUPS), "session"];

/** Return the group of an event type. */
export function groupOf(type) {
  return Object.keys(GROUPS).find((name) => GROUPS[name].test(type)) ?? "session";
}

/** Return an empty log. `take(event)` is idempotent for durable events; `dropped` tells how many old ones made room. */
export function eventLog() {
  const durable = [];
  let live = [];
  let dropped = 0;

  function takeDurable(event) {
    const last = durable.at(-1)?.sequence ?? 0;
    if (event.sequence > last) durable.push(event);
    else {
      const at = durable.findLastIndex((other) => other.sequence <= event.sequence);
      if (at >= 0 && durable[at].sequence === event.sequence) return false;
      durable.splice(at + 1, 0, event);
    }
    if (durable.length > MOST_DURABLE) {
      durable.shift();
      dropped += 1;
    }
    return true;
  }

  return {
    take(event) {
      if (event.sequence !== undefined) return takeDurable(event);
      live.push({ ...event, afterSequence: durable.at(-1)?.sequence ?? 0 });
      if (live.length > MOST_LIVE * 2) live = live.slice(-MOST_LIVE);
      return true;
    },
    durable: () => durable,
    live: () => live.slice(-MOST_LIVE),
    dropped: () => dropped,
    /** Durable and live ones in the order in which they happened, as far as the page saw it. */
    all() {
      const shown = live.slice(-MOST_LIVE);
      return [...durable.map((event) => ({ place: event.sequence, event })), ...shown.map((event) => ({ place: event.afterSequence + 0.5, event }))]
        .sort((one, other) => one.place - other.place)
        .map(({ event: { afterSequence: _, ...event } }) => event);
    },
  };
}

/** Return the events that a filter lets through. `text` is searched in an event's JSON, in any case. */
export function filtered(events, { text = "", groups = null, live = true }) {
  const wanted = text.trim().toLowerCase();
  return events.filter((event) => {
    if (!live && event.sequence === undefined) return false;
    if (groups && !groups.has(groupOf(event.type))) return false;
    return !wanted || JSON.stringify(event).toLowerCase().includes(wanted);
  });
}
