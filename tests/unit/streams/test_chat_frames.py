"""Chunks that are too large for a frame: what stands for them is a chunk of the same form."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.core.cursor import Cursor
from perdure.feed import Feed
from perdure.streams.chat import CHUNK_BYTES, ChatAnswer
from perdure.streams.parts import MAX_FRAME_BYTES, frame_texts
from perdure.streams.ui_chunks import UIChunks
from tests.unit.aws.builders import a_head
from tests.unit.streams.ui_builders import Log, begun, called, deferred, said, stepped

METADATA = {"small": {"icon": "lens"}, "long text": {"help": "x" * 2_000}, "many": {f"k{n}": "v" for n in range(500)}}


@pytest.mark.parametrize("metadata", METADATA.values(), ids=METADATA.keys())
def test_the_metadata_of_a_call_that_is_cut_stays_an_object_or_is_left_out(metadata: dict[str, Any]) -> None:
    log = Log()
    numbers = list(range(CHUNK_BYTES // 4))  # no text in them could be cut
    call = called("call-2-0", numbers=numbers) | {"tool_metadata": metadata}
    commit = log.commit(*begun(), *stepped("model-1-0"), said("message-2-0", call), deferred("call-2-0"))

    answer = ChatAnswer("r-1", "s-1", Cursor().encode("s-1"), UIChunks("turn-1"))
    frames = answer.take(Feed(items=(commit,), cursor=commit.cursor, head=a_head(1)))

    assert all(len(text) <= MAX_FRAME_BYTES for frame in frames for text in frame_texts(frame))
    [shown] = [frame["chunk"] for frame in frames if frame["chunk"]["type"] == "tool-input-available"]
    assert "cut:" in shown["input"]
    assert shown.get("toolMetadata", metadata) == metadata
    assert ("toolMetadata" in shown) is (metadata == METADATA["small"])
