// A small subset of Markdown, as data: nothing of it is ever HTML. What it does not know stays the text that it is. Pure.
//
// Blocks: paragraph, heading, code, list, quote, rule, table. Inline: text, strong, em, del, code, link, image.
// Every search is bounded or remembered, so that no text takes more than about linear time.

const MAX_DEPTH = 6; // of lists and quotes in one another; what is deeper stays text
const MAX_INLINE = 20_000; // characters of one paragraph that are looked into
const MAX_LINK = 1_000; // characters of a link's text or address

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])([ \t]+|$)(.*)$/;
const TASK = /^\[([ xX])\][ \t]+/;
const DELIMITER_ROW = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

/** Return the blocks of a text. */
export function blocksOf(text, depth = 0) {
  return readBlocks(text.replace(/\r\n?/g, "\n").split("\n"), depth);
}

function readBlocks(lines, depth) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    const [block, next] = readBlock(lines, at, depth);
    blocks.push(block);
    at = next;
  }
  return blocks;
}

function readBlock(lines, at, depth) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return readFence(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) {
    const text = (heading[2] ?? "").replace(/[ \t]+#+[ \t]*$/, "");
    return [{ type: "heading", level: heading[1].length, inline: inlineOf(text) }, at + 1];
  }
  if (RULE.test(line)) return [{ type: "rule" }, at + 1];
  if (depth < MAX_DEPTH && QUOTE.test(line)) return readQuote(lines, at, depth);
  if (depth < MAX_DEPTH && ITEM.test(line)) return readList(lines, at, depth);
  if (isTable(lines, at)) return readTable(lines, at);
  return readParagraph(lines, at, depth);
}

function readFence(lines, at, [, marks, info]) {
  const indent = lines[at].search(/\S/);
  const body = [];
  let next = at + 1;
  for (; next < lines.length; next += 1) {
    const close = lines[next].trim();
    if (close.length >= marks.length && close === marks[0].repeat(close.length)) break;
    body.push(lines[next].replace(new RegExp(`^ {0,${indent}}`), ""));
  }
  return [{ type: "code", language: info.trim().split(/\s+/)[0], text: body.join("\n") }, next + 1];
}

function readQuote(lines, at, depth) {
  const inner = [];
  let next = at;
  for (; next < lines.length; next += 1) {
    const quoted = QUOTE.exec(lines[next]);
    if (quoted) inner.push(quoted[1]);
    else if (lines[next].trim() && !startsBlock(lines, next, depth)) inner.push(lines[next]);
    else break;
  }
  return [{ type: "quote", blocks: readBlocks(inner, depth + 1) }, next];
}

function readList(lines, at, depth) {
  const first = ITEM.exec(lines[at])[2];
  const ordered = /\d/.test(first);
  const kind = first.at(-1);
  const items = [];
  let next = at;
  while (next < lines.length) {
    const found = ITEM.exec(lines[next]);
    if (!found || found[2].at(-1) !== kind || RULE.test(lines[next])) break;
    const [item, after] = readItem(lines, next, found, depth);
    items.push(item);
    next = after;
    // Blank lines between items belong to the list; anything else behind them does not.
    let peek = next;
    while (peek < lines.length && !lines[peek].trim()) peek += 1;
    if (peek < lines.length && ITEM.exec(lines[peek])?.[2].at(-1) === kind) next = peek;
  }
  return [{ type: "list", ordered, start: ordered ? Number.parseInt(first, 10) : null, items }, next];
}

function readItem(lines, at, [, indent, marker, gap, rest], depth) {
  const width = indent.length + marker.length + Math.min(4, Math.max(1, gap.length));
  const task = TASK.exec(rest);
  const inner = [task ? rest.slice(task[0].length) : rest];
  let next = at + 1;
  for (; next < lines.length; next += 1) {
    const line = lines[next];
    const space = line.search(/\S/);
    if (space < 0) {
      const later = lines[next + 1];
      if (later === undefined || !later.trim() || later.search(/\S/) < width) break;
      inner.push("");
    } else if (space >= Math.min(width, 2 + indent.length) && (space >= width || !lines[next].trim().startsWith("#"))) {
      inner.push(line.slice(Math.min(space, width)));
    } else if (!startsBlock(lines, next, depth) && inner.at(-1)) inner.push(line);
    else break;
  }
  return [{ checked: task ? task[1] !== " " : null, blocks: readBlocks(inner, depth + 1) }, next];
}

function readParagraph(lines, at, depth) {
  const text = [];
  let next = at;
  do {
    text.push(lines[next].trimStart());
    next += 1;
  } while (next < lines.length && lines[next].trim() && !startsBlock(lines, next, depth) && !isTable(lines, next));
  return [{ type: "paragraph", inline: inlineOf(text.join("\n")) }, next];
}

function startsBlock(lines, at, depth) {
  const line = lines[at];
  if (FENCE.test(line) || HEADING.test(line) || RULE.test(line)) return true;
  return depth < MAX_DEPTH && (QUOTE.test(line) || ITEM.test(line));
}

// --- tables -----------------------------------------------------------------------------------

function isTable(lines, at) {
  const [head, row] = [lines[at], lines[at + 1]];
  if (row === undefined || !head.includes("|") || !row.includes("-") || !DELIMITER_ROW.test(row)) return false;
  return cellsOf(head).length === cellsOf(row).length;
}

function readTable(lines, at) {
  const align = cellsOf(lines[at + 1]).map((cell) => {
    const [left, right] = [cell.startsWith(":"), cell.endsWith(":")];
    return left && right ? "center" : right ? "right" : null;
  });
  const rows = [];
  let next = at + 2;
  for (; next < lines.length && lines[next].trim() && lines[next].includes("|"); next += 1) {
    const cells = cellsOf(lines[next]).slice(0, align.length);
    rows.push(align.map((_, index) => inlineOf(cells[index] ?? "")));
  }
  return [{ type: "table", align, head: cellsOf(lines[at]).map((cell) => inlineOf(cell)), rows }, next];
}

function cellsOf(line) {
  const cells = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "").split(/(?<!\\)\|/);
  return cells.map((cell) => cell.trim().replaceAll("\\|", "|"));
}

// --- inline -----------------------------------------------------------------------------------

/** Return the pieces of one paragraph: strings, and objects with a `type`. */
export function inlineOf(text) {
  if (text.length > MAX_INLINE) return text ? [text] : [];
  return readInline(text, 0, new Map());
}

const SPANS = [
  { mark: "**", type: "strong" },
  { mark: "__", type: "strong", inWords: false },
  { mark: "~~", type: "del" },
  { mark: "*", type: "em" },
  { mark: "_", type: "em", inWords: false },
];

function readInline(text, depth, missing) {
  const pieces = [];
  let plain = "";
  let at = 0;
  const take = (piece, length) => {
    if (plain) pieces.push(plain);
    plain = "";
    pieces.push(piece);
    at += length;
  };
  while (at < text.length) {
    const char = text[at];
    if (char === "\\" && /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "")) {
      plain += text[at + 1];
      at += 2;
      continue;
    }
    const found =
      (char === "`" && codeAt(text, at)) ||
      (char === "<" && angleAt(text, at)) ||
      ((char === "[" || (char === "!" && text[at + 1] === "[")) && depth < MAX_DEPTH && linkAt(text, at, depth)) ||
      (char === "h" && bareAt(text, at)) ||
      ("*_~".includes(char) && depth < MAX_DEPTH && spanAt(text, at, depth, missing));
    if (found) take(found.piece, found.length);
    else if (char === "`" || "*_~".includes(char)) {
      const run = runAt(text, at); // a run that opens nothing is text as a whole
      plain += text.slice(at, at + run);
      at += run;
    } else {
      plain += char;
      at += 1;
    }
  }
  if (plain) pieces.push(plain);
  return pieces;
}

function runAt(text, at) {
  let end = at + 1;
  while (text[end] === text[at]) end += 1;
  return end - at;
}

function codeAt(text, at) {
  const run = runAt(text, at);
  const marks = "`".repeat(run);
  let close = text.indexOf(marks, at + run);
  while (close >= 0 && (text[close - 1] === "`" || text[close + run] === "`")) {
    close = text.indexOf(marks, close + runAt(text, close));
    if (close < 0 || close - at > MAX_LINK) return null;
  }
  if (close < 0) return null;
  const inner = text.slice(at + run, close).replaceAll("\n", " ");
  const trimmed = inner.length > 2 && inner.startsWith(" ") && inner.endsWith(" ") && inner.trim() ? inner.slice(1, -1) : inner;
  return { piece: { type: "code", text: trimmed }, length: close + run - at };
}

function spanAt(text, at, depth, missing) {
  const before = text[at - 1] ?? " ";
  for (const { mark, type, inWords = true } of SPANS) {
    if (!text.startsWith(mark, at)) continue;
    const next = text[at + mark.length];
    if (next === undefined || /\s/.test(next) || (!inWords && /[\p{L}\p{N}]/u.test(before))) continue;
    if ((missing.get(`${depth}${mark}`) ?? Infinity) <= at) continue;
    const close = closeOf(text, at + mark.length, mark, inWords);
    if (close < 0) {
      missing.set(`${depth}${mark}`, at); // nothing behind this place closes it either
      continue;
    }
    const inner = text.slice(at + mark.length, close);
    return { piece: { type, children: readInline(inner, depth + 1, new Map()) }, length: close + mark.length - at };
  }
  return null;
}

function closeOf(text, from, mark, inWords) {
  for (let at = from; at < text.length; at += 1) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === "`") at += (codeAt(text, at)?.length ?? runAt(text, at)) - 1;
    else if (text[at] === mark[0]) {
      const run = runAt(text, at);
      const fits = mark.length === 1 ? run === 1 || run === 3 : run >= mark.length;
      const wordGoesOn = !inWords && /[\p{L}\p{N}]/u.test(text[at + run] ?? " ");
      if (fits && at > from && !/\s/.test(text[at - 1]) && !wordGoesOn) return at + run - mark.length;
      at += run - 1;
    }
  }
  return -1;
}

// --- links ------------------------------------------------------------------------------------

/** Return the address if it is one that a page may lead to, else null. */
export function safeAddress(address) {
  const cleaned = address.trim();
  if (/[\u0000-\u0020\u007f]/.test(cleaned)) return null;
  try {
    const { protocol } = new URL(cleaned);
    return ["http:", "https:", "mailto:"].includes(protocol) ? cleaned : null;
  } catch {
    return null;
  }
}

function linkAt(text, at, depth) {
  const isImage = text[at] === "!";
  const open = at + (isImage ? 1 : 0);
  const close = bracketOf(text, open, "[", "]");
  if (close < 0 || text[close + 1] !== "(") return null;
  const end = bracketOf(text, close + 1, "(", ")");
  if (end < 0) return null;
  const target = /^\s*(?:<([^<>\n]*)>|(\S*?))(?:\s+(?:"[^"]*"|'[^']*'))?\s*$/.exec(text.slice(close + 2, end));
  const address = target && safeAddress(target[1] ?? target[2]);
  if (!address) return null; // it stays the text that it is
  const label = text.slice(open + 1, close);
  const children = isImage ? [label || address] : readInline(label, depth + 1, new Map()).map(unlinked);
  return { piece: { type: isImage ? "image" : "link", address, children }, length: end + 1 - at };
}

// A link holds no link.
function unlinked(piece) {
  if (typeof piece === "string" || !piece.children) return piece;
  const children = piece.children.map(unlinked);
  return piece.type === "link" || piece.type === "image" ? { type: "em", children } : { ...piece, children };
}

function bracketOf(text, from, open, close) {
  let depth = 0;
  for (let at = from; at < text.length && at - from < MAX_LINK; at += 1) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === open) depth += 1;
    else if (text[at] === close) {
      depth -= 1;
      if (depth === 0) return at;
    }
  }
  return -1;
}

function angleAt(text, at) {
  const close = text.indexOf(">", at);
  if (close < 0 || close - at > MAX_LINK) return null;
  const inner = text.slice(at + 1, close);
  const address = /^[\w.+-]+@[\w.-]+$/.test(inner) ? `mailto:${inner}` : safeAddress(inner);
  return address ? { piece: { type: "link", address, children: [inner] }, length: close + 1 - at } : null;
}

function bareAt(text, at) {
  if (/[\p{L}\p{N}]/u.test(text[at - 1] ?? " ")) return null;
  const found = /^https?:\/\/[^\s<>"'`|\\^{}]+/.exec(text.slice(at, at + MAX_LINK));
  if (!found) return null;
  let shown = found[0].replace(/[.,;:!?*_~]+$/, "");
  while (shown.endsWith(")") && shown.split(")").length > shown.split("(").length) shown = shown.slice(0, -1);
  const address = safeAddress(shown);
  return address ? { piece: { type: "link", address, children: [shown] }, length: shown.length } : null;
}
