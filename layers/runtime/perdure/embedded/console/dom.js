// A few lines instead of a framework. Data only ever becomes text: nothing here parses HTML.

/** Make an element. `on…` properties listen, `class`, `aria-…`, `data-…` and the like are attributes. */
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else setAttribute(node, name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** Set an attribute; null and false remove it, true sets it empty. Nothing is touched when it is already so. */
export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value === true ? "" : value)) {
    node.setAttribute(name, value === true ? "" : String(value));
  }
}

/** Set an element's text. Text that only grew is appended, so that a selection in it survives. */
export function setText(node, text) {
  const old = node.textContent;
  if (old === text) return;
  if (old && node.firstChild?.nodeType === Node.TEXT_NODE && node.childNodes.length === 1 && text.startsWith(old)) {
    node.firstChild.appendData(text.slice(old.length));
  } else node.textContent = text;
}

/** Show or hide. */
export function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

const KEPT = new WeakMap(); // container -> Map of key -> { node, update, json }

/**
 * Make the children of `parent` those of `items`, in order, reusing the node of a key: focus, selection and open
 * folds survive. `create(item)` returns `{ node, update(item), removed?() }`; an item that is unchanged is not touched.
 */
export function reconcile(parent, items, create) {
  const before = KEPT.get(parent) ?? new Map();
  const after = new Map();
  const wanted = new Set(items.map((item) => item.key));
  for (const [key, { node, removed }] of before) {
    if (wanted.has(key)) continue;
    node.remove();
    removed?.();
  }
  let place = parent.firstChild;
  for (const item of items) {
    const kept = before.get(item.key) ?? { ...create(item), json: null };
    const json = JSON.stringify(item);
    if (kept.json !== json) {
      kept.update(item);
      kept.json = json;
    }
    if (kept.node === place) place = place.nextSibling;
    else parent.insertBefore(kept.node, place);
    after.set(item.key, kept);
  }
  KEPT.set(parent, after);
}
