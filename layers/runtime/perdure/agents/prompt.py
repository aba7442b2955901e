"""The instructions of a model step, put together from sections that say where they come from (spec MODEL-20)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSection:
    """A part of the instructions.

    Attributes:
        name: What it is, such as `policy`; shown to nobody but hooks and traces.
        text: A blank one is left out of the prompt.
        source: Where it comes from: `agent`, `function`, `prepare_step`, or a word of the deployment's own.
    """

    name: str
    text: str
    source: str = "agent"


Prompt = str | Sequence[PromptSection]


def sections_of(prompt: Prompt, *, source: str) -> tuple[PromptSection, ...]:
    """Return a prompt as sections; a plain text is one, named `instructions`."""
    if isinstance(prompt, str):
        return (PromptSection(name="instructions", text=prompt, source=source),)
    return tuple(prompt)


def composed(sections: Iterable[PromptSection]) -> str:
    """Return the text of sections, in their order, a blank line between."""
    return "\n\n".join(section.text for section in sections if section.text.strip())
