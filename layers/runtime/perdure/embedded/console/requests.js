// What belongs to the session and not to a message: values that an application asks people for, and approvals that were
// given ahead. Pure.

/** Return the items of the open requests; they belong to the session, not to a message. */
export function requestsOf(state) {
  return (state.snapshot?.pending_interrupts ?? [])
    .filter(({ kind, tool_call_id: call, interrupt_id: id }) => kind === "input" && !call && !state.decisions[id])
    .map((request) => ({
      kind: "request",
      key: request.interrupt_id,
      schema: request.schema ?? null,
      question: {
        key: request.interrupt_id,
        text: request.question ?? "",
        ofApplication: true,
        choices: choicesOf(request.schema),
        freeText: choicesOf(request.schema).length === 0,
        deadline: request.deadline ?? null,
        deciding: state.deciding[request.interrupt_id] ?? null,
        changing: state.doing[`wait/${request.interrupt_id}`] !== undefined,
      },
    }));
}

function choicesOf(schema) {
  if (schema?.type === "boolean") return ["Yes", "No"];
  return (schema?.enum ?? []).map((value) => (typeof value === "string" ? value : JSON.stringify(value)));
}

/** Return the value that a text stands for by a JSON Schema: `{ value }`, or `{ problem }` for people. */
export function valueOf(schema, text) {
  const { type } = schema ?? {};
  if (type === "boolean") return { value: text === "Yes" };
  if (schema?.enum) return { value: schema.enum.find((value) => text === (typeof value === "string" ? value : JSON.stringify(value))) };
  if (type === undefined || type === "string") return { value: text };
  try {
    const value = JSON.parse(text);
    if (value === null) return { problem: "A value is anything but null." };
    if ((type === "number" || type === "integer") && typeof value !== "number") return { problem: "Write a number." };
    return { value };
  } catch (error) {
    return { problem: type === "number" || type === "integer" ? "Write a number." : `This is no JSON: ${error.message}` };
  }
}

/** Return the rows of the approvals that were given ahead. */
export function grantsOf(state) {
  return (state.snapshot?.state?.grants ?? []).map((grant) => ({
    key: grant.grant_id,
    tool: grant.tool_name,
    fields: grant.fields ?? [],
    expiresAt: grant.expires_at,
    usesLeft: grant.uses_left ?? null,
    busy: state.doing[`grant/${grant.grant_id}`] !== undefined,
  }));
}
