// Dragging rows of a list by their grips, with mouse, pen or finger. The list itself is not touched before the drop.

/**
 * Let the rows of `list` (with `data-id`) be dragged by what has `data-grip`.
 *
 * @param {{ids: () => string[], onDrop: (id: string, place: number) => void}} on - `place` counts among the other rows.
 */
export function dragging(list, { ids, onDrop }) {
  let drag = null; // { id, place }

  const rows = () => [...list.querySelectorAll("[data-id]")];

  function mark() {
    const others = rows().filter((row) => row.dataset.id !== drag?.id);
    for (const row of rows()) {
      row.toggleAttribute("data-dragged", row.dataset.id === drag?.id);
      const place = others.indexOf(row);
      row.toggleAttribute("data-drop-before", drag !== null && place >= 0 && place === drag.place);
      row.toggleAttribute("data-drop-after", drag !== null && place === others.length - 1 && drag.place > place);
    }
  }

  function onMove(event) {
    const others = rows().filter((row) => row.dataset.id !== drag.id);
    const below = others.findIndex((row) => {
      const { top, height } = row.getBoundingClientRect();
      return event.clientY < top + height / 2;
    });
    drag.place = below < 0 ? others.length : below;
    others[Math.min(drag.place, others.length - 1)]?.scrollIntoView({ block: "nearest" });
    mark();
  }

  function end(event) {
    const { id, place } = drag;
    const from = ids().indexOf(id);
    drag = null;
    mark();
    for (const [type, listener] of LISTENERS) window.removeEventListener(type, listener);
    if (event.type === "pointerup" && from >= 0 && place !== from) onDrop(id, place);
  }

  const onKey = (event) => event.key === "Escape" && end(event);
  const LISTENERS = [["pointermove", onMove], ["pointerup", end], ["pointercancel", end], ["keydown", onKey]];

  list.addEventListener("pointerdown", (event) => {
    const row = event.target.closest?.("[data-grip]")?.closest("[data-id]");
    if (!row || event.button !== 0 || drag || rows().length < 2) return;
    drag = { id: row.dataset.id, place: ids().indexOf(row.dataset.id) };
    for (const [type, listener] of LISTENERS) window.addEventListener(type, listener);
    mark();
  });
}
