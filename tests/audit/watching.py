"""Holds every function of every harness to its role from the moment of its import: for the sweep of the simulation.

`python -m perdure.testing.simulation --load tests.audit.watching`: a call that a role does not allow is answered with
`AccessDeniedException`, and its run does not end as it should.
"""

from __future__ import annotations

from perdure.testing import permissions
from perdure.testing.lambda_harness import LambdaHarness
from tests.audit import roles

SEEN = permissions.Watch(roles.grants_of_template())


def _watch(harness: LambdaHarness) -> None:
    roles.watch(harness, SEEN)


permissions.WATCHERS.append(_watch)
