// The files of a message that was taken back: they go with what is sent next, unless the person drops them.

import { el, reconcile, show } from "./dom.js";

/** Return `{ add(files), take() }` of the list of files in `list`; `onLast()` gets the focus of a list that is empty. */
export function attached(list, { onLast }) {
  let files = [];

  function draw() {
    reconcile(list, files.map((file) => ({ key: file.reference, file })), row);
    show(list, files.length > 0);
  }

  function row({ file }) {
    const name = file.name ?? file.reference;
    const drop = el("button", { type: "button", class: "small", "aria-label": `Leave out ${name}`, onclick: () => leaveOut(file) }, "×");
    return { node: el("li", { dir: "auto" }, name, drop), update() {} };
  }

  function leaveOut(file) {
    files = files.filter((other) => other.reference !== file.reference);
    draw();
    (list.querySelector("button") ?? { focus: onLast }).focus();
  }

  return {
    /** Add files; one that is there already is not there twice. */
    add(more) {
      files = [...files, ...more.filter(({ reference }) => !files.some((file) => file.reference === reference))];
      draw();
    },

    /** Return the files, and have none any more. */
    take() {
      const taken = files;
      files = [];
      draw();
      return taken;
    },
  };
}
