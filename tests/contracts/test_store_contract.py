"""What `SessionStore` promises of commits, logs and receipts, against every adapter set."""

from perdure.testing.conformance.store import *  # noqa: F403  the tests of the suite, whichever they are
