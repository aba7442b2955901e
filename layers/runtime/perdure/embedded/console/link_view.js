// How the page hears of its session: a light in the head, and, when a cut lasts, a line that counts down and can be ended.

import { countdown } from "./countdown.js";
import { setAttribute, setText, show } from "./dom.js";

/** Return a function that draws a state of `client/connection.js`. `onRetry`, `onGiveUp` answer the buttons in `bar`. */
export function linkView(light, bar, { onRetry, onGiveUp }) {
  const $ = (selector) => bar.querySelector(selector);
  const left = countdown();
  $("p").after(left.node);
  $(".connect").addEventListener("click", onRetry);
  $(".give-up").addEventListener("click", onGiveUp);
  window.addEventListener("online", onRetry);

  return ({ status, attempt = 0, retryAt = null }) => {
    const over = status === "given_up" || status === "denied";
    const waits = status === "waiting" && attempt > 1;
    setAttribute(light, "data-online", status === "open" ? "true" : "false");
    setText(light.firstElementChild, status === "open" ? "Connected" : over ? "Not connected" : "Reconnecting…");
    if (status === "connecting" && attempt > 1) return; // a try does not hide the line
    show(bar, waits || over);
    setText($("p"), over ? "Not connected: what you see may be old." : "The server can't be reached. What runs there goes on.");
    left.until(waits ? new Date(retryAt).toISOString() : null, "next try");
    show($(".give-up"), waits);
  };
}
