// Draws Markdown. Only elements and text nodes are made, from what `markdown.js` found; no text is ever parsed as HTML.

import { codeBlock } from "./codeblock.js";
import { el, reconcile, setAttribute, setText } from "./dom.js";
import { blocksOf } from "./markdown.js";

const HIGHEST_HEADING = 3; // above it is the page

/** Return a function that draws a text into `parent`. Blocks that did not change are not touched. */
export function prose(parent) {
  let shown = null;
  return (text) => {
    if (text === shown) return;
    shown = text;
    drawBlocks(parent, withLevels(blocksOf(text)));
  };
}

// Headings follow one another without leaving a level out, as readers of screens expect.
function withLevels(blocks) {
  let level = HIGHEST_HEADING - 1;
  return blocks.map((block) => {
    if (block.type !== "heading") return block;
    level = Math.min(level + 1, HIGHEST_HEADING - 1 + block.level, 6);
    return { ...block, level };
  });
}

function drawBlocks(parent, blocks) {
  const keyed = blocks.map((block, index) => ({ key: `${index}/${block.type}/${block.level ?? block.ordered ?? ""}`, ...block }));
  reconcile(parent, keyed, (block) => NODES[block.type](block));
}

const NODES = {
  paragraph: () => withInline(el("p", { dir: "auto" })),
  heading: ({ level }) => withInline(el(`h${level}`, { dir: "auto" })),
  rule: () => ({ node: el("hr"), update() {} }),
  code() {
    const block = codeBlock({ label: "Code" });
    return {
      node: block.node,
      update({ text, language }) {
        block.update(text, language || null);
      },
    };
  },
  quote() {
    const node = el("blockquote", {});
    return { node, update: ({ blocks }) => drawBlocks(node, blocks) };
  },
  list({ ordered }) {
    const node = el(ordered ? "ol" : "ul", {});
    return {
      node,
      update({ items, start }) {
        setAttribute(node, "start", ordered && start !== 1 ? start : null);
        reconcile(node, items.map((item, index) => ({ key: index, ...item })), itemNode);
      },
    };
  },
  table() {
    const node = el("table", {});
    return {
      node: el("div", { class: "table-box", tabindex: "0", role: "group", "aria-label": "Table" }, node),
      update: ({ head, rows, align }) => node.replaceChildren(tableHead(head, align), tableBody(rows, align)),
    };
  },
};

function itemNode() {
  const body = el("div", { class: "item" });
  const box = el("span", { class: "task", "aria-hidden": "true" });
  const state = el("span", { class: "hidden" });
  const node = el("li", {}, box, state, body);
  return {
    node,
    update({ blocks, checked }) {
      box.hidden = state.hidden = checked === null;
      setAttribute(node, "data-task", checked === null ? null : checked ? "done" : "open");
      setText(box, checked ? "✓" : "");
      setText(state, checked ? "Done: " : "To do: ");
      drawBlocks(body, blocks);
    },
  };
}

function withInline(node) {
  return {
    node,
    update({ inline }) {
      if (inline.length === 1 && typeof inline[0] === "string") setText(node, inline[0]); // a selection survives growth
      else node.replaceChildren(...inline.map(inlineNode));
    },
  };
}

function inlineNode(piece) {
  if (typeof piece === "string") return document.createTextNode(piece);
  if (piece.type === "code") return el("code", {}, piece.text);
  const children = piece.children.map(inlineNode);
  if (piece.type === "link") return linkNode(piece.address, children);
  if (piece.type === "image") return linkNode(piece.address, ["🖼 ", ...children]); // nothing is loaded from elsewhere
  return el(piece.type, {}, ...children);
}

function linkNode(address, children) {
  return el("a", { href: address, title: address, target: "_blank", rel: "noopener noreferrer nofollow" }, ...children);
}

function tableHead(cells, align) {
  return el("thead", {}, el("tr", {}, ...cells.map((cell, index) => cellNode("th", cell, align[index]))));
}

function tableBody(rows, align) {
  const row = (cells) => el("tr", {}, ...cells.map((cell, index) => cellNode("td", cell, align[index])));
  return el("tbody", {}, ...rows.map(row));
}

function cellNode(tag, inline, align) {
  const scope = tag === "th" ? { scope: "col" } : {};
  return el(tag, { ...scope, dir: "auto", "data-align": align }, ...inline.map(inlineNode));
}
