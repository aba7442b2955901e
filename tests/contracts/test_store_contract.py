"""What `SessionStore` promises of commits, logs, receipts and values, against every adapter set."""

from perdure.testing.conformance.store import *  # noqa: F403  the tests of the suite, whichever they are
from perdure.testing.conformance.values import *  # noqa: F403
