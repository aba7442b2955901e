// The inbox: what waits, in its order, with this page's own changes on top until they are answered. Pure.

import { inboxEntries } from "../client/order.js";
import { isPaused, isStopping } from "../client/status.js";
import { filesText, writerOf } from "./format.js";

const NOTES = {
  inject: "joins this turn at its next model call",
  passive: "goes with the next message",
  steer: "next, in place of what this turn would do",
};

/** Return the rows of the inbox; messages that are still being sent come last. `turn`: the running one, or null. */
export function inboxOf(state, turn) {
  const entries = inboxEntries(state);
  const takesMore = turn !== null && !isStopping(state, turn);
  const rows = entries.map((entry, index) => {
    const doing = state.doing[`inbox/${entry.message_id}`];
    const busy = doing !== undefined && !doing.quiet;
    const movable = (other) => other !== undefined && classOf(other) === classOf(entry);
    return {
      key: entry.message_id,
      text: doing?.text ?? entry.text,
      // Only the head of a long text is here: saving it would lose the rest.
      editable: !entry.truncated,
      note: busy ? "Saving…" : noteOf(entry),
      busy,
      sending: false,
      place: index + 1,
      count: entries.length,
      up: movable(entries[index - 1]),
      down: movable(entries[index + 1]),
      deliveries: deliveriesOf(entry, takesMore),
      sendLabel: turn === null && isPaused(state) ? "Send first" : "Send now",
    };
  });
  return [...rows, ...sending(state, entries.length)];
}

// Messages change places among those of their class only.
function classOf({ state, urgent = false }) {
  return state === "steered" ? "steered" : String(urgent);
}

function noteOf(entry) {
  const writer = writerOf(entry);
  const how = NOTES[entry.delivery] ?? (entry.urgent ? "before all that is not urgent" : null);
  return [writer && `From ${writer}`, how, filesText(entry.files ?? [])].filter(Boolean).join(" · ");
}

function deliveriesOf(entry, takesMore) {
  const joins = takesMore ? ["inject", "steer"] : [];
  const waits = entry.delivery === "queue" ? [] : ["queue"];
  return ["interrupt_next", ...waits, ...joins].filter((name) => name !== entry.delivery);
}

function sending(state, before) {
  return state.outbox
    .filter((item) => item.waits)
    .map((item, index) => ({
      key: item.messageId,
      text: item.text,
      editable: false,
      note: item.problem ?? "Sending…",
      busy: true,
      sending: true,
      place: before + index + 1,
      count: before,
      up: false,
      down: false,
      deliveries: [],
      sendLabel: "",
    }));
}
