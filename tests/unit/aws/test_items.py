"""Items: what goes in comes out the same, and what a newer version wrote is refused."""

from __future__ import annotations

import json

import pytest

from perdure.aws import keys
from perdure.aws.items import StoredEntry, head_changes, record_of, stored_of, to_json
from perdure.aws.limits import MAX_PARTITION_KEY_BYTES
from perdure.aws.table import wire
from perdure.core.entries import Entry, Message
from perdure.errors import InvalidRequestError, UnknownRecordVersionError
from perdure.ports import SessionKey
from perdure.testing.moto import AwsInProcess
from tests.contracts.dynamodb import a_store
from tests.unit.aws.builders import KEY, NOON, a_head, committed, texts


def an_entry(output: object) -> Entry:
    message = Message(message_id="m", sequence=1, turn_id="turn-1", role="tool", parts=({"output": output},))
    return Entry(version=1, commit_id="c", at=NOON, kind="tool_finished", messages=(message,))


@pytest.mark.parametrize(
    "value", [0.1, 3, 1753000000.123456, -0.0, 10**30, "", [], {}, None, True, "\x00", "\ud800", "Grüße 🌍\u2028"]
)
def test_every_json_value_comes_back_as_what_it_was(value: object) -> None:
    stored = StoredEntry.whole(an_entry({"value": value}))

    entry = StoredEntry.of(json.loads(stored.text)).entry()

    came_back = entry.messages[0].parts[0]["output"]["value"]
    assert type(came_back) is type(value)
    assert came_back == value
    assert repr(came_back) == repr(value)  # minus zero equals zero


@pytest.mark.parametrize("text", ["", "\x00", "Grüße 🌍", "\ud83c", "0.1"])
async def test_every_text_comes_back_from_the_table_as_it_was_sent(aws: AwsInProcess, text: str) -> None:
    store = a_store(aws)
    await committed(store, "commit-1", text)
    await store.settle(KEY)
    await committed(store, "commit-2", text)

    assert texts((await a_store(aws).read(KEY)).entries) == [text, text]


def test_text_is_stored_in_as_few_bytes_as_utf_8_takes() -> None:
    assert to_json(["ü"]) == '["ü"]'


def test_a_head_of_a_newer_version_is_refused() -> None:
    changes, _ = head_changes(KEY, a_head(), ())
    item = {name: wire(value) for name, value in (changes | {"sk": "HEAD", "schema_version": 99}).items()}

    with pytest.raises(UnknownRecordVersionError, match="HEAD has schema version 99"):
        record_of(item)


def test_a_log_item_of_a_newer_version_is_refused() -> None:
    item = {"sk": wire("LOG#1"), "schema_version": wire(99), "entry": wire("{}")}

    with pytest.raises(UnknownRecordVersionError, match="schema version 99"):
        stored_of(item)


@pytest.mark.parametrize("tenant", ["", "acme", "a#b", "a%23b", "Grüße/🌍", "\ud800", "a b\n"])
def test_a_partition_key_leads_back_to_its_session(tenant: str) -> None:
    key = SessionKey(tenant=tenant, session_id="s.1:a-B_2")

    partition = keys.partition_key(key)

    assert partition.count("#") == 1
    assert keys.session_key(partition) == key


def test_two_sessions_never_share_a_partition() -> None:
    pairs = [("a", "b"), ("a#b", "c"), ("a", "b:c"), ("a%23b", "c"), ("", "a"), ("#connection", "c"), ("a:b", "c")]

    partitions = {keys.partition_key(SessionKey(tenant=tenant, session_id=name)) for tenant, name in pairs}

    assert len(partitions) == len(pairs)


@pytest.mark.parametrize("session_id", ["", "a#b", "a/b", "s" * 129, "ü"])
def test_what_is_no_session_id_never_becomes_a_key(session_id: str) -> None:
    with pytest.raises(InvalidRequestError, match="is no session id"):
        keys.partition_key(SessionKey(tenant="acme", session_id=session_id))


def test_a_tenant_whose_key_would_be_too_long_is_refused() -> None:
    longest = "t" * (MAX_PARTITION_KEY_BYTES - len("#s-1"))

    assert len(keys.partition_key(SessionKey(tenant=longest, session_id="s-1"))) == MAX_PARTITION_KEY_BYTES
    with pytest.raises(InvalidRequestError, match="2049 bytes, of 2048"):
        keys.partition_key(SessionKey(tenant=longest + "t", session_id="s-1"))


def test_due_times_are_rounded_up_to_whole_minutes() -> None:
    exact = keys.due_millis(NOON)

    assert keys.due_millis(NOON.replace(microsecond=1000)) == exact + 60_000
    assert keys.due_millis(NOON.replace(second=59)) == exact + 60_000
