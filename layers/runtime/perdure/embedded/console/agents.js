// What agents there are: which one a session has or begins with, and which models an agent may use.

import { get } from "./api.js";
import { el, setText, show } from "./dom.js";

/** Return `{ load(), draw(shown, isEmpty), chosen(), modelsOf(name) }`: a choice in `choice`, and a line in `told`. */
export function agentChoice(choice, told, { onLoaded }) {
  const select = choice.querySelector("select");
  let agents = null; // null: not known yet

  async function load() {
    try {
      ({ agents } = await get("/v1/agents"));
      select.replaceChildren(...agents.map(({ name }) => el("option", { value: name }, name)));
      onLoaded();
    } catch {
      // without it there is no choice
    }
  }

  return {
    load,

    /** Draw it. A session keeps the agent that it began with; before its first message there may be a choice. */
    draw(shown, isEmpty) {
      const choose = isEmpty && !shown.exists && (agents?.length ?? 0) > 1;
      show(choice, choose);
      show(told, !choose);
      const id = shown.title ? `${shown.sessionId} · ` : "";
      setText(told, shown.agent ? `${id}agent ${shown.agent}` : "not started yet");
    },

    /** The name of the agent that was chosen; null: there is no choice. */
    chosen: () => (choice.hidden ? null : select.value),

    /** The names of the models of an agent. */
    async modelsOf(name) {
      if (!agents) await load();
      return agents?.find((agent) => agent.name === name)?.models ?? [];
    },
  };
}
