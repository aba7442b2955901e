// Server-sent events out of the bytes of a response (HTML Standard, "Server-sent events"). No page, no EventSource: a token
// can go along as a header, and events of every type come through.

/** Return `take(bytes)`, which returns the events that are complete by then: `{ id, event, data }`. */
export function eventReader() {
  const decoder = new TextDecoder();
  let rest = "";
  let fields = {};
  let first = true;

  return function take(bytes) {
    rest += decoder.decode(bytes, { stream: true });
    if (first && rest.length) {
      first = false;
      if (rest.startsWith("\ufeff")) rest = rest.slice(1);
    }
    const events = [];
    // A CR at the very end may be half of a CRLF.
    for (let match = nextLine(rest); match; match = nextLine(rest)) {
      rest = rest.slice(match.end);
      if (match.line !== "") fields = withField(fields, match.line);
      else {
        if (fields.data !== undefined) events.push({ id: fields.id, event: fields.event ?? "message", data: fields.data });
        fields = fields.id === undefined ? {} : { id: fields.id };
      }
    }
    return events;
  };
}

function nextLine(text) {
  const match = /\r\n|\n|\r(?!$)/.exec(text);
  return match ? { line: text.slice(0, match.index), end: match.index + match[0].length } : null;
}

function withField(fields, line) {
  const colon = line.indexOf(":");
  if (colon === 0) return fields; // a comment keeps the connection alive
  const name = colon < 0 ? line : line.slice(0, colon);
  const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
  if (name === "data") return { ...fields, data: fields.data === undefined ? value : `${fields.data}\n${value}` };
  if (name === "id") return value.includes("\0") ? fields : { ...fields, id: value };
  return name === "event" ? { ...fields, event: value } : fields;
}
