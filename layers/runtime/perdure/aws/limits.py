"""Limits of AWS and our own sizes below them, each with its unit and its source.

"model" is the API documentation inside botocore 1.44.8; "ours" is a choice of this package.
"""

from __future__ import annotations

from datetime import timedelta

# --- DynamoDB ----------------------------------------------------------------------------------------------------

MAX_ITEM_BYTES = 400 * 1024
"""Largest item, in bytes: attribute names and values, text in UTF-8 (model, developer guide)."""

MAX_PARTITION_KEY_BYTES = 2048
"""Largest partition key, in bytes (model)."""

MAX_BATCH_GET = 100
"""Keys of one BatchGetItem (model)."""

MAX_TAIL_BYTES = 16 * 1024
"""HEAD's tail, in bytes of JSON: a commit that would push it over settles first (ours; about 4 KB as it is stored).

Far above `SETTLE_TAIL_BYTES`, because here a step waits, and of many siblings at once each would put the same entries.
"""

SETTLE_TAIL_BYTES = 4 * 1024
"""HEAD's tail, in bytes of JSON, from which on a step settles it while it works (ours): about the entries of a turn.

Less means larger HEADs seldom, but a step that takes no time waits for the puts more often (docs/decisions/0005).
"""

MAX_INLINE_ENTRY_BYTES = 4 * 1024
"""Largest entry inside the tail and its log item, in bytes of JSON; a larger one is offloaded whole (ours)."""

MAX_BODY_ITEM_BYTES = 300 * 1024
"""Largest offloaded entry that becomes a table item, in bytes of JSON; a larger one goes to S3 (design §2; ours)."""

DUE_BUCKETS = 16
"""Partitions of the due index, so that no single one takes every session's writes (design §3; ours)."""

DUE_GRAIN = timedelta(minutes=1)
"""Due times are rounded up to this, so that most commits of a turn leave the due index alone (design §3; ours)."""

# --- S3 ----------------------------------------------------------------------------------------------------------

MAX_OBJECT_BYTES = 64 * 1024 * 1024
"""Largest entry that is stored at all, in bytes of JSON (ours).

S3 takes 5 GiB in one PUT; this is what the smallest function can hold several times over in memory. A tool's output
is bounded to a quarter of it before (`core.limits.MAX_TOOL_OUTPUT_BYTES`).
"""

# --- leases, progress, sockets -----------------------------------------------------------------------------------

LEASE_ITEM_TTL = timedelta(days=7)
"""How long a lease item outlives its lease (design §3; ours)."""

RESULT_TTL = timedelta(hours=24)
"""How long an outcome waits for the commit that takes it; the sweep comes within minutes. Our own choice."""

PROGRESS_TTL = timedelta(hours=24)
"""How long progress of a step can be read (design §4; ours)."""

MAX_PROGRESS_BYTES = 10 * 1024 * 1024
"""Progress kept of all open attempts of a session, in bytes of JSON (spec EVT-06)."""

PROGRESS_SHARE_BYTES = MAX_PROGRESS_BYTES // 64
"""Progress that a worker writes before it looks again what the session's other attempts have written: 64 calls run at a
time, so the first looks come before the budget is spent (ours)."""

MAX_UNSENT_BATCHES = 8
"""Batches of an attempt that wait for a write that failed to be tried again (ours)."""

MAX_PROGRESS_ITEM_BYTES = 64 * 1024
"""Progress events in one item, in bytes of JSON; a larger batch becomes several items (ours)."""

SUBSCRIPTION_TTL = timedelta(hours=3)
"""How long a subscription is kept; a connection lives 2 hours at most (API Gateway quotas; 3 h is ours)."""

TICKET_LIFETIME = timedelta(seconds=60)
"""How long a socket ticket can be redeemed (design §4; ours)."""

# --- SQS ---------------------------------------------------------------------------------------------------------

MAX_MESSAGE_BYTES = 1_048_576
"""Largest message, in bytes (model). Ours carry ids only and stay under 2 KB."""

MAX_DELAY = timedelta(seconds=900)
"""Longest delay of one message (model)."""

MAX_GROUP_ID = 128
"""Length of a message group id, in characters (model)."""

# --- EventBridge Scheduler ---------------------------------------------------------------------------------------

MAX_SCHEDULE_NAME = 64
"""Length of a schedule's name, in characters of `[0-9a-zA-Z-_.]` (model)."""

SCHEDULE_LEAD = timedelta(seconds=900)
"""A schedule fires this much early; the rest is the message's delay (design §4; not more than `MAX_DELAY`)."""

MIN_SCHEDULE_AHEAD = timedelta(seconds=120)
"""A schedule is made only if it fires at least this far from now (ours).

Scheduler has a precision of 60 s (user guide), and a time that has passed is refused at creation.
"""

# --- Lambda ------------------------------------------------------------------------------------------------------

DEADLINE_MARGIN = timedelta(seconds=30)
"""A step must end this long before its function does, so that the attempt is recorded from inside (spec AWS-01)."""

# --- the stream API ----------------------------------------------------------------------------------------------

MAX_STREAM = timedelta(seconds=900)
"""Longest request of the stream API and of the function behind it (API Gateway and Lambda quotas)."""
