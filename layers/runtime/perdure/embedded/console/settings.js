// The settings of a session as they are: one JSON object, replaced whole, with a picker for its approval mode.

import { el, setText, show } from "./dom.js";

const MAX_BYTES = 16 * 1024; // of compact JSON (spec SET-04)

const MODES = [
  { name: "", label: "As the agent says", tells: "No mode of this session's own." },
  { name: "ask", label: "Ask", tells: "Asks for the calls whose tools want it." },
  { name: "allow_all", label: "Allow all", tells: "Runs every call. Nobody is asked." },
  { name: "read_only", label: "Read only", tells: "Runs reads. Every other call is turned down." },
  { name: "always_ask", label: "Always ask", tells: "Asks before every call." },
  { name: "deny_all", label: "Deny all", tells: "What would be asked is turned down. Nobody is asked." },
];

/** Return the settings that a text stands for: `{ settings }`, or `{ problem }` for people. Pure. */
export function parsed(text) {
  let settings;
  try {
    settings = text.trim() ? JSON.parse(text) : {};
  } catch (error) {
    return { problem: `This is no JSON: ${error.message}` };
  }
  if (settings === null || typeof settings !== "object" || Array.isArray(settings)) {
    return { problem: "Settings are a JSON object, in braces." };
  }
  const mode = settings.approval_mode ?? "";
  if (!MODES.some(({ name }) => name === mode)) {
    const known = MODES.map(({ name }) => name).filter(Boolean);
    return { problem: `There is no approval mode ${JSON.stringify(mode)}: use ${known.join(", ")}.` };
  }
  const bytes = new TextEncoder().encode(JSON.stringify(settings)).length;
  return bytes > MAX_BYTES ? { problem: `${bytes} bytes of JSON are too many: ${MAX_BYTES} are the most.` } : { settings };
}

/** Return the text of settings with another approval mode; an empty one takes it out. Pure. */
export function withMode(text, mode) {
  const { approval_mode: _, ...others } = parsed(text).settings;
  return pretty(mode ? { approval_mode: mode, ...others } : others);
}

const pretty = (settings) => JSON.stringify(settings, null, 2);

/**
 * Return `{ open(settings), update(settings) }` of the editor in `dialog`.
 *
 * `onSave(settings)` resolves to null, or to why they were refused.
 */
export function settingsEditor(dialog, { onSave }) {
  const $ = (selector) => dialog.querySelector(selector);
  const field = $("textarea");
  const picker = $("select");
  const save = $("[type=submit]");
  let base = ""; // what was there when the editor was opened

  picker.append(...MODES.map(({ name, label }) => el("option", { value: name }, label)));

  function check() {
    const { settings, problem = "" } = parsed(field.value);
    setText($("[role=alert]"), problem);
    show($("[role=alert]"), problem !== "");
    save.disabled = problem !== "";
    picker.disabled = settings === undefined;
    field.setAttribute("aria-invalid", problem ? "true" : "false");
    if (settings) picker.value = settings.approval_mode ?? "";
    setText($(".mode"), MODES.find(({ name }) => name === picker.value)?.tells ?? "");
  }

  async function submit(event) {
    event.preventDefault();
    const { settings } = parsed(field.value);
    if (!settings || save.disabled) return;
    save.disabled = true;
    const problem = await onSave(settings);
    save.disabled = false;
    if (problem === null) dialog.close();
    else {
      setText($("[role=alert]"), problem);
      show($("[role=alert]"), true);
    }
  }

  field.addEventListener("input", check);
  picker.addEventListener("change", () => {
    field.value = withMode(field.value, picker.value);
    check();
  });
  $("form").addEventListener("submit", submit);
  $("[data-close]").addEventListener("click", () => dialog.close());

  return {
    open(settings) {
      base = pretty(settings);
      field.value = base;
      field.rows = Math.min(16, Math.max(6, base.split("\n").length + 1));
      check();
      show($(".changed"), false);
      dialog.showModal();
    },
    /** Tell of settings that somebody else changed meanwhile: saving replaces them. */
    update(settings) {
      if (dialog.open) show($(".changed"), pretty(settings) !== base);
    },
  };
}
