// Ids that nobody else makes. `crypto.randomUUID` is there only on https and on this machine; this works everywhere.

/** Return a new random id. */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
