"""What `SessionStore` promises of texts, numbers and sizes: everything comes back as it was stored."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.core.wait_commands import StepRecorded, ToolParked
from perdure.testing.conformance.adapter import Adapter
from perdure.testing.conformance.builders import (
    A_SESSION,
    NOON,
    a_claim,
    a_request_for,
    a_result,
    an_answer,
    commit,
    entry_of,
    send,
)

pytestmark = pytest.mark.asyncio

ODD_TEXTS = {
    "empty": "",
    "nul": "a\0b",
    "controls": "".join(map(chr, range(32))) + "\x7f\x85\x1b[31mred",
    "line separators": "a\u2028b\u2029c",
    "beyond the first plane": "\U0001f469\u200d\U0001f467 \U0001d518\U0001d52b\U0001d526 \U0010ffff",
    "noncharacters": "\ufeff\ufffe\uffff\ufdd0",
    "combining": "e\u0301 é ﷺ",
    "right to left": "\u202eabc\u202c עברית",
    "quotes and escapes": "\"\\'\\u0000\\n{{}}",
    "around the surrogates": "\ud7ff\ue000",
}


@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS.keys())
async def test_f025_every_text_comes_back_as_it_was_sent(adapter: Adapter, text: str) -> None:
    asked = await send(adapter.store, text=text, idempotency_key="k")
    requested = await commit(adapter.store, A_SESSION, a_request_for(asked.head, "cat"))
    finished = await commit(adapter.store, A_SESSION, a_result(requested.head, text))
    await commit(adapter.store, A_SESSION, an_answer(finished.head, parts=[{"type": "x", text: text}]))
    await adapter.store.settle(A_SESSION)

    for store in (adapter.store, adapter.another_store()):
        log = await store.read(A_SESSION)
        assert log.entries[0].inputs[0].text == text
        assert log.entries[2].messages[0].parts[0]["output"] == text
        assert log.entries[3].messages[0].parts[-1] == {"type": "x", text: text}


async def test_f090_numbers_come_back_as_what_they_were(adapter: Adapter) -> None:
    numbers = {"score": 0.1, "n": 3, "t": 1753000000.123456, "neg0": -0.0, "big": 2**63, "huge": 1e308, "tiny": 5e-324}
    asked = await send(adapter.store)
    await commit(adapter.store, A_SESSION, an_answer(asked.head, parts=[{"type": "x", "numbers": numbers}]))
    await adapter.store.settle(A_SESSION)

    for store in (adapter.store, adapter.another_store()):
        stored = (await store.read(A_SESSION)).entries[1].messages[0].parts[-1]["numbers"]
        assert stored == numbers
        assert {name: type(value) for name, value in stored.items()} == {n: type(v) for n, v in numbers.items()}
        assert str(stored["neg0"]) == "-0.0"


async def test_f098_empty_texts_lists_and_objects_are_values_like_others(adapter: Adapter) -> None:
    part: dict[str, Any] = {
        "type": "x",
        "text": "",
        "list": [],
        "object": {},
        "none": None,
        "false": False,
        "": "empty name",
    }
    asked = await send(adapter.store, text="")
    await commit(adapter.store, A_SESSION, an_answer(asked.head, text="", parts=[part]))
    await adapter.store.settle(A_SESSION)

    for store in (adapter.store, adapter.another_store()):
        log = await store.read(A_SESSION)
        assert log.entries[0].inputs[0].text == ""
        assert log.entries[1].messages[0].parts == ({"type": "text", "text": ""}, part)


@pytest.mark.parametrize("size", [4_000, 300_000, 400_000, 2_000_000])
async def test_f092_a_large_text_comes_back_whole_and_the_session_goes_on(adapter: Adapter, size: int) -> None:
    text = ("käse€😀" * size)[:size]
    asked = await send(adapter.store)
    requested = await commit(adapter.store, A_SESSION, a_request_for(asked.head, "cat"))

    finished = await commit(adapter.store, A_SESSION, a_result(requested.head, text))

    await commit(adapter.store, A_SESSION, an_answer(finished.head))
    for store in (adapter.store, adapter.another_store()):
        log = await store.read(A_SESSION)
        assert [entry.version for entry in log.entries] == [1, 2, 3, 4]
        assert log.entries[2].messages[0].parts[0]["output"] == text
        assert (await store.read(A_SESSION, first=3, last=3)).entries == (entry_of(finished),)


async def test_many_large_parts_in_one_entry_come_back_in_their_order(adapter: Adapter) -> None:
    parts = [{"type": "text", "text": f"{number}:" + "x" * 30_000} for number in range(30)]
    asked = await send(adapter.store)

    await commit(adapter.store, A_SESSION, an_answer(asked.head, parts=parts))

    await adapter.store.settle(A_SESSION)
    assert list((await adapter.another_store().read(A_SESSION)).entries[1].messages[0].parts[1:]) == parts


async def test_an_admission_with_a_large_reply_and_receipts_is_answered_with_the_same_reply(adapter: Adapter) -> None:
    decision = await send(adapter.store, text="€" * 200_000, idempotency_key="k")

    loaded = await adapter.another_store().load(A_SESSION, [a_claim("k").key_hash])

    assert loaded.receipts[a_claim("k").key_hash].reply == decision.reply


@pytest.mark.parametrize("size", [10, 5_000, 300_000, 1_000_000])
async def test_what_calls_have_to_know_again_comes_back_whole_and_so_does_what_they_wait_for(
    adapter: Adapter, size: int
) -> None:
    value = {"text": ("käse€😀" * size)[:size], "n": [0.1, None, ""]}
    asked = await send(adapter.store)
    requested = await commit(adapter.store, A_SESSION, a_request_for(asked.head, "build"))
    assert requested.head.turn is not None
    call = requested.head.turn.calls[0]
    of: Any = {"turn_id": requested.head.turn.turn_id, "call_id": call.call_id, "attempt": call.attempt}

    await commit(adapter.store, A_SESSION, StepRecorded(**of, name="make", value=value))
    await adapter.store.settle(A_SESSION)
    parked = ToolParked(**of, started_at=NOON, name="nap", sleep=timedelta(days=30))
    waiting = await commit(adapter.store, A_SESSION, parked)

    for store in (adapter.store, adapter.another_store()):
        (entry,) = (await store.read(A_SESSION, first=3, last=3)).entries
        assert [(fact.kind, fact.name, fact.value) for fact in entry.facts] == [("step", "make", value)]
        assert (await store.load(A_SESSION)).head == waiting.head
