"""How a question is put to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.core.codec import format_time
from perdure.core.decision import Draft
from perdure.core.head import Call, Interrupt
from perdure.core.values import replace

if TYPE_CHECKING:
    from perdure.core.wait_commands import Question

JsonObject = dict[str, Any]


def ask(draft: Draft, call: Call, interrupt_id: str, question: Question) -> None:
    """Raise a question; its call waits for the answer."""
    deadline = draft.now + question.deadline if question.deadline is not None else None
    interrupt = Interrupt(
        interrupt_id=interrupt_id,
        kind="question",
        call_id=call.call_id,
        raised_at=draft.now,
        fence=draft.version,
        deadline=deadline,
        free_text=question.free_text,
    )
    turn = draft.turn.with_call(call)
    draft.set_turn(replace(turn, interrupts=(*turn.interrupts, interrupt)))
    draft.event(
        "interrupt_raised",
        {
            "interrupt_id": interrupt_id,
            "kind": "question",
            "tool_call_id": call.call_id,
            "tool_name": call.tool_name,
            "question": question.question,
            "choices": list(question.choices) or None,
            "allows_free_text": question.free_text,
            "deadline": format_time(deadline) if deadline else None,
        },
    )


def ask_for_tool(draft: Draft, call: Call, question: Question, continuation: Any) -> None:
    """Raise the next question of a tool or its remote work, as `<call>-input-<n>`.

    That is no other call's id, because a call's own has no such ending (spec APPR-14).
    """
    number = call.questions + 1
    interrupt_id = f"{call.call_id}-input-{number}"
    value: JsonObject = {"question": question.question, "continuation": continuation}
    asking = replace(
        draft.remember(call, "question", value, name=interrupt_id),
        status="awaiting_answer",
        questions=number,
        ready_at=None,
        not_before=None,
        claimed_by=None,
        claimed_until=None,
    )
    ask(draft, asking, interrupt_id, question)


def before_effect(call: Call) -> Call:
    """Return a call whose attempt said that it has done nothing yet, because it asks first.

    That is taken back by what it recorded, and it tells nothing of an earlier attempt that was lost.
    """
    if call.parked:
        return call
    if call.attempt - call.spared == 1:
        return replace(call, started=None, started_attempt=0)
    return replace(call, parked=True)
