// The title of a session: shown, and changed in its place.

import { setText, show } from "./dom.js";

const MOST_CHARACTERS = 200;

/**
 * Return `{ update({ sessionId, title, changeable }), edit() }` of the heading in `box`.
 *
 * `onRename(title)` resolves to whether the title was taken.
 */
export function sessionTitle(box, { onRename }) {
  const $ = (selector) => box.querySelector(selector);
  const [heading, open, form, field] = [$("h2"), $(".rename"), $("form"), $("input")];
  let shown = { sessionId: "", title: null, changeable: false };

  function setOpen(isOpen) {
    show(form, isOpen);
    show(heading, !isOpen);
    show(open, !isOpen && shown.changeable);
  }

  function edit() {
    if (!shown.changeable) return;
    field.value = shown.title ?? "";
    field.maxLength = MOST_CHARACTERS;
    setOpen(true);
    field.focus();
    field.select();
  }

  function close() {
    setOpen(false);
    open.focus();
  }

  open.addEventListener("click", edit);
  $("[data-close]").addEventListener("click", close);
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    close();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const title = field.value.trim();
    if (!title || title === shown.title) return close();
    if (await onRename(title)) close();
  });

  return {
    edit,
    update(next) {
      if (next.sessionId !== shown.sessionId) show(form, false);
      shown = next;
      setText(heading, next.title ?? next.sessionId);
      if (form.hidden) setOpen(false);
    },
  };
}
