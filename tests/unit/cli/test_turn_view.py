"""What a terminal shows of a turn, when events come late, twice, or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from perdure.cli.turn_view import TurnView
from perdure.session import Session, SessionApi, SessionEvent


class Transcript:
    """A `SessionApi` that has messages."""

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []

    def keep(self, text: str, **more: Any) -> None:
        self.kept.append(
            {
                "sequence": len(self.kept) + 1,
                "turn_id": "turn-1",
                "role": "assistant",
                "parts": [{"type": "text", "text": text}],
                **more,
            }
        )

    async def messages(self, session_id: str, *, before: str | None = None, limit: int = 50) -> dict[str, Any]:
        return {"messages": self.kept[-limit:]}


@pytest.fixture
def transcript() -> Transcript:
    return Transcript()


@pytest.fixture
def view(transcript: Transcript) -> TurnView:
    return TurnView(Session(cast(SessionApi, transcript), "s-1"))


def live(kind: str, of_attempt: int = 1, **payload: Any) -> SessionEvent:
    return SessionEvent(
        type=kind,
        cursor="c",
        at="",
        payload=payload,
        turn_id="turn-1",
        step_execution_id="model-1-0",
        attempt=of_attempt,
    )


def durable(kind: str, **payload: Any) -> SessionEvent:
    return SessionEvent(
        type=kind,
        cursor="c",
        at="",
        payload=payload,
        turn_id="turn-1",
        step_execution_id="model-1-0",
        attempt=1,
        sequence=7,
    )


async def shown(view: TurnView, capsys: pytest.CaptureFixture[str], *events: SessionEvent) -> str:
    for event in events:
        await view.show(event)
    return capsys.readouterr().out


FINISHED = durable("model_finished", status="completed")


async def test_an_answer_that_was_seen_whole_is_not_repeated(
    view: TurnView, transcript: Transcript, capsys: pytest.CaptureFixture[str]
) -> None:
    transcript.keep("Hello.")

    output = await shown(view, capsys, live("text_delta", text="Hel"), live("text_delta", text="lo."), FINISHED)

    assert output == "agent: Hello.\n"


async def test_the_end_that_was_missed_comes_from_the_transcript(
    view: TurnView, transcript: Transcript, capsys: pytest.CaptureFixture[str]
) -> None:
    transcript.keep("Hello, and welcome.")

    output = await shown(view, capsys, live("text_delta", text="Hello"), FINISHED)

    assert output == "agent: Hello, and welcome.\n"


async def test_a_step_that_was_missed_altogether_is_shown_from_the_transcript(
    view: TurnView, transcript: Transcript, capsys: pytest.CaptureFixture[str]
) -> None:
    transcript.keep("Let me look.")
    transcript.keep("It is there.")

    output = await shown(view, capsys, FINISHED, FINISHED)

    assert output == "agent: Let me look.\nagent: It is there.\n"


async def test_an_answer_other_than_what_was_streamed_is_shown_whole(
    view: TurnView, transcript: Transcript, capsys: pytest.CaptureFixture[str]
) -> None:
    transcript.keep("Good evening.")

    output = await shown(view, capsys, live("text_delta", text="Hello"), FINISHED)

    assert output == "agent: Hello\n  (the answer as it was kept:)\nagent: Good evening.\n"


async def test_a_reset_that_was_seen_live_is_old_news_when_it_comes_again_with_the_commit(
    view: TurnView, transcript: Transcript, capsys: pytest.CaptureFixture[str]
) -> None:
    transcript.keep("Hello.")

    output = await shown(
        view,
        capsys,
        live("text_delta", text="He"),
        live("attempt_reset", reason="malformed"),
        live("model_retry_scheduled", reason="malformed", retry_in_ms=250, attempt=1),
        live("text_delta", text="Hello."),
        durable("attempt_reset", reason="malformed"),
        durable("model_retry_scheduled", reason="malformed", retry_in_ms=250, attempt=1),
        FINISHED,
    )

    assert output.split("\n") == [
        "agent: He",
        "  (that answer was cut off; it begins again)",
        "  (no whole answer: malformed; asking again in 0.25 s)",
        "agent: Hello.",
        "",
    ]


async def test_the_next_attempt_of_a_step_begins_a_line_of_its_own(
    view: TurnView, transcript: Transcript, capsys: pytest.CaptureFixture[str]
) -> None:
    transcript.keep("Hello.")

    output = await shown(
        view,
        capsys,
        live("text_delta", text="He"),
        durable("attempt_reset", reason="its worker died"),
        live("text_delta", of_attempt=2, text="Hello."),
        FINISHED,
    )

    assert output == "agent: He\n  (that answer was cut off; it begins again)\nagent: Hello.\n"


async def test_an_answer_that_is_not_a_finished_one_says_so(
    view: TurnView, transcript: Transcript, capsys: pytest.CaptureFixture[str]
) -> None:
    transcript.keep("Hel", status="truncated")

    output = await shown(
        view,
        capsys,
        live("text_delta", text="Hel"),
        FINISHED,
        durable("turn_failed", error={"code": "truncated", "message": "the answer is too long"}),
    )

    assert output == "agent: Hel\n  (truncated)\nthe turn failed: truncated: the answer is too long\n"


async def test_lines_of_an_answer_and_names_of_tools_can_not_pass_for_ours(
    view: TurnView, transcript: Transcript, capsys: pytest.CaptureFixture[str]
) -> None:
    transcript.keep("Sure.\napprove refund?")

    output = await shown(
        view,
        capsys,
        live("text_delta", text="Sure.\napprove refund?"),
        FINISHED,
        durable("tool_call_deferred", tool_name="a\nb\x1b[2J", effect="read"),
    )

    assert output == "agent: Sure.\n  approve refund?\n  tool a b\\x1b[2J (read)\n"


async def test_what_happens_while_the_person_is_asked_gets_a_line_of_its_own(
    view: TurnView, capsys: pytest.CaptureFixture[str]
) -> None:
    view.prompt("yes? ")

    output = await shown(view, capsys, durable("tool_call_finished", tool_name="look", status="succeeded"))

    assert output == "yes? \n  -> look succeeded\n"
    assert not view.at_prompt


async def test_a_reconnect_that_was_missed_live_is_told_by_the_record(
    view: TurnView, capsys: pytest.CaptureFixture[str]
) -> None:
    event = durable("model_retry_scheduled", reason="rate_limited", retry_in_ms=30_000, attempt=2)

    output = await shown(view, capsys, replace(event, at="2026-11-30T12:00:00.000Z"))

    assert output == (
        "  (no whole answer: rate_limited; asking again in 30 s, at 12:00:30 UTC: /retry asks now, /stop gives up)\n"
    )
