// The message field: what is written, how it is delivered, and the keys for that.

import { attached } from "./attached.js";
import { ANSWER, DELIVERIES, deliveriesFor, deliveryOf } from "./deliveries.js";
import { el, setText, show } from "./dom.js";

const MAX_ROWS = 8;

/**
 * Return `{ update(shown), put(text, files), focus() }` of the message field in `form`.
 *
 * `onSend(text, delivery, files)` resolves to whether the message was taken; `onStop()` and `onRecall()` answer the keys.
 */
export function composer(form, hint, { onSend, onStop, onRecall }) {
  const field = form.querySelector("textarea");
  const send = form.querySelector("[type=submit]");
  const files = attached(form.querySelector(".attached"), { onLast: () => field.focus() });
  const choice = form.querySelector("fieldset");
  const radios = new Map([ANSWER, ...DELIVERIES].map((delivery) => [delivery.name, radio(delivery)]));
  choice.append(...[...radios.values()].map(({ node }) => node));
  let offered = [];
  let running = false;
  let recalls = false; // whether the last message that waits can be taken back

  function radio({ name, label, keys }) {
    const input = el("input", { type: "radio", name: "delivery", value: name, onchange: tell });
    const title = el("span", {}, label);
    const kbd = el("kbd", { "aria-hidden": "true" }, keys);
    return { input, title, kbd, node: el("label", {}, input, title, kbd) };
  }

  function chosen() {
    return offered.find(({ name }) => radios.get(name).input.checked) ?? offered[0] ?? null;
  }

  function choose(name) {
    for (const [other, { input }] of radios) input.checked = other === name;
  }

  const usual = () => offered[0]?.name ?? "queue";

  function tell() {
    const delivery = chosen();
    setText(send, offered.length ? delivery.label : "Send");
    const keys = [
      offered.length === 0 && "Enter sends, Shift+Enter makes a new line.",
      running && "Esc stops the turn.",
      recalls && "↑ takes the last waiting message back.",
    ];
    setText(hint.firstElementChild, offered.length === 1 ? "Waits until you resume." : (delivery?.tells ?? ""));
    setText(hint.lastElementChild, keys.filter(Boolean).join(" "));
  }

  function fit() {
    field.rows = Math.min(MAX_ROWS, Math.max(1, field.value.split("\n").length));
  }

  async function submit(name) {
    const text = field.value;
    if (!text.trim()) return;
    const delivery = offered.some((other) => other.name === name) ? name : (chosen()?.name ?? null);
    field.value = "";
    fit();
    choose(usual());
    tell();
    const taken = files.take();
    const accepted = await onSend(text, delivery, taken);
    if (!accepted) put(text, taken); // a refused message is not lost
  }

  function put(text, more = []) {
    files.add(more);
    field.value = field.value.trim() ? `${text}\n\n${field.value}` : text;
    fit();
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit(chosen()?.name);
  });
  field.addEventListener("input", fit);
  field.addEventListener("keydown", (event) => {
    const delivery = deliveryOf(event, chosen()?.name ?? "queue");
    if (delivery) {
      event.preventDefault();
      submit(delivery);
    } else if (event.key === "Escape" && running && !event.isComposing) {
      event.preventDefault();
      onStop();
    } else if (event.key === "ArrowUp" && field.value === "" && recalls) {
      event.preventDefault();
      onRecall();
    }
  });
  choose("queue");

  return {
    update(shown) {
      const couldAnswer = offered.includes(ANSWER);
      offered = deliveriesFor(shown);
      // What somebody is in the middle of writing does not turn into an answer by itself.
      if (offered.includes(ANSWER) && !couldAnswer && field.value.trim() === "") choose(ANSWER.name);
      running = shown.turnId !== null && !shown.stopping;
      recalls = shown.inbox.length > 0 && !shown.inbox.at(-1).sending;
      for (const [name, { input, title, kbd, node }] of radios) {
        const here = offered.find((delivery) => delivery.name === name);
        show(node, here !== undefined);
        if (here) {
          setText(title, here.label);
          setText(kbd, here.keys);
        } else if (input.checked) choose(name === ANSWER.name ? "queue" : usual());
      }
      show(choice, offered.length > 1);
      tell();
    },
    put,
    focus: () => field.focus(),
  };
}
