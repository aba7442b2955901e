"""What `Leases` promises, against every adapter set."""

from perdure.testing.conformance.leases import *  # noqa: F403  the tests of the suite, whichever they are
