"""The limits and fixed times of the core, each with its unit and its source."""

from __future__ import annotations

from datetime import timedelta

MAX_HEAD_BYTES = 64 * 1024
"""Largest encoded HEAD, in bytes, that an admission may leave behind (design §2).

A commit that settles, stops or fails something is never refused.
"""

MAX_CALLS_PER_RESPONSE = 64
"""Tool calls of one model response that are run (design §3); the rest end as `failed`."""

MAX_PARALLEL_WRITES = 8
"""Writes of one turn that are dispatched at a time (design §3). Reads are not limited."""

MAX_MODEL_CALLS_PER_TURN = 100
"""Default of `AgentDefinition.max_model_calls` (spec SESS-08)."""

MAX_ATTEMPTS = 3
"""Attempts of one step (spec MODEL-02, TOOL-02)."""

ATTEMPT_WINDOW = timedelta(minutes=30)
"""Time from the first attempt within which another one may begin (spec MODEL-02)."""

LEASE_DURATION = timedelta(seconds=120)
"""A step is dead after this long without a renewal (spec MODEL-02)."""

LEASE_RENEWAL = timedelta(seconds=20)
"""Time between two renewals of a running step's lease (spec MODEL-02)."""

LEASE_GRACE = timedelta(seconds=5)
"""An expired lease may be revoked only this long after its expiry (design §3), which covers clock skew."""

START_LEASE = timedelta(seconds=30)
"""A dispatched step that nobody claimed for this long is sent again (design §3)."""

TIMER_GRACE = timedelta(seconds=60)
"""A timer that has not fired this long after it was due is fired by the sweep (design §3)."""

CREDENTIAL_LOOK = timedelta(minutes=1)
"""Time after which the sweep looks whether a model that refused its credential has another one now; doubles with each
look up to an hour. Our own choice."""

TOOL_RETRY_DELAYS = (timedelta(seconds=1), timedelta(seconds=2))
"""Waits before attempts 2 and 3 of a tool that raised something unexpected (surface §4.3)."""

MAX_ERROR_CHARACTERS = 1000
"""Length of a failed turn's reason, in characters. HEAD holds it, and a provider may send a page. Our own choice."""

PREVIEW_CHARACTERS = 120
"""Length of the preview in the session list, in characters."""

MAX_SESSION_ID = 128
"""Length of a session id, in characters (surface §4.1)."""

MAX_IDEMPOTENCY_KEY = 256
"""Length of an `Idempotency-Key`, in characters (surface §4.1)."""

MAX_MESSAGE_ID = 128
"""Length of a caller's message id, in characters; ours are shorter."""

MAX_SETTINGS_BYTES = 16 * 1024
"""Size of a session's settings, in bytes of compact UTF-8 JSON (spec SET-04)."""

MAX_CHECKPOINT_BYTES = 4096
"""Longest checkpoint of a running tool, in UTF-8 bytes: it is a note of where to go on, in the lease item, which is
written anew with every renewal. Our own choice."""

MAX_TOOL_OUTPUT_BYTES = 16 * 1024 * 1024
"""Largest tool output, in UTF-8 bytes. A larger one is not kept: a read ends as `failed`, a write
as `succeeded` with a note instead of its output.

Our own choice: it fits in memory of the smallest function many times over and no provider takes a larger prompt.
"""

LONGEST_QUEUE_DELAY = timedelta(seconds=900)
"""Longest that a dispatch waits in a queue; what is later waits for a timer (SQS `DelaySeconds`, spec TASK-02)."""

CANCEL_RETRY_DELAYS = (timedelta(seconds=5), timedelta(seconds=20))
"""Waits before attempts 2 and 3 to have remote work stopped. Our own choice, within `CANCEL_WINDOW`."""

CANCEL_WINDOW = timedelta(minutes=2)
"""Time in which remote work is asked to stop (spec TASK-08)."""

RECONCILE_DELAYS = (timedelta(seconds=5), timedelta(seconds=30), timedelta(minutes=2), timedelta(minutes=10))
"""Waits between looks for an unknown outcome; after the last one it stays unknown. Our own choice."""

MAX_WAIT = timedelta(days=365)
"""Longest durable wait, sleep of a tool and deadline (spec WAIT-01, WAIT-07)."""

MAX_AHEAD = timedelta(days=8 * 366)
"""How far ahead an occurrence of a schedule may be moved: as far as one may be set (`calendar.SEARCH_YEARS`)."""

MIN_POLL_INTERVAL = timedelta(seconds=1)
MAX_POLL_INTERVAL = timedelta(days=1)
"""Time between two looks at remote work; rounded up to whole seconds (spec TASK-02)."""

MAX_SCHEDULES = 100
"""Schedules of one session. Each takes about 150 bytes of HEAD. Our own choice."""

LATE_AFTER = timedelta(seconds=60)
"""An occurrence that is sent later than this says so. Our own choice: the grace of a timer."""

SCHEDULE_RETRY_LIMIT = timedelta(seconds=60)
"""Longest wait between two tries of an occurrence: 1, 2, 4 … 60 s (spec SCHD-03)."""

MAX_REQUESTS = 32
"""Values that an application may ask for at a time. Our own choice."""

MAX_GRANTS = 20
"""Approvals ahead of one session. Our own choice."""

MAX_GRANT = timedelta(days=30)
"""Longest that an approval ahead holds. Our own choice: whoever gave it has forgotten it by then."""

MAX_GRANT_USES = 1_000_000
"""Calls that may be counted for an approval ahead. Our own choice."""

MAX_RECORDS = 100
"""Facts that one call may have recorded: questions, answers, steps, sleeps and events. Each takes some bytes of HEAD.
Our own choice."""
