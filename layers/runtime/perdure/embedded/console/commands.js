// What a person does to a session, as requests. Each shows at once what it will do and ends as the server has it.

import { moved } from "../client/order.js";
import { ApiError, get, request, sessionPath } from "./api.js";
import { newId } from "./ids.js";

/**
 * Return the commands of a session.
 *
 * @param {{sessionId: string, apply: (action: object) => void, refresh: () => Promise<void>,
 *   refreshSchedules: () => Promise<void>,
 *   onError: (message: string | null) => void, onChange: () => void}} session
 */
export function commandsOf({ sessionId, apply, refresh, refreshSchedules, onError, onChange }) {
  // One after the other: messages arrive in the order in which they were written, and each command on the inbox
  // counts on the order that the one before it has left.
  let messages = Promise.resolve();
  let inbox = Promise.resolve();
  let waits = Promise.resolve();

  const path = (...rest) => sessionPath(sessionId, ...rest);

  // Returns the reply, or null when the server refused.
  async function during(key, what, method, address, body, again = refresh) {
    const id = newId();
    apply({ type: "begin", key, id, what });
    let reply = null;
    try {
      reply = await request(method, address, body, { key: id, onDelay: onError });
      onError(null);
    } catch (error) {
      onError(error.message);
    }
    await again();
    apply({ type: "end", key, id });
    return reply;
  }

  const againOf = (waitId) => (waitId.startsWith("schedule:") ? refreshSchedules : refresh);

  function inInbox(messageId, what, method, body, ...rest) {
    const command = () => during(`inbox/${messageId}`, what, method, path("inbox", messageId, ...rest), body);
    inbox = inbox.then(command);
    return inbox;
  }

  // Resolves to why the server refused, or to null. `quiet`: whoever asked tells the reason.
  async function resolve(interruptId, decision, body, quiet = false) {
    apply({ type: "decide", interruptId, decision });
    let problem = null;
    try {
      await request("POST", path("interrupts", interruptId), body, { onDelay: onError });
      onError(null);
    } catch (error) {
      problem = error.message;
      onError(quiet && error.status === 400 ? null : problem);
    }
    await refresh(); // an approval that is no longer open is not offered again (field case F045)
    apply({ type: "decide_answered", interruptId });
    return problem;
  }

  async function deliver(messageId, body) {
    try {
      const { delivered_as: as } = await request("POST", path("inputs"), body, {
        key: messageId,
        onDelay: (reason) => apply({ type: "send_delayed", messageId, problem: `${reason} Trying again…` }),
      });
      if (as === "answer") apply({ type: "send_answered", messageId }); // it answered a question, and is no message
      refresh();
      onChange();
      return true;
    } catch (error) {
      apply({ type: "send_refused", messageId });
      onError(error.message);
      return false;
    }
  }

  return {
    /**
     * Send a message. Resolves to whether the server took it. `waits`: it goes to the inbox as far as the page knows;
     * `agent`: whose session this becomes.
     */
    send(text, { delivery = null, files = [], waits = false, agent = null } = {}) {
      const messageId = newId();
      const more = { ...(delivery && { delivery }), ...(files.length && { files }), ...(agent && { agent }) };
      const body = { text, message_id: messageId, ...more };
      apply({ type: "send", messageId, text, delivery, waits });
      const sent = messages.then(() => deliver(messageId, body));
      messages = sent;
      return sent;
    },

    /**
     * Approve or reject a call as it was shown. Resolves to why the server refused, or to null.
     *
     * `changed`: approve it with other arguments. `ahead`: approve calls like it ahead.
     */
    decide(interruptId, approved, { message, argumentsHash, changed, ahead }) {
      const more = {
        ...(argumentsHash && { arguments_hash: argumentsHash }),
        ...(changed && { arguments: changed }),
        ...(ahead && { grant: ahead }),
      };
      return resolve(interruptId, approved, { approved, ...(message && { message }), ...more }, changed !== undefined);
    },

    /** Answer a question. */
    answer: (interruptId, answer, message) =>
      resolve(interruptId, "answered", { answer, ...(message && { message }) }),

    /** Give an application the value that it asks for. */
    give: (interruptId, value, message) => resolve(interruptId, "answered", { value, ...(message && { message }) }),

    /** Take back an approval that was given ahead. */
    revoke: (id) => during(`grant/${id}`, {}, "DELETE", path("grants", id)),

    /** Leave a question without an answer. */
    decline: (interruptId, message) =>
      resolve(interruptId, "declined", { approved: false, ...(message && { message }) }),

    /** Go on without waiting for a time. */
    skipWait: (id) => during(`wait/${id}`, { does: "skip" }, "POST", path("waits", id, "skip"), {}, againOf(id)),

    /** Move a time, or a deadline. Resolves to whether the server took it. */
    changeWait(id, until) {
      const what = { does: "change", until };
      const change = () => during(`wait/${id}`, what, "PATCH", path("waits", id), { until }, againOf(id));
      waits = waits.then(change); // the last one that was asked for holds
      return waits.then((reply) => reply !== null);
    },

    /** Do without what is waited for. */
    cancelWait: (id) => during(`wait/${id}`, { does: "cancel" }, "DELETE", path("waits", id)),

    /**
     * Stop a turn where the screen stands: `frontier` is the cursor that was drawn last, `partials` the text (spec
     * STOP-05). The page shows it at once, a refusal takes that back (STOP-07).
     */
    async stop(turnId, { frontier, partials }) {
      apply({ type: "stop", turnId, partials });
      const body = { turn_id: turnId, ...(frontier && { frontier }) };
      try {
        const { result } = await request("POST", path("stop"), body, { onDelay: onError });
        onError(null);
        if (result !== "recorded" && result !== "already_recorded") {
          apply({ type: "stop_refused", turnId });
          if (result !== "too_late") onError(`The turn was not stopped: ${String(result).replaceAll("_", " ")}.`);
        }
      } catch (error) {
        apply({ type: "stop_refused", turnId });
        onError(error.message);
      }
      refresh();
    },

    /** Run the failed model step again, or don't wait any longer for the provider. Each call is a retry of its own. */
    retry: () => during("retry", {}, "POST", path("retry"), { retry_id: newId() }),

    /** Let the inbox go on behind a failed turn. */
    dismiss: (turnId) => during("dismiss", {}, "POST", path("stop"), turnId ? { turn_id: turnId } : {}),

    /** Close the gate, or open it. */
    pause: (paused) => during("gate", { paused }, "POST", path(paused ? "pause" : "resume")),

    /** Replace the settings. Resolves to null, or to why the server refused. */
    async saveSettings(settings) {
      try {
        await request("PUT", path("settings"), settings);
        await refresh();
        return null;
      } catch (error) {
        return error.message;
      }
    },

    /** Give the session another title. Resolves to whether the server took it. */
    rename: async (title) => (await during("title", { title }, "PUT", path("title"), { title })) !== null,

    /** Change the text of a message that waits. Resolves to whether the server took it. */
    edit: async (messageId, text) => (await inInbox(messageId, { text }, "PATCH", { text })) !== null,

    /** Put a message that waits before another one; `before` null: at the end. `ids` is the order that is shown. */
    move(messageId, before, ids) {
      const order = moved(ids, messageId, before);
      const id = newId();
      apply({ type: "begin", key: "order", id, what: { ids: order } });
      const place = before === null ? { after: ids.filter((other) => other !== messageId).at(-1) } : { before };
      return inInbox(messageId, { quiet: true }, "PATCH", place).then(() => apply({ type: "end", key: "order", id }));
    },

    /** Take a waiting message back. Resolves to its `{ text, files }`, or to null when that was too late. */
    async recall(messageId) {
      const recalled = await inInbox(messageId, {}, "DELETE");
      if (recalled === null) return null;
      const files = (recalled.files ?? []).map(({ type: _, ...file }) => file);
      return { text: recalled.text ?? "", files };
    },

    /** Deliver a waiting message in another way. */
    deliver: (messageId, delivery) => inInbox(messageId, {}, "POST", { delivery }, "deliver"),

    /** Have a message come by itself, or change one that does. Resolves to why the server refused, or to null. */
    async schedule(id, body) {
      try {
        if (id === null) await request("POST", path("schedules"), body, { onDelay: onError });
        else await request("PATCH", path("schedules", id), body, { onDelay: onError });
        await refreshSchedules();
        onChange();
        return null;
      } catch (error) {
        return error.message;
      }
    },

    /** Forget a schedule. */
    cancelSchedule: (id) =>
      during(`wait/schedule:${id}`, { does: "cancel" }, "DELETE", path("schedules", id), undefined, refreshSchedules),

    /** Load the messages before the oldest one that is shown. */
    async older(before) {
      try {
        const page = await get(path("messages"), { before, limit: 50 });
        apply({ type: "older_messages", page });
      } catch (error) {
        onError(error instanceof ApiError ? error.message : "The server can't be reached.");
      }
    },
  };
}
