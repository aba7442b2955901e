"""What `StepQueue` promises, against every adapter set."""

from perdure.testing.conformance.queue import *  # noqa: F403  the tests of the suite, whichever they are
