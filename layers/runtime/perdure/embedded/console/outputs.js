// The result of a tool call. Of a long one only the start comes with its message; the rest is read when it is wanted.

import { get, sessionPath } from "./api.js";
import { codeBlock } from "./codeblock.js";
import { el, setAttribute, setText, show } from "./dom.js";

const PIECE_CHARACTERS = 500_000; // the most that one answer holds

/** Return all of an output, piece by piece; `onPiece(share)` hears how much of it is there, from 0 to 1. */
export async function wholeOutput(sessionId, callId, onPiece) {
  const pieces = [];
  for (let offset = 0; offset !== undefined; ) {
    const page = await get(sessionPath(sessionId, "tool-calls", callId, "output"), { offset, limit: PIECE_CHARACTERS });
    pieces.push(page.output);
    offset = page.next_offset;
    onPiece((offset ?? page.total_characters) / page.total_characters);
  }
  return pieces.join("");
}

/** Return `{node, update(call)}`. `onOutput(callId, onPiece)` resolves to all of a call's output. */
export function resultNode(onOutput) {
  let shown = null;
  let whole = null;
  const output = codeBlock({ label: "Result" });
  const told = el("p", { class: "note", role: "status" });
  const all = el("button", { type: "button", onclick: load }, "Show all");
  const rest = el("div", { class: "rest" }, told, all);
  const node = el("details", { class: "fold" }, el("summary", {}, "Result"), output.node, rest);

  async function load() {
    if (all.getAttribute("aria-busy") === "true") return;
    setAttribute(all, "aria-busy", "true");
    try {
      whole = await onOutput(shown.key, (share) => setText(told, `Loading… ${Math.round(share * 100)} %`));
      draw();
      output.code.focus(); // the button is gone
    } catch (error) {
      setText(told, `The rest could not be loaded: ${error.message}`);
    } finally {
      setAttribute(all, "aria-busy", null);
    }
  }

  function draw() {
    output.update(shown.output === null ? "" : pretty(whole ?? shown.output));
    show(rest, shown.cutBytes !== null && whole === null);
  }

  return {
    node,
    update(call) {
      shown = call;
      setText(told, `Only the start is shown, of ${call.cutBytes} bytes.`);
      draw();
      show(node, call.output !== null);
    },
  };
}

/** An output is text; one that is a JSON object or list is easier to read on several lines. */
export function pretty(output) {
  if (typeof output !== "string") return JSON.stringify(output, null, 2);
  try {
    const value = JSON.parse(output);
    return value !== null && typeof value === "object" ? JSON.stringify(value, null, 2) : output;
  } catch {
    return output;
  }
}
