// What a person does to a session. Each action copies the ids that it needs from the state, shows at once what it will do,
// resolves when the server has stored it, and says in `.confirmed` when the stream has returned it.

import * as commands from "./commands.js";
import { ApiError, UnsettledError } from "./http.js";
import { checkCommand } from "./schema.js";
import { isPaused } from "./status.js";
import { frontierOf, openInterrupts, runningTurn } from "./turns.js";

/**
 * Return the actions of a session.
 *
 * An action rejects with a TypeError (it can't be sent), an ApiError (refused: nothing has changed) or an UnsettledError
 * (no answer). The last one has `resend()`, which sends the same command with the same key: it counts once. Nothing is
 * sent again by itself (spec API-08).
 */
export function actionsOf({ sessionId, agent, getState, apply, refresh, environment, dispatch, waitForConfirmation }) {
  // One after the other: messages arrive as they were written, a command on the inbox counts on the one before it,
  // and the last title stays.
  const lanes = { messages: Promise.resolve(), inbox: Promise.resolve(), title: Promise.resolve() };

  function inLane(name, run) {
    if (name === null) return run();
    const done = lanes[name].then(run, run);
    lanes[name] = done.catch(() => {});
    return done;
  }

  /**
   * Run a command. `begin()`, `end(reply)` and `refused(error)` say it to the state; `unsettled(error)`: there was no
   * answer; `by(state)`: whether the stream has returned it; `read()`: a snapshot is there that knows of it.
   */
  function run(make, { begin, end, refused, unsettled = () => {}, by = null, lane = null, read, done = () => {} }) {
    const confirmation = waitForConfirmation(by, read);
    const stored = attempt();
    stored.confirmed = confirmation.promise;
    return stored;

    async function attempt() {
      let command;
      try {
        command = make();
        checkCommand(command);
      } catch (error) {
        confirmation.refused(error);
        throw error;
      }
      begin?.(command);
      try {
        const reply = await inLane(lane, () => dispatch(command));
        end?.(reply, command);
        confirmation.acknowledged();
        refresh().then(() => done(command));
        return reply;
      } catch (error) {
        if (error instanceof UnsettledError) {
          unsettled(error, command);
          error.resend = () => run(() => command, { begin, end, refused, unsettled, by, lane, read, done });
        } else {
          refused?.(error, command);
          confirmation.refused(error);
        }
        refresh().then(() => done(command));
        throw error;
      }
    }
  }

  const keyOf = ({ idempotencyKey } = {}) => idempotencyKey ?? environment.newKey();

  /** A command that shows as `what` under `key` until the server's data says the same, or refuses it. */
  function during(key, what, make, { by, lane } = {}) {
    const { id: _, ...before } = getState().doing[key] ?? {}; // an earlier one that is still on its way
    return run(make, {
      begin: ({ idempotency_key: id }) => apply({ type: "begin", key, id, what: { ...before, ...what } }),
      done: ({ idempotency_key: id }) => apply({ type: "end", key, id }),
      by,
      lane,
    });
  }

  function decide(interruptId, decision, make) {
    return run(make, {
      begin: () => apply({ type: "decide", interruptId, decision }),
      done: () => apply({ type: "decide_answered", interruptId }),
      by: (state) => state.decisions[interruptId] !== undefined,
    });
  }

  /** The open interrupt with this id, or the only one of a kind. */
  function openOne(kind, given) {
    const open = openInterrupts(getState());
    const fitting = given === undefined ? open.filter((one) => one.kind === kind) : open.filter(({ interrupt_id: id }) => id === given);
    if (fitting.length === 1) return fitting[0];
    if (given !== undefined) throw new TypeError(`${JSON.stringify(given)} is not open: it was decided or withdrawn, or is not known here yet`);
    throw new TypeError(`${fitting.length} of the kind ${kind} are open: name the \`interrupt_id\` of one`);
  }

  function decideApproval(given, decision, build) {
    let interrupt;
    try {
      interrupt = openOne("approval", given);
    } catch (error) {
      return run(() => { throw error; }, {});
    }
    return decide(interrupt.interrupt_id, decision, () => build(interrupt));
  }

  const isReceived = (messageId) => (state) =>
    [...state.messages, ...(state.snapshot?.inbox ?? [])].some(({ message_id: id }) => id === messageId) ||
    Object.hasOwn(state.joined, messageId) ||
    Object.values(state.turns).some((turn) => turn.messageId === messageId || turn.messageIds?.includes(messageId));

  return {
    /**
     * Send a message. Resolves to its receipt.
     *
     * @param {object} [options] `delivery`, `files`, `metadata`, `settings`, `runSettings`, `messageId`, `idempotencyKey`.
     */
    send(text, options = {}) {
      const state = getState();
      const key = keyOf(options);
      const { delivery = null, messageId = `${commands.RESERVED_PREFIX}${key}` } = options;
      const waits = options.waits ?? (runningTurn(state) !== null || isPaused(state));
      const make = () => commands.message(sessionId, text, { agent: state.snapshot?.agent ? undefined : agent, ...options, key });
      return run(make, {
        lane: "messages",
        begin: () => apply({ type: "send", messageId, text, delivery, waits }),
        end: ({ delivered_as: as }) => as === "answer" && apply({ type: "send_answered", messageId }),
        refused: () => apply({ type: "send_refused", messageId }),
        unsettled: ({ message }) => apply({ type: "send_delayed", messageId, problem: message }),
        // A snapshot that does not have it either: it was taken back meanwhile, or is older than what is shown.
        read: () => getState().outbox.some((item) => item.messageId === messageId) && apply({ type: "send_answered", messageId }),
        by: isReceived(messageId),
      });
    },

    /** Take a message that got no answer off the screen; what became of it comes with the stream. */
    forget: (messageId) => apply({ type: "send_refused", messageId }),

    /** Let a call run, with the arguments that are shown. `interruptId` may be left out while one approval is open. */
    approve(interruptId, { message, arguments: changed, grant, ...options } = {}) {
      return decideApproval(interruptId, true, ({ interrupt_id: id, arguments_hash: argumentsHash }) =>
        commands.approval(sessionId, id, { key: keyOf(options), argumentsHash, message, arguments: changed, grant }));
    },

    /** Reject a call. */
    reject(interruptId, { message, ...options } = {}) {
      return decideApproval(interruptId, false, ({ interrupt_id: id, arguments_hash: argumentsHash }) =>
        commands.rejection(sessionId, id, { key: keyOf(options), argumentsHash, message }));
    },

    /** Answer a question. */
    answer: (interruptId, text, { message, ...options } = {}) =>
      decide(interruptId, "answered", () => commands.answer(sessionId, interruptId, text, { key: keyOf(options), message })),

    /** Give an application the value that it asks for. */
    give: (interruptId, value, { message, ...options } = {}) =>
      decide(interruptId, "answered", () => commands.input(sessionId, interruptId, value, { key: keyOf(options), message })),

    /** Leave a question without an answer. */
    decline: (interruptId, { message, ...options } = {}) =>
      decide(interruptId, "declined", () => commands.rejection(sessionId, interruptId, { key: keyOf(options), message })),

    /**
     * Stop the running turn where the screen stands (spec STOP-05), or dismiss a failed one. Resolves to `{ result }`.
     *
     * @param {object} [options] `turnId`, `frontier` and `partials` of what was drawn, if that is behind the state;
     *   `disposition`.
     */
    stop(options = {}) {
      const state = getState();
      const turn = runningTurn(state);
      const turnId = options.turnId ?? turn?.turnId;
      const frontier = options.frontier ?? (turn?.turnId === turnId ? (frontierOf(state, turn) ?? undefined) : undefined);
      const { partials, disposition } = options;
      const back = () => turnId !== undefined && apply({ type: "stop_refused", turnId });
      const isStopped = ({ result }) => result === "recorded" || result === "already_recorded";
      return run(() => commands.stop(sessionId, { key: keyOf(options), turnId, frontier, disposition }), {
        begin: () => turnId !== undefined && apply({ type: "stop", turnId, partials }),
        end: (reply) => isStopped(reply) || back(),
        refused: back,
        unsettled: back,
        by: (now) => turnId !== undefined && ["stopping", "cancelled"].includes(now.turns[turnId]?.status),
      });
    },

    /** Run the failed model step again, or wait no longer for the provider. Each call is a retry of its own. */
    retry(options = {}) {
      const key = keyOf(options);
      const retryId = `${commands.RESERVED_PREFIX}${key}`;
      const by = (state) => Object.values(state.turns).some((turn) => turn.retryId === retryId);
      return during("retry", {}, () => commands.retry(sessionId, { key }), { by });
    },

    /** Let nothing new begin. */
    pause: (options) => during("gate", { paused: true }, () => commands.pause(sessionId, { key: keyOf(options) })),

    /** Let everything begin again. */
    resume: (options) => during("gate", { paused: false }, () => commands.resume(sessionId, { key: keyOf(options) })),

    /** Give the session a title: one line of 1 to 200 characters. */
    rename(title, options) {
      const name = String(title).trim().replace(/\s+/g, " "); // as the server takes it
      const by = getState().title === name ? null : (state) => state.title === name;
      return during("title", { title: name }, () => commands.rename(sessionId, title, { key: keyOf(options) }), { by, lane: "title" });
    },

    /** Change the text of a message that waits. */
    edit: (messageId, text, options) =>
      during(`inbox/${messageId}`, { text }, () => commands.edit(sessionId, messageId, text, { key: keyOf(options) }), { lane: "inbox" }),

    /** Move a message that waits: `{ before }`, `{ after }` or `{ position }`. */
    move: (messageId, place, options) =>
      during(`inbox/${messageId}`, { quiet: true }, () => commands.move(sessionId, messageId, { ...place, key: keyOf(options) }), { lane: "inbox" }),

    /** Take a message that waits back. Resolves to what it said. */
    remove: (messageId, options) =>
      during(`inbox/${messageId}`, {}, () => commands.remove(sessionId, messageId, { key: keyOf(options) }), { lane: "inbox" }),

    /** Deliver a message that waits in another way. */
    deliver: (messageId, delivery, options) =>
      during(`inbox/${messageId}`, {}, () => commands.deliver(sessionId, messageId, delivery, { key: keyOf(options) }), { lane: "inbox" }),

    /** Send a command that was built elsewhere (`commands.js`). Resolves to the server's reply. */
    push: (command) => run(() => command, {}),
  };
}

export { ApiError, UnsettledError };
