// Draws the graph of a run as SVG. Its colours and its light come from the style sheet.

import { setAttribute } from "./dom.js";
import { words } from "./format.js";

const NS = "http://www.w3.org/2000/svg";
const COLUMN = 60;
const ROW = 42;
const TOP = 18;
const LEFT = 30;
const RADIUS = 11;

const FIT = 6; // so many columns may shrink a little; more are scrolled

const SIGNS = { ask: "?", wait: "…", more: "+" };

/** Return `{ node, update(graph) }`. */
export function graphView() {
  const svg = make("svg", { class: "graph", role: "img", preserveAspectRatio: "xMinYMin meet" });
  const node = document.createElement("div");
  node.className = "graph-box";
  node.tabIndex = 0;
  node.setAttribute("role", "group");
  node.setAttribute("aria-label", "Graph of the run");
  node.append(svg);
  let shown = null;
  return {
    node,
    update(graph) {
      const json = JSON.stringify(graph);
      if (json === shown) return; // where the reader has scrolled to stays
      shown = json;
      const { columns, label } = graph;
      const rows = Math.max(...columns.map(({ nodes }) => nodes.length));
      const [width, height] = [(columns.length - 1) * COLUMN + 2 * LEFT, (rows - 1) * ROW + TOP + 30];
      setAttribute(svg, "viewBox", `0 0 ${width} ${height}`);
      setAttribute(svg, "width", width);
      setAttribute(svg, "height", height);
      setAttribute(svg, "aria-label", label);
      setAttribute(svg, "data-fits", columns.length <= FIT);
      svg.replaceChildren(...columns.flatMap((column, index) => lines(columns, index)), ...columns.flatMap(places));
      const lit = columns.findLastIndex(({ nodes }) => nodes.some(({ current }) => current));
      if (lit >= 0) node.scrollLeft = LEFT + lit * COLUMN - node.clientWidth / 2;
    },
  };
}

function lines(columns, index) {
  if (index === 0) return [];
  const [before, here] = [columns[index - 1].nodes, columns[index].nodes];
  return before.flatMap((_, from) => here.map((node, to) => line(index - 1, from, index, to, node)));
}

function line(fromColumn, fromRow, toColumn, toRow, { tone }) {
  const [x1, y1] = [LEFT + fromColumn * COLUMN + RADIUS + 2, TOP + fromRow * ROW];
  const [x2, y2] = [LEFT + toColumn * COLUMN - RADIUS - 2, TOP + toRow * ROW];
  const bend = (x2 - x1) / 2;
  return make("path", { class: "graph-line", "data-open": tone === "open" ? "" : null, d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` });
}

function places({ nodes }, index) {
  return nodes.map((node, row) => place(node, LEFT + index * COLUMN, TOP + row * ROW));
}

function place({ kind, name, status, tone, current, last }, x, y) {
  const group = make("g", { class: "graph-node", "data-kind": kind, "data-tone": tone, "data-current": current ? "" : null });
  const title = make("title", {});
  title.textContent = status && status !== "open" ? `${name}: ${words(status)}` : name;
  if (current) group.append(make("circle", { class: "graph-light", cx: x, cy: y, r: RADIUS + 4 }));
  group.append(title, shapeOf(kind, x, y));
  if (SIGNS[kind] || last) group.append(sign(last ? (tone === "good" ? "✓" : "×") : SIGNS[kind], x, y));
  const text = make("text", { class: "graph-name", x, y: y + RADIUS + 13, "text-anchor": "middle" });
  text.textContent = name.length > 10 ? `${name.slice(0, 9)}…` : name;
  group.append(text);
  return group;
}

function shapeOf(kind, x, y) {
  if (kind === "tool") return make("rect", { class: "graph-shape", x: x - RADIUS, y: y - RADIUS, width: 2 * RADIUS, height: 2 * RADIUS, rx: 5 });
  if (kind === "ask") {
    const far = RADIUS + 2;
    return make("path", { class: "graph-shape", d: `M${x} ${y - far}L${x + far} ${y}L${x} ${y + far}L${x - far} ${y}Z` });
  }
  return make("circle", { class: "graph-shape", cx: x, cy: y, r: kind === "edge" ? RADIUS - 2 : RADIUS });
}

function sign(text, x, y) {
  const node = make("text", { class: "graph-sign", x, y: y + 4, "text-anchor": "middle" });
  node.textContent = text;
  return node;
}

function make(tag, attributes) {
  const node = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(name, value);
  return node;
}
