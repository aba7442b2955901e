"""Ways of breaking the product on purpose. Each is an edit of its source, and a sweep that has to notice it.

The edits are exact: when the source has changed, the test of that mutation says so, and the edit follows the source.
"""

from __future__ import annotations

from dataclasses import dataclass

Edit = tuple[str, str, str]
"""File below the package, what stands there once, and what stands there instead."""


@dataclass(frozen=True)
class Mutation:
    """One broken rule.

    Attributes:
        breaks: What no longer holds.
        sweep: Arguments of `python -m perdure.testing.simulation`: the smallest sweep that notices.
    """

    name: str
    breaks: str
    edits: tuple[Edit, ...]
    sweep: str


MUTATIONS: tuple[Mutation, ...] = (
    Mutation(
        "drop-the-version-condition",
        "of two commits on one version exactly one holds (design §2)",
        (
            (
                "aws/store.py",
                'condition="#version = :expected" if expected else "attribute_not_exists(#pk)"',
                'condition="attribute_exists(#pk)" if expected else "attribute_not_exists(#pk)"',
            ),
            ("aws/store.py", 'values={"expected": expected} if expected else None', "values=None"),
        ),
        "--scenario two-reads --adapter aws --fault slow",
    ),
    Mutation(
        "drop-before-materialize",
        "an entry leaves the tail only after its puts were acknowledged (races.md X3)",
        (
            (
                "aws/tail.py",
                "        await _all_of(\n            self._table.put_once(log_item(partition, stored)),",
                (
                    "        self._memory(partition).durable.add(stored.version)\n"
                    "        await _all_of(\n            self._table.put_once(log_item(partition, stored)),"
                ),
            ),
        ),
        "--scenario answer --adapter aws --fault error --then error",
    ),
    Mutation(
        "look-in-the-tail-only",
        "a command whose answer was lost is found wherever its entry has gone (races.md X2)",
        (
            (
                "aws/store.py",
                "            landed = await self._log.entry(partition, stored.version)",
                "            pass",
            ),
            (
                "aws/store.py",
                "                stored = await self._log.entry(partition, version)",
                "                pass",
            ),
        ),
        "--scenario two-reads --adapter aws --fault lost_answer --then slow",
    ),
    Mutation(
        "never-look-for-a-lost-commit",
        "one command is committed once, whatever becomes of the answer (races.md X2)",
        (("steps/commit.py", "if tried and (landed :=", "if not tried and (landed :="),),
        "--scenario t1-cold --adapter embedded --fault lost_answer",
    ),
    Mutation(
        "send-before-commit",
        "effects go out after the commit that calls for them (design §2)",
        (
            (
                "steps/commit.py",
                "                made = await ports.store.commit(key, loaded, decision)",
                (
                    "                for early in expected_dispatches(decision.head):\n"
                    "                    await ports.queue.send(key, early)\n"
                    "                made = await ports.store.commit(key, loaded, decision)"
                ),
            ),
            (
                "steps/commit.py",
                "for d in after if d not in before and d.claimed_by is None",
                "for d in after if False",
            ),
        ),
        "--scenario t1-cold --adapter embedded",
    ),
    Mutation(
        "skip-started",
        "a write's start is committed before its body runs (spec TOOL-07)",
        (("steps/call_tool.py", "if not call.is_read and not await _may_start(attempt, call):", "if False:"),),
        "--scenario payment-cold --adapter embedded --fault crash_before",
    ),
    Mutation(
        "take-a-start-for-somebody-elses",
        "a start whose answer was lost is recognised by its owner (races.md X8)",
        (
            ("core/tools.py", '{"go": call.started == command.owner}', '{"go": False}'),
            ("steps/commit.py", "if tried and (landed :=", "if not tried and (landed :="),
        ),
        "--scenario payment-cold --adapter embedded --fault lost_answer",
    ),
    Mutation(
        "reclaim-an-attempt",
        "an attempt is claimed at most once (races.md X6)",
        (("embedded/leases.py", "WHERE attempt < excluded.attempt", "WHERE attempt <= excluded.attempt"),),
        "--scenario two-reads --adapter embedded --fault duplicate",
    ),
    Mutation(
        "revoke-the-living",
        "a lease that has not expired is not revoked (design §3)",
        (("embedded/leases.py", "if now < to_millis(lease.expires_at + LEASE_GRACE):", "if False:"),),
        "--scenario long-payment --adapter embedded --fault crash_before",
    ),
    Mutation(
        "never-renew",
        "a running step keeps its lease (design §3)",
        (("core/limits.py", "LEASE_RENEWAL = timedelta(seconds=20)", "LEASE_RENEWAL = timedelta(hours=20)"),),
        "--scenario long-payment --adapter embedded --fault crash_before",
    ),
    Mutation(
        "receipt-before-head",
        "a key's receipt is read after HEAD (races.md X1)",
        (
            (
                "aws/store.py",
                "        record = await self._head(partition)\n        receipts = {",
                (
                    "        early = await self._receipts(partition, list(receipt_keys), 0) if receipt_keys else {}\n"
                    "        record = await self._head(partition)\n        receipts = {"
                ),
            ),
            (
                "aws/store.py",
                "            receipts |= await self._receipts(partition, unknown, record.purged_version)",
                "            receipts |= early",
            ),
        ),
        "--scenario t1 --adapter aws --fault duplicate",
    ),
    Mutation(
        "acknowledge-and-never-look-again",
        "a crash between commit and send heals (races.md X9)",
        (
            (
                "steps/commit.py",
                "    for dispatch in expected_dispatches(head):\n        if dispatch.claimed_by is None and",
                "    for dispatch in ():\n        if dispatch.claimed_by is None and",
            ),
            ("steps/recover.py", "    for key in due:\n", "    for key in ():\n"),
        ),
        "--scenario answer --adapter aws --fault crash_before,crash_after",
    ),
    Mutation(
        "do-not-look-at-the-start",
        "a process that starts sends again what an earlier one had not sent (design §5)",
        (
            ("steps/recover.py", "        if at_start or overdue:", "        if False:"),
            ("steps/recover.py", "    for key in due:\n", "    for key in ():\n"),
        ),
        "--scenario t1-cold --adapter embedded --fault crash_before",
    ),
    Mutation(
        "let-all-writes-run",
        "at most eight writes run at a time (design §3)",
        (("core/calls.py", "(call.is_read or free > 0)", "(call.is_read or free > -99)"),),
        "--scenario many-writes --adapter embedded --fault crash_after",
    ),
    Mutation(
        "ignore-the-fence",
        "a timer that was set for another deadline does nothing (races.md X12)",
        (
            (
                "core/interrupts.py",
                "if interrupt is not None and interrupt.fence == command.fence:",
                "if interrupt is not None:",
            ),
            # An early timer does nothing either, and an old one is early: the two rules are each other's spare.
            ("core/interrupts.py", "if interrupt.deadline is None or draft.now < interrupt.deadline:", "if False:"),
        ),
        "--scenario moved-deadline --adapter embedded --fault none",
    ),
    Mutation(
        "take-an-absent-lease-for-proof",
        "only a revoked, never claimed attempt proves that it did not run (races.md X5)",
        (
            (
                "steps/recover.py",
                "    revoked = await ports.leases.revoke(key, dispatch.step_id, dispatch.attempt, ports.clock.now())\n",
                (
                    "    lease = await ports.leases.read_lease(key, dispatch.step_id)\n"
                    "    revoked = 'unclaimed'\n"
                    "    if lease is not None and lease.attempt >= dispatch.attempt:\n"
                    "        revoked = await ports.leases.revoke(\n"
                    "            key, dispatch.step_id, dispatch.attempt, ports.clock.now()\n"
                    "        )\n"
                ),
            ),
        ),
        "--scenario dead-letter --adapter aws --fault none --orders 80",
    ),
    Mutation(
        "claim-what-is-claimed",
        "of two invocations with one message exactly one runs the step (design §3)",
        (
            (
                "aws/leases.py",
                '_NOT_HELD = "attribute_not_exists(#sk) OR #attempt < :attempt OR #ttl <= :now"',
                '_NOT_HELD = "attribute_not_exists(#sk) OR #attempt <= :attempt OR #ttl <= :now"',
            ),
        ),
        "--scenario two-reads --adapter aws --fault none --orders 20",
    ),
    Mutation(
        "lose-what-joined",
        "an injected message whose turn ends without an answer goes back to the inbox (spec U-3)",
        (
            (
                "core/turns.py",
                "    put_back(draft, turn.joined)\n",
                '    put_back(draft, turn.joined if outcome != "failed" else ())\n',
            ),
        ),
        "--scenario inject-failed --adapter embedded --fault crash_before",
    ),
    Mutation(
        "do-a-recorded-step-again",
        "what a step of a tool returned is recorded, and not done again (spec TOOL-25)",
        (("steps/durable.py", "        if name in self._facts.steps:\n", "        if False:\n"),),
        "--scenario tool-sleep-timed-out --adapter embedded --fault none",
    ),
    Mutation(
        "count-a-question-as-a-start",
        "a tool that asks first has done nothing yet, so a stop withdraws it (spec APPR-13)",
        (
            (
                "core/asking.py",
                "        return replace(call, started=None, started_attempt=0)\n",
                "        return call\n",
            ),
        ),
        "--scenario tool-question-stopped --adapter embedded --fault none",
    ),
    Mutation(
        "never-fire-what-is-overdue",
        "a timer that was lost is fired by the sweep (spec WAIT-08)",
        (
            ("steps/recover.py", "        if timer.due_at <= now:\n", "        if False:\n"),
            # A message that comes again sets it again: the two are each other's spare.
            (
                "steps/commit.py",
                "    setting = [ports.timers.set(key, timer) for timer in expected_timers(head)]\n",
                "    setting = []\n",
            ),
        ),
        "--scenario sleep-timed-out --adapter aws --fault crash_before",
    ),
    Mutation(
        "forget-an-event-that-comes-early",
        "an event that comes before its tool waits for it is kept (spec TOOL-25)",
        (("core/parks.py", "    elif command.event and command.name in call.arrived:\n", "    elif False:\n"),),
        "--scenario early-event --adapter embedded --fault none",
    ),
    Mutation(
        "take-an-old-timer-of-a-wait",
        "a timer that was set before a wait was moved does nothing (spec WAIT-08)",
        (
            (
                "core/interrupts.py",
                "if waiting is None or waiting.wait is None or waiting.wait.fence != command.fence:",
                "if waiting is None or waiting.wait is None:",
            ),
            ("core/interrupts.py", "if waiting.wait.until is None or draft.now < waiting.wait.until:", "if False:"),
        ),
        "--scenario sleep-moved --adapter aws --fault crash_before,error,crash_after",
    ),
    Mutation(
        "send-an-occurrence-again",
        "an occurrence of a schedule is sent once, whoever fires it how often (spec SCHD-04)",
        (
            (
                "core/schedules.py",
                "if schedule is None or schedule.fence != command.fence or draft.now < schedule.due_at:",
                "if schedule is None:",
            ),
            # The step looks up what to send only for the timer that is set: the two are each other's spare.
            ("steps/waking.py", "    if schedule is None or schedule.fence == fence:\n", "    if True:\n"),
        ),
        "--scenario schedule-fired-twice --adapter aws --fault duplicate",
    ),
)
