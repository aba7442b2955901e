// What this browser keeps of a person's choices. One that keeps nothing works as well: the choice holds until it is closed.

const kept = new Map();

/** Return what was kept under a name, or null. */
export function recalled(name) {
  try {
    return localStorage.getItem(`perdure.${name}`) ?? kept.get(name) ?? null;
  } catch {
    return kept.get(name) ?? null;
  }
}

/** Keep a text under a name; null forgets it. */
export function keep(name, value) {
  kept.set(name, value);
  try {
    if (value === null) localStorage.removeItem(`perdure.${name}`);
    else localStorage.setItem(`perdure.${name}`, value);
  } catch {
    // then it is kept for this page
  }
}
