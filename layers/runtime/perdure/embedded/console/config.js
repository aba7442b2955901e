// Where the API is, and who calls it. The server's own page needs neither: it is at its API, which asks for no token.

const TOKEN = "perdure.token";

function told(name) {
  return globalThis.document?.querySelector(`meta[name="perdure:${name}"]`)?.content ?? "";
}

/** `api`: where the API is, without a slash at the end; empty: here. `socket`: the WebSocket, if there is one. */
export const CONFIG = { api: told("api").replace(/\/+$/, ""), socket: told("socket"), stream: told("stream") };

/** Whether a token is needed. */
export const NEEDS_TOKEN = CONFIG.api !== "";

let token = null;

/** Return the bearer token, or null. It is kept for this tab alone, and never stands in an address. */
export function bearer() {
  if (!NEEDS_TOKEN) return null;
  try {
    token ??= sessionStorage.getItem(TOKEN);
  } catch {
    // then it holds until the page is loaded again
  }
  return token;
}

/** Keep another token; null forgets it. */
export function setBearer(next) {
  token = next;
  try {
    if (next === null) sessionStorage.removeItem(TOKEN);
    else sessionStorage.setItem(TOKEN, next);
  } catch {
    // then it holds until the page is loaded again
  }
}

/** Return what a token says of itself, unchecked: `{ subject, expiresAt }`. Pure. */
export function saidBy(jwt) {
  try {
    const [, body] = jwt.split(".");
    const bytes = Uint8Array.from(atob(body.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
    const claims = JSON.parse(new TextDecoder().decode(bytes));
    const { sub, email, name, exp } = claims;
    return { subject: name ?? email ?? sub ?? null, expiresAt: Number.isFinite(exp) ? new Date(exp * 1000).toISOString() : null };
  } catch {
    return { subject: null, expiresAt: null };
  }
}
