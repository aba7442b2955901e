"""A session as a viewer holds it, out of what the server says: `reduce(state, action)`, pure.

The JavaScript client has the same reducer (`clients/js`); the cases in `clients/vectors` hold for both. A state is
plain JSON. Actions are `{"type": …}` objects:

- `event` with one `event` of a stream; `stream` with `events` that came together and the `cursor` behind them; `events`
  with all `events` behind the state's cursor, as a page has them
- `snapshot` with a `snapshot`; with `restart`, the stream begins behind it, or at the cursor `from`
- `messages` with stored `messages`, as a log has them; `older_messages` with a `page`
- `initial` with the `state` or the `snapshot` that somebody else has made
- `stream_restarted`, after a `gap`
- what a viewer does itself: `send`, `send_delayed`, `send_answered`, `send_refused`, `decide`, `decide_answered`,
  `stop`, `stop_refused`, `begin`, `end`
"""

from perdure.reducer.state import initial_state, reduce
from perdure.reducer.view import messages_of, state_of, view_of

__all__ = ["initial_state", "messages_of", "reduce", "state_of", "view_of"]
