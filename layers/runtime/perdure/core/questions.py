"""Questions to a person: of the model, of a tool before it takes effect, and of remote work."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from perdure.core import texts
from perdure.core.approvals import raise_approvals
from perdure.core.asking import ask, ask_for_tool, before_effect
from perdure.core.calls import await_again, end_of_stopped, settle_call, told_of_start
from perdure.core.commands import RequestedCall, ResolveInterrupt, SendInput
from perdure.core.decision import Decision, Draft
from perdure.core.entries import Actor
from perdure.core.head import Call, Head, Interrupt
from perdure.core.limits import MAX_RECORDS
from perdure.core.tasks import look_now
from perdure.core.turns import join_calls
from perdure.core.values import replace
from perdure.core.wait_commands import Question, ToolAsked
from perdure.errors import InvalidRequestError

JsonObject = dict[str, Any]

DEADLINE = Actor(issuer="perdure", subject="deadline")
"""Who decides when nobody did in time."""


def ask_user(draft: Draft, call: Call, requested: RequestedCall) -> None:
    """Ask what the model wants to know. The question's id is the call's (spec APPR-11)."""
    arguments = requested.arguments or {}
    question = Question(
        question=arguments["question"],
        choices=tuple(arguments.get("choices") or ()),
        free_text=arguments.get("allows_free_text", True) is not False,
        deadline=requested.approval_deadline,
    )
    ask(draft, call, call.call_id, question)


def on_tool_asked(draft: Draft, command: ToolAsked) -> Decision:
    """Ask for a tool that wants to know something before it takes effect (spec APPR-13).

    That it asks says that it has done nothing yet, unless it recorded a step: so it does not count as started.
    """
    call = draft.head.turn.call(command.call_id) if draft.head.turn else None
    if call is None or not call.is_ready or call.attempt != command.attempt:
        return Decision.unchanged(draft.head)
    told_of_start(draft, call, command.started_at)
    call = before_effect(call)
    ending = "turn_cancelled" if draft.turn.stop is not None else "steered" if draft.turn.steer else None
    if ending is not None and not call.parked:
        settle_call(draft, call, "rejected", texts.withdrawn("awaiting_answer", ending), reason=ending)
    elif ending == "turn_cancelled":
        end_of_stopped(draft, call)
    elif len(call.records) + 2 > MAX_RECORDS:  # the question and its answer
        settle_call(
            draft, call, "failed" if call.is_read or not call.parked else "outcome_unknown", texts.TOO_MANY_FACTS
        )
    else:
        ask_for_tool(draft, call, command.question, command.continuation)
    join_calls(draft)
    return draft.decision({"accepted": True})


def answer_by_message(draft: Draft, command: SendInput) -> str | None:
    """Let a plain message answer the one question that is open, if it takes any text (field case F064).

    Returns:
        The question's interrupt id. None: the message answers nothing.
    """
    (interrupt, *others) = open_questions(draft.head, draft.now) or (None,)
    if interrupt is None or others or not interrupt.free_text or command.files or command.metadata is not None:
        return None
    call = draft.turn.call(interrupt.call_id)
    assert call is not None, "a question belongs to a call"
    _resolve(draft, interrupt, call, "answered", command.actor, answer=command.text)
    raise_approvals(draft, one_by_one=True)
    join_calls(draft)
    return interrupt.interrupt_id


def open_questions(head: Head, now: datetime) -> tuple[Interrupt, ...]:
    """Return the questions of the running turn that can still be answered."""
    if head.turn is None or head.turn.stop is not None:
        return ()
    return tuple(i for i in head.turn.interrupts if i.kind == "question" and (i.deadline is None or now < i.deadline))


def decide_question(draft: Draft, interrupt: Interrupt, call: Call, command: ResolveInterrupt) -> None:
    """Take an answer, or that there will be none.

    Raises:
        InvalidRequestError: It was approved; a question is answered, or declined by `approved: false`.
    """
    if command.approved or command.arguments is not None or (command.approved is None and command.answer is None):
        raise InvalidRequestError(
            f"interrupt {interrupt.interrupt_id!r} is a question: send `answer`, or `approved: false` to decline it"
        )
    status = "declined" if command.answer is None else "answered"
    _resolve(draft, interrupt, call, status, command.actor, answer=command.answer, message=command.message)


def expire_question(draft: Draft, interrupt: Interrupt, call: Call) -> None:
    """Go on without an answer, because the time is over."""
    _resolve(draft, interrupt, call, "deadline_passed", DEADLINE, message=texts.QUESTION_DEADLINE_PASSED)


def _resolve(
    draft: Draft,
    interrupt: Interrupt,
    call: Call,
    status: str,
    actor: Actor,
    *,
    answer: str | None = None,
    message: str | None = None,
) -> None:
    answered = status == "answered"
    draft.event(
        "interrupt_resolved",
        {
            "interrupt_id": interrupt.interrupt_id,
            "kind": interrupt.kind,
            "answered": answered,
            "answer": answer,
            "message" if answered else "rejection_message": message,
            "actor": actor.told(),
        },
    )
    draft.set_turn(replace(draft.turn, interrupts=tuple(i for i in draft.turn.interrupts if i is not interrupt)))
    if call.task is not None or (answered and not call.built_in):
        value = {"status": status, "answer": answer, "message": message}
        value = {name: item for name, item in value.items() if item is not None}
        told = draft.remember(call, "answer", value, name=interrupt.interrupt_id)
        if told.task is None:
            draft.set_turn(draft.turn.with_call(await_again(told)))
        else:
            look_now(draft, replace(told, task=replace(told.task, resolution=draft.version)))
    elif answered:
        settle_call(draft, call, "succeeded", answered_output(answer or "", message))
    else:
        text = texts.QUESTION_DEADLINE_PASSED if status == "deadline_passed" else message or texts.DECLINED
        if call.parked and not call.is_read:
            settle_call(draft, call, "outcome_unknown", f"{text}\n\n{texts.PARTLY_DONE}", reason=status)
        else:
            settle_call(draft, call, "rejected", text, reason=status)


def answered_output(answer: str, message: str | None = None) -> str:
    """Return what the model is told about its question that was answered (spec APPR-11)."""
    told: JsonObject = {"status": "answered", "answer": answer}
    return json.dumps(told if message is None else told | {"message": message}, ensure_ascii=False)
