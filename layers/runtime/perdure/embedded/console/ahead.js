// Approvals that are given ahead: chosen with an approval, listed while they hold, taken back.

import { countdown } from "./countdown.js";
import { el, reconcile, setAttribute, setText } from "./dom.js";

const LASTING = [["900", "15 minutes"], ["3600", "1 hour"], ["86400", "1 day"], ["604800", "7 days"]];

/**
 * Return `{ node, update(arguments), value() }` of the choice in an approval, `onToggle()` when it is opened or closed.
 *
 * `value()` null: it is closed, and nothing is approved ahead.
 */
export function aheadChoice({ tool, onToggle }) {
  let names = [];
  const lasts = el("select", { "aria-label": "For how long" }, ...LASTING.map(([value, label]) => el("option", { value }, label)));
  const fields = el("div", { class: "fields", role: "group", "aria-label": "Only with the same" });
  const told = el("p", { class: "facts" });
  const node = el("details", { class: "fold ahead" }, el("summary", {}, "Approve calls like this one ahead"), lasts, fields, told);
  node.addEventListener("toggle", onToggle);
  const boxes = () => [...fields.querySelectorAll("input")];
  const same = () => boxes().filter(({ checked }) => checked).map(({ value }) => value);

  function tell() {
    const other = names.length && same().length === 0 ? " whatever its arguments are" : "";
    setText(told, `In this session ${tool()} then runs${other} without asking.`);
  }

  function fieldNode({ key }) {
    const box = el("input", { type: "checkbox", value: key, checked: true, onchange: tell });
    return { node: el("label", {}, box, " same ", el("code", {}, key)), update() {} };
  }

  return {
    node,
    update(args) {
      names = Object.keys(args ?? {});
      reconcile(fields, names.map((key) => ({ key })), fieldNode);
      tell();
    },
    value() {
      if (!node.open) return null;
      return { lasts_seconds: Number(lasts.value), ...(same().length && { fields: same() }) };
    },
  };
}

/** Return a function that draws approvals ahead into `list`; `onRevoke(id)` takes one back. */
export function aheadList(list, { onRevoke }) {
  return (grants) => {
    const focused = list.contains(document.activeElement) ? document.activeElement : null;
    reconcile(list, grants, () => grantNode(onRevoke));
    if (focused && !focused.isConnected) (list.querySelector("button") ?? document.getElementById("new-schedule")).focus();
  };
}

function grantNode(onRevoke) {
  let shown = null;
  const name = el("code", {});
  const left = countdown();
  const facts = el("span", {});
  const revoke = el("button", { type: "button", class: "small", onclick: () => shown.busy || onRevoke(shown.key) }, "Take back");
  const node = el("li", { class: "schedule", role: "group" }, name, el("p", { class: "facts" }, left.node, facts), el("div", { class: "actions" }, revoke));
  return {
    node,
    update(grant) {
      shown = grant;
      setText(name, grant.tool);
      setAttribute(node, "aria-label", `${grant.tool} is approved ahead`);
      setAttribute(node, "aria-busy", grant.busy ? "true" : null);
      left.until(grant.expiresAt, "ends");
      const same = grant.fields.length ? `same ${grant.fields.join(", ")}` : "any arguments";
      const uses = grant.usesLeft === null ? null : `${grant.usesLeft} more`;
      setText(facts, ["", same, uses].filter((fact) => fact !== null).join(" · "));
    },
  };
}
