"""What `Timers` promises, against every adapter set."""

from perdure.testing.conformance.timers import *  # noqa: F403  the tests of the suite, whichever they are
