// The settings of a session as they are: one JSON object, replaced whole, with pickers for approval mode and model.

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

/** Return the text of settings with one of them changed; an empty value takes it out. Pure. */
export function withSetting(text, name, value) {
  const { [name]: _, ...others } = parsed(text).settings;
  return pretty(value ? { [name]: value, ...others } : others);
}

const pretty = (settings) => JSON.stringify(settings, null, 2);

/**
 * Return `{ open(settings, models), update(settings) }` of the editor in `dialog`; `models` as `/v1/agents` tells.
 *
 * `onSave(settings)` resolves to null, or to why they were refused.
 */
export function settingsEditor(dialog, { onSave }) {
  const $ = (selector) => dialog.querySelector(selector);
  const field = $("textarea");
  const mode = $("#settings-mode");
  const model = $("#settings-model");
  const save = $("[type=submit]");
  let base = ""; // what was there when the editor was opened

  mode.append(...MODES.map(({ name, label }) => el("option", { value: name }, label)));

  function check() {
    const { settings, problem = "" } = parsed(field.value);
    setText($("[role=alert]"), problem);
    show($("[role=alert]"), problem !== "");
    save.disabled = problem !== "";
    mode.disabled = model.disabled = settings === undefined;
    field.setAttribute("aria-invalid", problem ? "true" : "false");
    if (settings) {
      mode.value = settings.approval_mode ?? "";
      model.value = typeof settings.model === "string" ? settings.model : ""; // nothing is picked for one that is not there
    }
    setText($(".mode"), MODES.find(({ name }) => name === mode.value)?.tells ?? "");
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
  for (const [picker, name] of [[mode, "approval_mode"], [model, "model"]]) {
    picker.addEventListener("change", () => {
      field.value = withSetting(field.value, name, picker.value);
      check();
    });
  }
  $("form").addEventListener("submit", submit);
  $("[data-close]").addEventListener("click", () => dialog.close());

  return {
    open(settings, models) {
      const choices = models.map(({ name, model: at }) => el("option", { value: name }, name === at ? name : `${name} (${at})`));
      model.replaceChildren(el("option", { value: "" }, "The agent's own"), ...choices);
      show(model.parentElement, models.length > 0);
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
