// The order of the inbox with this page's own moves on top. Pure.

/** Return the ids with one of them before another one, or at the end (`before` null). */
export function moved(ids, id, before) {
  const others = ids.filter((other) => other !== id);
  const place = before === null ? others.length : others.indexOf(before);
  return [...others.slice(0, place), id, ...others.slice(place)];
}

/**
 * Return the inbox's entries in the order that this page has asked for last.
 *
 * Behind what that order does not know yet; what it still knows and is gone is left out.
 */
export function inboxEntries(state) {
  const entries = state.snapshot?.inbox ?? [];
  const ids = state.doing.order?.ids;
  if (!ids) return entries;
  const place = (entry) => (ids.includes(entry.message_id) ? ids.indexOf(entry.message_id) : ids.length);
  return entries.toSorted((one, other) => place(one) - place(other));
}
