"""How many timers fire at a time, and for how long (spec SCHD-05)."""

from __future__ import annotations

from datetime import timedelta

MAX_FIRING_TIMERS = 32
"""Timers that fire at a time, in one process and of one deployment on AWS; more wait in their queue."""

FIRING_BUDGET = timedelta(seconds=45)
"""Longest time that one timer may take to fire: the 30 s of an agent's `on_schedule`, and some to read and commit. The
sweep fires one that took longer. Less than the timeout of the function. Our own choice."""
