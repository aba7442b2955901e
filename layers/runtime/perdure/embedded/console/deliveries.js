// The ways in which a message can reach an agent that may be at work. Pure.

/** `keys` are those of the message field; `tells` says what it does to the running turn. */
export const DELIVERIES = [
  { name: "queue", label: "Queue", keys: "Enter", tells: "Waits until the running turn is over." },
  { name: "inject", label: "Add", keys: "Alt+Enter", tells: "Joins the running turn at its next model call." },
  {
    name: "steer",
    label: "Redirect",
    keys: "Ctrl+Enter",
    tells: "What has started is finished, nothing else of this turn is run, and this is next.",
  },
  {
    name: "interrupt_next",
    label: "Interrupt",
    keys: "Ctrl+Shift+Enter",
    tells: "Stops the running turn now, keeps what it said, and this is next.",
  },
];

/** What is written answers the one question that is open and takes any text. Not a delivery of a message. */
export const ANSWER = { name: "answer", label: "Answer", keys: "Enter", tells: "Answers the question that is open." };

/**
 * Return the deliveries that make a difference now, the usual one first; an empty list: a message is simply sent.
 *
 * @param {{turnId: string | null, stopping: boolean, held: boolean, paused: boolean, openQuestion: string | null}} shown
 */
export function deliveriesFor({ turnId, stopping, held, paused, openQuestion = null }) {
  if (turnId && !stopping) return openQuestion ? [ANSWER, { ...QUEUE, keys: "" }, ...DELIVERIES.slice(1)] : DELIVERIES;
  if (turnId) return [QUEUE, { ...INTERRUPT, ...FIRST }];
  if (held) return [{ ...QUEUE, tells: WAITS_FOR_A_PERSON }, { ...INTERRUPT, ...FIRST }];
  return paused ? [QUEUE] : [];
}

const [QUEUE, , , INTERRUPT] = DELIVERIES;
const FIRST = { label: "Send first", tells: "This is next, before all that waits." };
const WAITS_FOR_A_PERSON = "Waits until the failed turn is retried or dismissed.";

/** Return the delivery that a key asks for, `chosen` for a plain Enter, or null when it sends nothing. */
export function deliveryOf({ key, shiftKey, altKey, ctrlKey, metaKey, isComposing }, chosen) {
  if (key !== "Enter" || isComposing) return null;
  const control = ctrlKey || metaKey;
  if (control) return shiftKey ? "interrupt_next" : "steer";
  if (altKey) return "inject";
  return shiftKey ? null : chosen;
}
