// What this page itself did, shown until the server's data says the same or refuses it (spec STOP-07). Pure.

/**
 * Return the state after one of the page's own actions; an unknown one changes nothing.
 *
 * A command shows at once what it will do (`begin`) and gives way to the snapshot that was read after its answer
 * (`end`). A refused one ends the same way, so that the page is what the server has.
 */
export function takeLocal(state, action) {
  switch (action.type) {
    case "send": {
      const { messageId, text, delivery = null, waits = false } = action;
      const others = state.outbox.filter((item) => item.messageId !== messageId);
      return { ...state, outbox: [...others, { messageId, text, delivery, waits, problem: null }] };
    }
    case "send_delayed":
      return {
        ...state,
        outbox: state.outbox.map((item) =>
          item.messageId === action.messageId ? { ...item, problem: action.problem } : item,
        ),
      };
    case "send_answered":
    case "send_refused":
      return { ...state, outbox: state.outbox.filter((item) => item.messageId !== action.messageId) };
    case "decide":
      return { ...state, deciding: { ...state.deciding, [action.interruptId]: action.decision } };
    case "decide_answered": {
      const { [action.interruptId]: _, ...deciding } = state.deciding;
      return { ...state, deciding };
    }
    case "stop":
      return { ...state, stopping: { turnId: action.turnId, partials: action.partials ?? state.partials } };
    case "stop_refused":
      return { ...state, stopping: state.stopping?.turnId === action.turnId ? null : state.stopping };
    case "begin":
      return { ...state, doing: { ...state.doing, [action.key]: { ...action.what, id: action.id } } };
    case "end": {
      const { [action.key]: done, ...doing } = state.doing;
      return done?.id === action.id ? { ...state, doing } : state; // a newer one of the same kind goes on
    }
    default:
      return state;
  }
}
