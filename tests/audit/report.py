"""The permission report of `make permissions`: what functions used, what their roles grant, and the difference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from perdure.testing.permissions import Grant, Watch
from tests.audit.roles import USED_BY_LAMBDA


def report(seen: Watch) -> str:
    """Return the report, a line for each action of each function; grants of one action are counted together."""
    lines = ["", f"{'function':26}{'action':34}{'granted on':>11}{'used':>6}  note"]
    missing = idle = 0
    for function in sorted(seen.grants):
        unused = set(seen.unused(function))
        for action, grants in _by_action(seen.grants[function]):
            used = [grant for grant in grants if grant not in unused]
            by_lambda = action in USED_BY_LAMBDA
            rest = [] if by_lambda else [grant.written for grant in grants if grant in unused]
            idle += len(rest)
            note = "by Lambda itself" if by_lambda else f"unused: {', '.join(rest)}" if rest else ""
            lines.append(f"{function:26}{action:34}{len(grants):>11}{len(used):>6}  {note}".rstrip())
        for use in seen.missing(function):
            missing += 1
            lines.append(f"{function:26}{use.action:34}{'-':>11}{'1':>6}  MISSING: {use.resource}")
    uses = sum(len(found) for found in seen.used.values())
    lines += ["", f"{uses} different uses; used and not granted: {missing}; granted and not used: {idle}"]
    return "\n".join(lines)


def _by_action(grants: Iterable[Grant]) -> Iterator[tuple[str, list[Grant]]]:
    actions: dict[str, list[Grant]] = {}
    for grant in grants:
        actions.setdefault(grant.action, []).append(grant)
    yield from sorted(actions.items())
