"""What the random search draws from."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import strategies as st

from perdure.core.commands import InboxPolicy, RequestedCall
from perdure.core.inbox import DELIVERIES
from perdure.core.usage import CallUsage
from tests.unit.core.builders import text_part

EFFECTS = ("read", "idempotent_write", "non_idempotent_write", "unclassified")
ENDINGS = (
    *("answer", "tool_calls", "tool_calls", "tool_calls", "truncated", "filtered", "refused", "not_accepted"),
    *("failed", "aborted"),
)
SETTLED = (None, None, None, None, ("failed", "unknown tool nope"))

figures = st.one_of(st.none(), st.integers(0, 1000))
usage_rows = st.lists(
    st.builds(
        CallUsage,
        input_tokens=figures,
        output_tokens=figures,
        cached_input_tokens=figures,
        reasoning_tokens=figures,
        cost=st.sampled_from([None, "0.01", "0.0000001", "2"]),
        currency=st.sampled_from(["USD", "EUR"]),
    ),
    max_size=2,
).map(tuple)
plain_calls = st.builds(
    RequestedCall,
    tool_name=st.sampled_from(["a", "b"]),
    effect=st.sampled_from(EFFECTS),
    requires_approval=st.booleans(),
    provider_call_id=st.sampled_from([None, "p1", "p2", "call-2-0", "call-2-1"]),
    arguments=st.sampled_from([{}, {"x": 1}, None]),
    arguments_text=st.just("{"),
    approval_deadline=st.sampled_from([None, timedelta(minutes=1), timedelta(hours=2)]),
    settled=st.sampled_from(SETTLED),
    lane=st.sampled_from([None, None, "lane"]),
    reconciles=st.booleans(),
)
questions_of_the_model = st.builds(
    RequestedCall,
    tool_name=st.just("ask_user"),
    effect=st.just("read"),
    requires_approval=st.just(False),
    arguments=st.sampled_from([{"question": "Which one?"}, {"question": "Which one?", "choices": ["a", "b"]}]),
    approval_deadline=st.sampled_from([None, timedelta(minutes=1), timedelta(hours=2)]),
    built_in=st.just(True),
)
durable_waits = st.builds(
    RequestedCall,
    tool_name=st.just("durable_wait"),
    effect=st.just("read"),
    requires_approval=st.just(False),
    arguments=st.sampled_from([{"duration_seconds": 90}, {"duration_seconds": 7200, "reason": "a long build"}]),
    built_in=st.just(True),
)
brought_calls = st.builds(
    RequestedCall,
    tool_name=st.just("provider_search"),
    effect=st.sampled_from(EFFECTS),
    requires_approval=st.just(False),
    arguments=st.just({}),
    brought=st.just(True),
)
calls = st.one_of(plain_calls, plain_calls, plain_calls, questions_of_the_model, durable_waits, brought_calls)
call_lists = st.one_of(
    st.lists(calls, max_size=4),
    st.builds(lambda call, count: [call] * count, calls, st.sampled_from([9, 12, 64, 65, 70])),
).map(tuple)
parts = st.sampled_from([(), (text_part("hi"),), ({"type": "reasoning", "text": "hm"}, text_part("ho"))])
deliveries = st.sampled_from([None, "queue", *DELIVERIES])
policies = st.builds(
    InboxPolicy,
    delivery=st.sampled_from(["queue", "inject"]),
    coalesce=st.booleans(),
    on_turn_failure=st.sampled_from(["continue", "auto"]),
)
providers = st.sampled_from([None, {"provider": "stub", "api": "chat"}, {"provider": "other", "api": "chat"}])
