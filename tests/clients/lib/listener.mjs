// An `EventSource` that keeps what it hears. It reads events by their names, so it knows the names that a turn may have.

import { EventSource } from "eventsource";

import { until } from "./api.mjs";

const TYPES = [
  ...["turn_started", "turn_completed", "turn_failed", "turn_stopping", "turn_cancelled", "turn_steered"],
  ...["model_started", "model_finished", "model_retry_scheduled", "attempt_reset", "text_delta", "reasoning_delta"],
  ...["tool_call_deferred", "tool_call_started", "tool_progress", "tool_call_finished", "usage_recorded"],
  ...["snapshot", "interrupt_raised", "interrupt_resolved", "message_queued", "message_removed"],
];

export class Listener {
  #source;

  events = [];
  opened = 0;

  constructor(url) {
    this.#source = new EventSource(url);
    this.#source.addEventListener("open", () => (this.opened += 1));
    const take = ({ data, lastEventId, type }) => {
      const event = JSON.parse(data);
      this.events.push(event);
      if (event.cursor !== lastEventId || event.type !== type) throw new Error(`${type} ${lastEventId} carries ${data}`);
    };
    for (const type of ["message", ...TYPES]) this.#source.addEventListener(type, take);
  }

  get isOpen() {
    return this.#source.readyState === EventSource.OPEN;
  }

  seen(type) {
    return until(() => this.events.find((event) => event.type === type), `a ${type}`);
  }

  close() {
    this.#source.close();
  }
}
