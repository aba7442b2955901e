"""The step that has a session's title written: one model call out of band, without tools or system prompt."""

from __future__ import annotations

from datetime import datetime, timedelta

from perdure.core.history import ModelItem, UserItem, history
from perdure.core.limits import LEASE_DURATION
from perdure.core.title_commands import TitleWritten
from perdure.core.usage import NO_USAGE
from perdure.models.base import ModelClient, ModelRequest, ModelResponse
from perdure.models.surrogates import mended
from perdure.operator_events import tell
from perdure.ports import SessionKey
from perdure.steps.base import StepDeps, StepMessage
from perdure.steps.commit import execute, resend_unclaimed
from perdure.steps.limited import in_time

LONGEST_CALL = timedelta(seconds=60)
"""How long a title may take. Our own choice: half a lease, so that it needs no renewal."""

SHOWN_CHARACTERS = 2_000
"""Of the question and of the answer, each, what the model is shown."""

MAX_TITLE_CHARACTERS = 80
"""Longest title that is taken from a model; a longer one is cut. Our own choice: one line of a list."""

ENTRIES = 100
"""Entries of the first turn that are looked at."""

WISH = (
    "Write a title for the conversation below: at most six words, in its language, without quotation marks and "
    "without a full stop. Answer with the title alone."
)


async def write_title(deps: StepDeps, message: StepMessage, *, deadline: datetime | None = None) -> None:
    """Ask for the title of a session, once, and commit it. Nothing waits for it, so it is held without a watch."""
    ports, key = deps.ports, message.key
    loaded = await ports.store.load(key)
    step = loaded.head.titling
    if step is None or (step.step_id, step.attempt) != (message.step_id, message.attempt):
        await resend_unclaimed(ports, key, loaded.head)
        return
    now = ports.clock.now()
    if not await ports.leases.claim(key, step.step_id, step.attempt, ports.new_id(), now + LEASE_DURATION):
        return
    agent = deps.agents.get(loaded.head.agent or "")
    model = agent.title_model if agent is not None else None
    if model is None:
        await execute(ports, key, TitleWritten(step_id=step.step_id, attempt=step.attempt, final=True))
        return
    limit = min(now + LONGEST_CALL, deadline) if deadline is not None else now + LONGEST_CALL
    title, usage = None, NO_USAGE
    try:
        asked = _asked(model, await _request(deps, key, limit))
        answer = await in_time(ports.clock, (limit - ports.clock.now()).total_seconds(), asked)
        title, usage = cleaned(answer.text), answer.usage
    except Exception as error:  # noqa: BLE001 - whatever a client raises, the session does without, or tries again
        tell("outage", "a title could not be written", error=error, session_id=key.session_id, step_id=step.step_id)
    written = TitleWritten(step_id=step.step_id, attempt=step.attempt, title=title or None, usage=(usage,))
    await execute(ports, key, written)


async def _request(deps: StepDeps, key: SessionKey, limit: datetime) -> ModelRequest:
    log = await deps.ports.store.read(key, first=1, limit=ENTRIES)
    items = history(log.entries)
    asked = next((item.text for item in items if isinstance(item, UserItem)), "")
    answered = next((item.text for item in items if isinstance(item, ModelItem) and item.text and not item.calls), "")
    shown = f"User: {asked[:SHOWN_CHARACTERS]}\n\nAssistant: {answered[:SHOWN_CHARACTERS]}"
    return ModelRequest(messages=(UserItem(text=f"{WISH}\n\n{shown}"),), deadline=limit)


async def _asked(model: ModelClient, request: ModelRequest) -> ModelResponse:
    answer = ModelResponse()
    async for item in model.stream(request):
        if isinstance(item, ModelResponse):
            answer = item
    return answer


def cleaned(text: str) -> str:
    """Return the first line of a model's answer as a title: without quotation marks around it, and not too long."""
    line = next((line.strip() for line in mended(text).splitlines() if line.strip()), "")
    line = line.strip("\"'“”„«»*#` ").removesuffix(".").strip()
    return line if len(line) <= MAX_TITLE_CHARACTERS else line[: MAX_TITLE_CHARACTERS - 1].rstrip() + "…"
