"""A turn as the AI SDK's UI message stream (header value `v1`): the pure mapping of a session's feed to chunks.

Whoever reads the feed drives it:

    mapping = UIChunks("turn-1")
    while not mapping.ended:
        feed = await service.feed(caller, session_id, after=cursor, ...)
        chunks = [chunk for item in feed.items for chunk in mapping.take(item)]
        if <that was all for now>:
            chunks += mapping.rest()

The state may be kept between any two items, and another process goes on with it as if nothing had been between.

Steps are counted by what is committed, so that a client that followed live and one that reads it all again later have
the same number of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from perdure.core.fates import TURN_ENDS
from perdure.feed import Commit, FeedItem, Live
from perdure.ports import PROGRESS_GAP
from perdure.streams.ui_calls import Calls, call_chunk
from perdure.streams.ui_events import EVENT, as_chunk, is_past, of_model, told
from perdure.streams.ui_files import ui_file, ui_parts
from perdure.streams.ui_step import Step
from perdure.streams.ui_token import resume_token

JsonObject = dict[str, Any]

TOKEN = "data-agent-resume-token"  # noqa: S105 - no secret
"""Type of the transient chunk that carries the resume token."""

HELD = "this message waits, because the turn before it failed: retry that turn, or stop it to let it go"

_FAILED = {"truncated": "length", "filtered": "content-filter", "refused": "content-filter"}
"""Finish reasons of turns that failed by how the model ended its answer; others are errors."""

_BEFORE_THE_MESSAGE = ("model_started", "model_retry_scheduled", "attempt_reset", "usage_recorded", "model_finished")
"""What a commit tells of a model step before its message."""


def assistant_id(turn_id: str) -> str:
    """Return the id of the one assistant message that shows a turn."""
    return f"{turn_id}-assistant"


class UIChunks:
    """The chunks of one turn.

    Args:
        turn_id: The turn. None: that of the user's message `message_id`, which may still wait for it.
        from_step: Number of the step, from 1, that the client has last, whole or in part. The steps before it are left
            out, and it is given anew behind a `reset-step`; there is no `start`. 0: the client has nothing.
        message_id: The user's message whose turn is awaited; goes with no `turn_id`.
        keep_open: Approvals and questions do not end the stream.
        held: The message waits behind a turn that failed and holds the inbox.
        decided: Interrupts that were decided just now, which a read that is a moment old shows open.

    Attributes:
        ended: There is no more.
        steps: How many steps have begun, those that were left out included.
    """

    def __init__(
        self,
        turn_id: str | None,
        *,
        from_step: int = 0,
        message_id: str | None = None,
        keep_open: bool = False,
        held: bool = False,
        decided: Collection[str] = (),
    ) -> None:
        if turn_id is None and message_id is None:
            raise ValueError("name the turn, or the message whose turn is meant")
        self.turn_id = turn_id
        self.message_id = message_id
        self.from_step = from_step
        self.keep_open = keep_open
        self.ended = False
        self.steps = 0
        self._started = False
        self._held = held
        self._queued = False
        self._past: tuple[str, int] | None = None
        self._step: Step | None = None
        self._calls = Calls(decided=set(decided))
        self._out: list[JsonObject] = []

    @property
    def may_rest(self) -> bool:
        """Whether `rest` would end the stream if this is all for now."""
        if self.ended:
            return False
        if self.turn_id is None:
            return self._queued and (self._held or self._calls.only_people)
        return not self.keep_open and self._calls.only_people

    def take(self, item: FeedItem) -> list[JsonObject]:
        """Return the chunks of the next item of the feed; none once the stream has ended."""
        return [] if self.ended else self._taken(item)

    def _taken(self, item: FeedItem) -> list[JsonObject]:
        self._out = []
        if isinstance(item, Live):
            self._live(item.event)
            cursor = item.event["cursor"]
        else:
            self._commit(item)
            cursor = item.cursor
        if self._out and self.turn_id is not None and not self.ended:
            token = resume_token(cursor, self.turn_id, self.steps)
            self._out.append({"type": TOKEN, "data": {"token": token}, "transient": True})
        return self._out

    def rest(self) -> list[JsonObject]:
        """End the stream if nothing goes on until somebody decides. For when the feed has no more for now.

        A turn finishes with `tool-calls`. A message that waits behind such a turn, or behind one that failed and holds
        the inbox, is waited for no longer: the page has to be free for the decision.
        """
        if not self.may_rest:
            return []
        self._out = []
        if self.turn_id is not None:
            self._end("tool-calls")
        else:
            self._give_up({"type": "message_queued", "payload": {"message_id": self.message_id}})
            if self._held:
                self._out.append({"type": "error", "errorText": HELD})
        return self._out

    def lose(self, why: str) -> list[JsonObject]:
        """End the stream because the session can't be read any more."""
        self._out = []
        if self.turn_id is not None:
            self._end("other")
        self.ended = True
        return [*self._out, {"type": "error", "errorText": why}]

    def state(self) -> JsonObject:
        """Return what it needs to go on elsewhere, as JSON: ids, lengths and flags, and the questions that are open."""
        state: JsonObject = {"steps": self.steps, "calls": self._calls.state()}
        for name in ("turn_id", "message_id", "from_step", "keep_open", "ended"):
            if value := getattr(self, name):
                state[name] = value
        state |= {name: True for name in ("started", "held", "queued") if getattr(self, f"_{name}")}
        if self._past is not None:
            state["past"] = list(self._past)
        if self._step is not None:
            state["step"] = self._step.state()
        return state

    @classmethod
    def restored(cls, state: JsonObject) -> UIChunks:
        """Return the mapping of a state."""
        mapping = cls(
            state.get("turn_id"),
            from_step=state.get("from_step", 0),
            message_id=state.get("message_id"),
            keep_open=state.get("keep_open", False),
            held=state.get("held", False),
        )
        mapping.ended = state.get("ended", False)
        mapping.steps = state["steps"]
        mapping._started = state.get("started", False)
        mapping._queued = state.get("queued", False)
        mapping._past = (state["past"][0], state["past"][1]) if "past" in state else None
        mapping._step = Step.restored(state["step"]) if "step" in state else None
        mapping._calls = Calls.restored(state["calls"])
        return mapping

    # --- what is committed --------------------------------------------------------------------

    def _commit(self, commit: Commit) -> None:
        parts = [part for message in commit.messages for part in message["parts"]]
        outputs = {part["tool_call_id"]: part["output"] for part in parts if part["type"] == "tool_result"}
        finished = {e.get("step_execution_id") for e in commit.events if e["type"] == "model_finished"}
        said = [message for message in commit.messages if message["role"] == "assistant"]
        for event in commit.events:
            if self.turn_id is None:
                self._while_waiting(event, outputs)
            if self.turn_id is not None and event.get("turn_id") == self.turn_id:
                if event["type"] not in _BEFORE_THE_MESSAGE:
                    self._say(said)
                self._durable(event, commit, outputs, finished)
                if event["type"] == "model_finished" and not self._say(said):
                    self._nothing_said(event)
            if self.ended:
                return
        self._say(said)

    def _while_waiting(self, event: JsonObject, outputs: Mapping[str, str]) -> None:
        """Look for the turn of the message, and at what it waits behind."""
        kind, payload = event["type"], event["payload"]
        if kind == "turn_started":
            self._calls, self._held = Calls(), False
            if self.message_id in (payload["message_id"], *payload.get("message_ids", ())):
                self.turn_id = event["turn_id"]
        elif kind in TURN_ENDS:
            self._calls, self._held = Calls(), payload.get("held", False)
        elif kind == "hold.released":
            self._held = False
        elif kind == "message_queued":  # before that, what is read is older than the message, and what it may have done
            self._queued = self._queued or payload["message_id"] == self.message_id
        elif kind in ("message_removed", "inbox.joined") and payload["message_id"] == self.message_id:
            self._give_up(told(event))  # taken back; or part of a turn that has to be shown from its start
        else:
            self._calls.take(event, outputs)

    def _durable(
        self, event: JsonObject, commit: Commit, outputs: Mapping[str, str], finished: Collection[str | None]
    ) -> None:
        kind, payload = event["type"], event["payload"]
        if kind == "turn_started":
            self._put()
        elif kind in TURN_ENDS:
            self._end_of_turn(event)
        elif kind == "inbox.joined":
            self._join(next((m for m in commit.messages if m["message_id"] == payload["message_id"]), None))
        elif kind == "model_started":
            self._enter(event)
        elif kind == "model_retry_scheduled":
            self._retry(event, self._enter(event))
        elif kind == "attempt_reset" and of_model(event):
            step = self._enter(event)
            if step is not None and event["step_execution_id"] not in finished:  # else the message tells what it is
                self._put(*step.reset())
                step.blind = True
        elif kind == "tool_call_started":
            if self._calls.first_told(event):
                self._put(as_chunk(event))
        elif kind != "model_finished":
            chunks = self._calls.take(event, outputs)
            self._put(*([as_chunk(event)] if chunks is None else chunks))

    def _say(self, said: list[JsonObject]) -> bool:
        """Show the message of a model step; False: there is none."""
        own = [message for message in said if message["turn_id"] == self.turn_id]
        for message in own:
            said.remove(message)
            if self._step is None or self._step.done:
                self._begin(Step(message["message_id"]))  # of a stopped attempt nothing but the message is known
            assert self._step is not None, "it has begun"
            self._put(*self._step.complete(message["parts"]))
            for part in message["parts"]:
                if part["type"] == "file":
                    self._put(ui_file(part))
                elif part["type"] == "tool_call":
                    self._put(call_chunk(part))
        return bool(own)

    def _nothing_said(self, event: JsonObject) -> None:
        """Take back what was shown of an answer that never came to be."""
        if self._step is not None and self._step.step_id == event.get("step_execution_id"):
            self._put(*self._step.reset())
            self._step.done = True

    def _join(self, message: JsonObject | None) -> None:
        """Show a message that joined the turn, in front of the step that is the first to see it."""
        self._close()
        if message is not None:
            self._put({"type": "steering-message", "id": message["message_id"], "parts": ui_parts(message)})

    # --- what is seen live --------------------------------------------------------------------

    def _live(self, event: JsonObject) -> None:
        if self.turn_id is None or event.get("turn_id") != self.turn_id:
            return
        kind = event["type"]
        if not of_model(event):
            if kind != "tool_call_started" or self._calls.first_told(event):
                self._put(as_chunk(event))
            return
        step = self._enter(event)
        if step is None or not step.follows(event.get("progress_sequence")):
            return
        payload = event["payload"]
        if kind in ("text_delta", "reasoning_delta"):
            self._put(*step.delta(kind.removesuffix("_delta"), payload["text"], payload.get("segment")))
        elif kind == "attempt_reset":
            self._put(*step.reset())
        elif kind == "model_retry_scheduled":
            self._retry(event, step)
        elif kind != "model_started":
            step.blind = kind == PROGRESS_GAP  # what follows was not kept: the commit brings it
            self._put(as_chunk(event))

    # --- steps --------------------------------------------------------------------------------

    def _enter(self, event: JsonObject) -> Step | None:
        """Return the step of an event, begun if it is new; None for one that is over."""
        step_id, attempt = event["step_execution_id"], event.get("attempt", 1)
        step = self._step
        if step is None or step.step_id != step_id:
            if is_past(step_id, attempt, self._past) or (step is not None and is_past(step_id, 0, step.place)):
                return None
            return self._begin(Step(step_id, attempt))
        if attempt < step.attempt or (attempt > step.attempt and step.done):
            return None
        if attempt > step.attempt:
            self._put(*step.again(attempt))
        return step

    def _begin(self, step: Step) -> Step:
        self._close()
        self._step = step
        self.steps += 1
        resumes = self.steps == self.from_step
        self._put({"type": "reset-step" if resumes else "start-step"})
        return step

    def _close(self) -> None:
        step = self._step
        if step is None:
            return
        if not step.done:
            self._put(*step.reset())
        self._put({"type": "finish-step"})
        self._past, self._step = step.place, None

    def _retry(self, event: JsonObject, step: Step | None) -> None:
        """Tell of a wait for a reconnect, which is seen live and committed later."""
        if step is not None and event["payload"]["attempt"] > step.retry:
            step.retry = event["payload"]["attempt"]
            self._put(as_chunk(event))

    # --- the end ------------------------------------------------------------------------------

    def _end_of_turn(self, event: JsonObject) -> None:
        kind, payload = event["type"], event["payload"]
        self._put(as_chunk(event))
        if kind == "turn_completed":
            self._end("stop" if payload.get("reason") in (None, "policy_stop") else "other")
        elif kind == "turn_failed":
            reason = _FAILED.get(payload["error"]["code"], "error")
            self._end(reason)
            if reason == "error":
                self._out.append({"type": "error", "errorText": payload["error"]["message"]})
        else:
            self._end("interrupted" if kind == "turn_cancelled" else "other")

    def _end(self, reason: str) -> None:
        self._close()
        if self._muted:  # the client has the beginning of a step that came to nothing
            self._out.append({"type": "reset-step"})
            self.from_step = 0
            self._started = True
        self._put({"type": "finish", "finishReason": reason})
        self.ended = True

    def _give_up(self, why: JsonObject) -> None:
        self._out += [{"type": EVENT, "data": why, "transient": True}, {"type": "finish", "finishReason": "other"}]
        self.ended = True

    @property
    def _muted(self) -> bool:
        """Whether the client has what comes now."""
        return self.steps < self.from_step

    def _put(self, *chunks: JsonObject) -> None:
        if self._muted:
            return
        if not self._started:
            self._started = True
            if not self.from_step:
                assert self.turn_id is not None, "nothing is shown before the turn is known"
                self._out.append({"type": "start", "messageId": assistant_id(self.turn_id)})
        self._out += chunks
