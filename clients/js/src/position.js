// Whether an event is new, was taken before, or has left something out (spec EVT-05). Pure.

/**
 * Say what to do with the durable event of this sequence: `accepted`, `duplicate` or `gap`.
 *
 * @param {number | null} last Sequence of the last one that was taken; null: whatever comes first is accepted.
 */
export function advanceSequence(last, sequence) {
  if (last === null || sequence === last + 1) return "accepted";
  return sequence <= last ? "duplicate" : "gap";
}

/**
 * Say what to do with the live event of this number. An older attempt's is a duplicate, a newer one's begins at 1.
 *
 * @param {{attempt: number, seen: number} | undefined} known How far the step's live events were taken.
 * @param {number | undefined} number Its `progress_sequence`; a live event without one is always accepted.
 */
export function advanceProgress(known, attempt, number) {
  if (known && attempt < known.attempt) return "duplicate";
  if (number === undefined) return "accepted";
  const seen = known?.attempt === attempt ? known.seen : 0;
  if (number <= seen) return "duplicate";
  return number === seen + 1 ? "accepted" : "gap";
}
