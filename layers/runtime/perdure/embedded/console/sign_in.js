// Asks for a bearer token, where the API wants one. It is checked before the page goes on.

import { ApiError, get } from "./api.js";
import { CONFIG, NEEDS_TOKEN, bearer, saidBy, setBearer } from "./config.js";
import { setAttribute, setText, show } from "./dom.js";

/** Return `{ ready(), again() }`: the first resolves once there is a token, the second asks for another one. */
export function signIn(dialog, who, { onChange }) {
  const $ = (selector) => dialog.querySelector(selector);
  let done = null;
  let resolve = () => {};

  function ask(why = "") {
    setText($("[role=alert]"), why);
    show($("[role=alert]"), why !== "");
    setText($(".address"), CONFIG.api);
    if (!dialog.open) dialog.showModal();
    done ??= new Promise((settle) => {
      resolve = settle;
    });
    return done;
  }

  async function submit(event) {
    event.preventDefault();
    const token = $("textarea").value.trim().replace(/^Bearer\s+/i, "");
    if (!token || /\s/.test(token)) return ask("A token is one word, such as eyJhbGciOi…");
    const save = $("[type=submit]");
    setAttribute(save, "aria-busy", "true");
    setBearer(token);
    try {
      await get("/v1/agents");
      $("textarea").value = "";
      dialog.close();
      draw();
      resolve();
      done = null;
      onChange();
    } catch (error) {
      setBearer(null);
      const refused = error instanceof ApiError && (error.status === 401 || error.status === 403);
      ask(refused ? `The API refused this token: ${error.message}` : `${CONFIG.api} can't be reached: ${error.message}`);
    } finally {
      setAttribute(save, "aria-busy", null);
    }
  }

  function draw() {
    const token = bearer();
    show(who, NEEDS_TOKEN && token !== null);
    if (token === null) return;
    const { subject, expiresAt } = saidBy(token);
    const until = expiresAt ? `, until ${new Date(expiresAt).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false })}` : "";
    setText(who.querySelector("span"), `${subject ?? "signed in"}${until}`);
  }

  $("form").addEventListener("submit", submit);
  dialog.addEventListener("cancel", (event) => bearer() === null && event.preventDefault());
  who.querySelector("button").addEventListener("click", () => {
    setBearer(null);
    location.reload(); // nothing that was shown stays
  });
  draw();

  return {
    ready: () => (NEEDS_TOKEN && bearer() === null ? ask() : Promise.resolve()),
    again() {
      if (dialog.open) return;
      setBearer(null);
      draw();
      ask("The token is no longer accepted. Give another one to go on: nothing is lost.");
    },
  };
}
