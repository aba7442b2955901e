"""The whole runtime on one thread, in virtual time, with faults at every call out of it.

    python -m perdure.testing.simulation                                  sweep everything
    python -m perdure.testing.simulation --scenario t1 --adapter embedded sweep one scenario
    python -m perdure.testing.simulation --deep                           no samples, more pairs and orders
    python -m perdure.testing.simulation --scenario t1 --adapter aws --fault crash_after --at 9
    python -m perdure.testing.simulation --scenario t1 --adapter aws --order 2

The last two forms run one case again; a failing case prints that line. In code: `run_case(Case(...))`, or
`run_embedded`, `run_aws` and `run_overlapping`. A scenario is an agent and what its user does; `scenarios.SCENARIOS`
is the catalogue, and whoever builds a feature adds to it (docs/testing.md says how).

A run passes if it ends as the clean run does (a call that runs at most once may have ended as `outcome_unknown`
instead, after a crash or a stall only), if what design §10 says holds after every commit, if what the transcript says
of a call is what its body did, and if no work is left that nobody will ever do. Embedded, a crash ends the process and
another one starts on the same database; on AWS it ends one invocation.

| module | for |
|---|---|
| `faults` | the faults, the points where they strike, the plan of a run |
| `scenarios`, `agents` | the catalogue, and the agents in it |
| `world` | what is outside: the books of the tools, and what a user can do |
| `embedded`, `run_embedded`, `inline` | the runs on SQLite: processes that die, ports with faults, no threads |
| `aws`, `run_aws` | the runs on AWS, in a checkout: the Lambda harness, faults at every boto3 call |
| `run_overlapping` | runs on AWS without faults, in which invocations overlap, call by call, by seed |
| `observer`, `wire` | who looks at what is stored there, and the short way of a call to moto |
| `invariants`, `ending` | what holds whatever happens, and how a run ended |
| `sweep`, `branches` | cases, their results, and the processes that run them |

What it does not do: where faults strike on AWS, invocations overlap only through a slow or a duplicate one; reads are
never old; and a Lambda container that is cut off is not used again.
"""
