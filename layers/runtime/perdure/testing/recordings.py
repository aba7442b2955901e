"""Record what a real model answered, and give the same answers again without it (spec TEST-06).

    model = RecordingModel(OpenAIChatModel("gpt-4.1"), Path("order_7.jsonl"))  # once, by hand
    model = ReplayModel(Path("order_7.jsonl"))  # in tests

A recording is a file with one JSON object a line, to be kept beside the tests and read by people.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from perdure.core.codec import decode, encode
from perdure.core.ids import content_hash
from perdure.errors import ModelCallError
from perdure.models.base import (
    ModelClient,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    StreamActivity,
    StreamItem,
    TextDelta,
    ToolArgumentsDelta,
)

JsonObject = dict[str, Any]

_KINDS: dict[str, type[TextDelta | ReasoningDelta | ToolArgumentsDelta | ModelResponse]] = {
    "text": TextDelta,
    "reasoning": ReasoningDelta,
    "arguments": ToolArgumentsDelta,
    "response": ModelResponse,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


class NotRecordedError(AssertionError):
    """The model was asked something that is not in its recording: record it anew."""


def fingerprint(request: ModelRequest) -> str:
    """Return what tells requests apart: all that the model is shown, without the deadline."""
    return content_hash(
        {
            "instructions": request.instructions,
            "messages": [[type(item).__name__, encode(item)] for item in request.messages],
            "tools": [encode(tool) for tool in request.tools],
            "settings": request.settings.as_json(),
        }
    )


class RecordingModel:
    """A `ModelClient` that asks another one and appends each call that came to its end to a file, failures included.

    Files that a model made are passed on and not recorded.
    """

    def __init__(self, model: ModelClient, file: Path) -> None:
        self._model = model
        self._file = file

    @property
    def provider(self) -> str:
        return self._model.provider

    @property
    def model(self) -> str:
        return self._model.model

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """Make the call, and record it when its end has come. A call that is left before is not recorded."""
        items: list[JsonObject] = []
        try:
            async for item in self._model.stream(request):
                if isinstance(item, StreamActivity):
                    yield item
                    continue
                kept = replace(item, files=()) if isinstance(item, ModelResponse) else item
                items.append({_NAMES[type(item)]: encode(kept)})
                if isinstance(item, ModelResponse):  # the last one; whoever has it may leave
                    self._append(request, items, None)
                yield item
        except ModelCallError as error:
            self._append(request, items, error)
            raise

    def _append(self, request: ModelRequest, items: list[JsonObject], error: ModelCallError | None) -> None:
        last = request.messages[-1] if request.messages else None
        record: JsonObject = {
            "request": fingerprint(request),
            "asked": encode(last) if last is not None else None,  # for people
            "provider": self.provider,
            "model": self.model,
            "items": items,
        }
        if error is not None:
            record["error"] = {
                "message": error.message,
                "kind": error.kind,
                "retryable": error.retryable,
                "status": error.status,
                "retry_after_seconds": error.retry_after_seconds,
                "partial_text": error.partial_text,
            }
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


class ReplayModel:
    """A `ModelClient` that gives recorded answers: those of one request in their order, then the last one again.

    Attributes:
        requests: What it was asked.

    Raises:
        ValueError: There is nothing in the recording.
    """

    def __init__(self, file: Path) -> None:
        with file.open(encoding="utf-8") as lines:  # not `splitlines`: a text may hold a U+2028
            records: list[JsonObject] = [json.loads(line) for line in lines]
        if not records:
            raise ValueError(f"there is no answer in the recording {file}: record it anew")
        self._file = file
        self._answers: dict[str, list[JsonObject]] = {}
        for record in records:
            self._answers.setdefault(record["request"], []).append(record)
        self.provider: str = records[0]["provider"]
        self.model: str = records[0]["model"]
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """Give the recorded answer, or raise the recorded error.

        Raises:
            NotRecordedError: This was never asked; a changed prompt, tool or history is another request.
        """
        self.requests.append(request)
        answers = self._answers.get(fingerprint(request))
        if not answers:
            last = encode(request.messages[-1]) if request.messages else "nothing"
            raise NotRecordedError(f"{self._file} has no answer to {last} with this history, prompt and tools")
        record = answers.pop(0) if len(answers) > 1 else answers[0]
        for item in record["items"]:
            ((name, data),) = item.items()
            yield decode(_KINDS[name], data)
        if "error" in record:
            raise ModelCallError(**record["error"])
