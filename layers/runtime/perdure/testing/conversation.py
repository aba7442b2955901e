"""What the provider stub says when it runs as a program: enough for real conversations with tools, by fixed rules."""

from __future__ import annotations

import re
from typing import Any

from perdure.testing.provider_plans import Stream, answer, wants

JsonObject = dict[str, Any]

_EXPLICIT = re.compile(r"^\s*call\s+([A-Za-z0-9_-]+)\s*(\{.*\})?\s*$", re.MULTILINE)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def converse(body: JsonObject) -> Stream:
    """Answer a conversation, the same one always in the same way.

    Rules, the first that fits:

    1. Behind tool results it answers `I did that: <result>; <result>`.
    2. A line `call NAME {"json": …}` in the user's message calls that tool; several lines call several at once.
    3. If words of the message occur in the name of an offered tool, the tool with the most of them is called; of equals
       the first. Its required arguments come from the message: a number takes the numbers in their order, a text whose
       name ends in `id` does too, another text the whole message; a boolean is true.
    4. Else it answers `You said: <message>`.
    """
    messages = [message for message in body["messages"] if not _is_retry_note(message)]
    results = _results(messages)
    if results:
        return answer(f"I did that: {'; '.join(results)}")
    text = next((m["content"] for m in reversed(messages) if m["role"] == "user"), "")
    turn = sum(message["role"] == "assistant" for message in messages)
    offered = [tool["function"] for tool in body.get("tools") or ()]
    wanted = _explicit(text) or _by_words(text, offered)
    if offered and wanted:
        return answer(calls=[wants(name, arguments, f"call_{turn}_{n}") for n, (name, arguments) in enumerate(wanted)])
    return answer(f"You said: {text}")


def _is_retry_note(message: JsonObject) -> bool:
    """Whether this tells the model of its answer that was cut; a person has not said it."""
    return message["role"] == "user" and str(message["content"]).startswith("[turn_retried]")


def _results(messages: list[JsonObject]) -> list[str]:
    results: list[str] = []
    for message in reversed(messages):
        if message["role"] != "tool":
            break
        results.insert(0, message["content"])
    return results


def _explicit(text: str) -> list[tuple[str, JsonObject | str]]:
    return [(found.group(1), found.group(2) or "{}") for found in _EXPLICIT.finditer(text)]


def _by_words(text: str, offered: list[JsonObject]) -> list[tuple[str, JsonObject | str]]:
    words = set(re.findall(r"[a-z]+", text.lower()))
    scored = [(len(words & set(re.split(r"[_-]", tool["name"].lower()))), tool) for tool in offered]
    best, tool = max(scored, key=lambda pair: pair[0], default=(0, None))
    return [(tool["name"], _arguments(text, tool["parameters"]))] if best and tool else []


def _arguments(text: str, schema: JsonObject) -> JsonObject:
    numbers = _NUMBER.findall(text)
    arguments: JsonObject = {}
    for name in schema.get("required", ()):
        kind = schema["properties"].get(name, {}).get("type")
        if kind in ("integer", "number"):
            number = float(numbers.pop(0)) if numbers else 1.0
            arguments[name] = int(number) if kind == "integer" else number
        elif kind == "boolean":
            arguments[name] = True
        elif name.endswith("id"):
            arguments[name] = numbers.pop(0) if numbers else "1"
        else:
            arguments[name] = text
    return arguments
