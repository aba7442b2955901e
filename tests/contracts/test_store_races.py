"""The traces of weaker rules that reach the store (X1-X4, X10, X11), against every adapter set."""

from perdure.testing.conformance.store_races import *  # noqa: F403  the tests of the suite, whichever they are
