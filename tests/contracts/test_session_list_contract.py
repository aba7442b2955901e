"""What `SessionStore` promises of lists and of the sweep, against every adapter set."""

from perdure.testing.conformance.session_list import *  # noqa: F403  the tests of the suite, whichever they are
