// A session's schedules, and when their messages come as people write and read it. Pure.

const UNITS = { minutes: "minute", hours: "hour", days: "day", weeks: "week", seconds: "second" };

/** Return the rows of the list, the next one first. */
export function schedulesOf(state) {
  return (state.schedules ?? []).map((schedule) => ({
    key: schedule.schedule_id,
    wait: `schedule:${schedule.schedule_id}`,
    text: schedule.text,
    when: schedule.when,
    nextAt: schedule.next_at,
    attempt: schedule.attempt ?? 1,
    busy: state.doing[`wait/schedule:${schedule.schedule_id}`] !== undefined,
  }));
}

/**
 * Return what the server is told: `{ when }`, or `{ problem }` for people.
 *
 * @param {{mode: "at" | "after" | "cron" | "interval", at: string, amount: string, unit: string, cron: string,
 *   zone: string}} form - `at` as a field for local date and time has it, read on the clock of `zone`
 */
export function whenOf({ mode, at, amount, unit, cron, zone }) {
  const named = zone.trim();
  if (!named) return { problem: "Name a time zone, such as Europe/Berlin or UTC." };
  if (mode === "at") return at ? { when: { at, time_zone: named } } : { problem: "Choose a date and a time." };
  if (mode === "cron") {
    return cron.trim() ? { when: { every: cron.trim(), time_zone: named } } : { problem: "Write five fields: minute, hour, day, month, weekday." };
  }
  const number = Number(amount);
  if (!Number.isInteger(number) || number < 1) return { problem: "Write a whole number of 1 or more." };
  const length = { [unit]: number };
  return { when: mode === "after" ? { after: length } : { every: length, time_zone: named } };
}

/** Return the fields of a form for what the server tells: the other way round, as far as that goes. */
export function formOf(when, nextAt, zone, localInput) {
  const blank = { mode: "at", at: localInput(nextAt), amount: "1", unit: "hours", cron: "0 9 * * mon-fri", zone: when.time_zone ?? zone };
  if (typeof when.every === "string") return { ...blank, mode: "cron", cron: when.every };
  if (when.every) {
    const [[unit, amount], ...more] = Object.entries(when.every);
    return more.length ? blank : { ...blank, mode: "interval", unit, amount: String(amount) };
  }
  return { ...blank, zone };
}

/** Words for when a schedule's messages come. */
export function whenText(when) {
  if (typeof when.every === "string") return `by the clock: ${when.every} · ${when.time_zone}`;
  if (when.every) return `every ${durationText(when.every)}`;
  return "once";
}

function durationText(length) {
  const parts = Object.entries(length).map(([unit, amount]) => `${amount} ${UNITS[unit] ?? unit}${amount === 1 ? "" : "s"}`);
  return parts.join(" ").replace(/^1 (?=[a-z]+$)/, "");
}
