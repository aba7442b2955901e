// The text of model steps that have not been stored yet, and where it stands among the messages. Pure.

import { isInSnapshot, isNewer } from "./turns.js";

/**
 * Return the live texts that are to be shown: `{ key, stepId, turnId, text, reasoning, segments, drafts, held, live, attempt,
 * incomplete }`.
 *
 * Live text is shown until the message that replaces it is there, and never beside it. `key` is the one that the
 * message will have (`<turn>/<how-manieth answer of the turn>`), so that what is drawn of the one turns into the other.
 * `segments`: text and reasoning as the message's parts will have them. `drafts`: calls whose arguments are being written.
 * `incomplete`: a piece of it was lost on the way, and only the stored message will have it. `held`: this page has stopped
 * its turn, and it grows no more (spec STOP-07).
 */
export function liveTexts(state) {
  return Object.values(state.partials)
    .map((partial) => ({ ...partial, ...previewOf(state, partial) }))
    .filter((partial) => hasSomething(partial) && !isStored(state, partial))
    .map((partial) => ({
      key: `${partial.turnId}/${ordinalOf(state, partial) ?? partial.stepId}`,
      stepId: partial.stepId,
      turnId: partial.turnId,
      text: partial.text,
      reasoning: partial.reasoning,
      segments: partial.segments,
      drafts: partial.held || partial.finishedSequence !== undefined ? [] : Object.values(partial.drafts),
      held: Boolean(partial.held),
      live: !partial.held && partial.finishedSequence === undefined,
      attempt: partial.attempt,
      incomplete: Boolean(partial.incomplete),
    }));
}

function hasSomething({ text, reasoning, drafts }) {
  return Boolean(text || reasoning) || Object.keys(drafts).length > 0;
}

// From the moment of this page's stop on, an answer grows no more; what is stored comes with the snapshot.
function previewOf(state, { stepId, turnId }) {
  if (state.stopping?.turnId !== turnId) return {};
  const { text = "", reasoning = "", segments = [] } = state.stopping.partials[stepId] ?? {};
  return { text, reasoning, segments, drafts: {}, held: true };
}

function isStored(state, partial) {
  if (isInSnapshot(state, { sequence: partial.finishedSequence, version: partial.finishedVersion })) return true;
  const stored = state.messages.filter((message) => message.turn_id === partial.turnId);
  const told = state.snapshot !== null && !isNewer(state, state.turns[partial.turnId]);
  if (told && stored.length > 0 && state.snapshot.state?.turn_id !== partial.turnId) return true; // the turn is over
  const ordinal = ordinalOf(state, partial);
  return ordinal !== null && stored.filter((message) => message.role === "assistant").length >= ordinal;
}

// The how-manieth model step of its turn; every committed one but the last left one message of the assistant.
// Null when the start of the turn was not seen.
function ordinalOf(state, partial) {
  const turn = state.turns[partial.turnId];
  if (turn?.startedSequence === undefined) return null;
  const models = turn.steps.filter((id) => state.steps[id]?.kind === "model");
  return models.indexOf(partial.stepId) + 1 || null;
}
