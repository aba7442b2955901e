"""AG-UI 1.0: one run of a client, made from what its session's feed tells.

A run follows the turn that its message starts or joins, or the one that it resumes. A client can take nothing back by
itself, so what it has seen that is not so (an attempt that was retried, an answer that was cut at a stop) is put right
by a snapshot of its messages. The protocol has no resumption: a client whose stream was cut runs again, and is told all
of the run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from perdure.core.fates import TURN_ENDS
from perdure.feed import Commit, FeedItem
from perdure.streams.ag_ui_ending import RunUsage, interrupt_of, is_of_a_turn
from perdure.streams.ag_ui_messages import ag_ui_messages
from perdure.streams.ag_ui_writer import AgUiWriter

JsonObject = dict[str, Any]

PROTOCOL_VERSION = "1.0"

TOLD_OTHERWISE = frozenset(
    {"text_delta", "reasoning_delta", "attempt_reset", "model_started", "model_finished", *TURN_ENDS}
)
"""Events that AG-UI has words of its own for. All others go out as `CUSTOM`."""


class AgUiRun:
    """One run. Feed it the items behind the run's place in order, and send what it returns.

    Args:
        messages: What the client shows when the run begins.
        turn_id: The turn to follow; None: the one that takes `message_id`.
        message_id: The message that the run is about. With a `turn_id` its turn comes behind that one.
        resolved: The interrupts that the run resumes. What lies before the first decision on one of them is not told
            again: a snapshot has it.
        parent_run_id: Given back.
    """

    def __init__(
        self,
        *,
        thread_id: str,
        run_id: str,
        messages: Iterable[JsonObject] = (),
        turn_id: str | None = None,
        message_id: str | None = None,
        resolved: Collection[str] = (),
        parent_run_id: str | None = None,
    ) -> None:
        self.ended = False
        self.asked: dict[str, JsonObject] = {}
        """What people are asked for, by id: payloads of `interrupt_raised`."""
        self._run = {"threadId": thread_id, "runId": run_id}
        self._parent = parent_run_id
        self._writer = AgUiWriter(messages)
        self._shown = {turn_id} if turn_id is not None else set()
        self._target = turn_id if message_id is None else None
        self._message_id = message_id
        self._resolved = frozenset(resolved)
        self._is_silent = bool(self._resolved)
        self._begun: str | None = None
        self._made: dict[str, list[str]] = {}
        self._early: set[tuple[Any, ...]] = set()
        self._seen: dict[tuple[str, int], int] = {}
        self._blind: set[tuple[str, int]] = set()
        self._usage = RunUsage()

    @property
    def waits_for_turn(self) -> bool:
        """Whether the turn that takes the run's message is still to come, and none of an earlier one is followed."""
        return not self.ended and self._target is None

    def begin(self, *, snapshot: bool = False, warnings: Sequence[JsonObject] = ()) -> list[JsonObject]:
        """Begin the run.

        Args:
            snapshot: The messages that the run was made with are news to the client.
            warnings: What of the input was left aside: `{code, message}` each.
        """
        begun: JsonObject = {"type": "RUN_STARTED", **self._run, "protocolVersion": PROTOCOL_VERSION}
        self._writer.write(begun if self._parent is None else begun | {"parentRunId": self._parent})
        if snapshot:
            self._writer.snapshot()
        for warning in warnings:
            self._writer.custom("perdure.warning", warning)
        return self._writer.written()

    def take(self, item: FeedItem) -> list[JsonObject]:
        """Take one item of the feed; returns what to send."""
        if not self.ended:
            if isinstance(item, Commit):
                self._commit(item)
            elif item.event.get("turn_id") in self._shown and not self._is_silent:
                self._live(item.event)
        return self._writer.written()

    def interrupt(self) -> list[JsonObject]:
        """End the run because it waits for nobody but people."""
        self._speak()
        calls = self._writer.view.arguments_of_calls()
        interrupts = [interrupt_of(raised, calls.get(raised["tool_call_id"])) for raised in self.asked.values()]
        self._finish({"type": "interrupt", "interrupts": interrupts})
        return self._writer.written()

    def finish(self) -> list[JsonObject]:
        """End a run that has nothing to do."""
        self._finish({"type": "success"})
        return self._writer.written()

    def fail(self, code: str, message: str) -> list[JsonObject]:
        """End the run with an error, unless it has ended."""
        if not self.ended:
            self._fail(code, message)
        return self._writer.written()

    # --- commits ----------------------------------------------------------------------------------------------------

    def _commit(self, commit: Commit) -> None:
        for event in commit.events:
            self._find_turn(event)
        if self._is_silent and any(self._resolves(event) for event in commit.events):
            self._speak()  # the results of this very commit are news
        for event in commit.events:
            if event["type"] == "model_started" and self._is_shown(event) and not self._is_silent:
                self._writer.open_step(event["step_execution_id"])
        step = next((e for e in commit.events if e["type"] in ("model_finished", "attempt_reset")), None)
        step_id = step["step_execution_id"] if step is not None else None
        messages = [message for message in commit.messages if message["turn_id"] in self._shown]
        for message in messages:
            self._message(message, step_id)
        if step_id is not None and not any(message["role"] == "assistant" for message in messages):
            self._writer.take_back(step_id)
        for event in commit.events:
            self._event(event)
            if self.ended:
                return

    def _find_turn(self, event: JsonObject) -> None:
        """See whether a turn takes the message that the run is about."""
        payload = event["payload"]
        taken: list[str] = []
        if event["type"] == "turn_started":
            taken = payload.get("message_ids") or [payload["message_id"]]
        elif event["type"] == "inbox.joined":
            taken = [payload["message_id"]]
        if self._message_id in taken:
            self._target = event["turn_id"]
            self._shown.add(event["turn_id"])

    def _resolves(self, event: JsonObject) -> bool:
        return event["type"] == "interrupt_resolved" and event["payload"]["interrupt_id"] in self._resolved

    def _message(self, message: JsonObject, step_id: str | None) -> None:
        begins = message["turn_id"] not in self._made
        made = self._made.setdefault(message["turn_id"], [])
        if message["role"] == "user":
            for shown in ag_ui_messages(message):
                self._user(shown, begins=begins)
        elif message["role"] == "assistant" and not self._is_silent:
            made += self._writer.said(message, step_id)
        else:
            for shown in ag_ui_messages(message, step_id if message["role"] == "assistant" else None):
                made.append(shown["id"])
                if self._is_silent:
                    self._writer.view.add([shown])
                else:
                    self._writer.result(shown)

    def _user(self, message: JsonObject, *, begins: bool) -> None:
        """Show what a person wrote, if it is news; what a client shows behind the beginning of a turn comes again."""
        view = self._writer.view
        if view.has(message["id"]):
            if begins and self._is_silent:
                self._begun = message["id"]
            elif begins:
                self._writer.drop(self._stale(message["id"]))
        elif self._is_silent:
            view.add([message])
        else:
            self._writer.user(message["id"], message["content"])

    def _stale(self, message_id: str) -> list[str]:
        """Return what the client shows behind a message of what this run tells itself."""
        made = {made_id for of_turn in self._made.values() for made_id in of_turn}
        return [behind for behind in self._writer.view.answers_behind(message_id) if behind not in made]

    # --- events -----------------------------------------------------------------------------------------------------

    def _event(self, event: JsonObject) -> None:
        kind, payload = event["type"], event["payload"]
        if kind == "interrupt_raised" and is_of_a_turn(payload):
            self.asked[payload["interrupt_id"]] = payload
        elif kind == "interrupt_resolved":
            self.asked.pop(payload["interrupt_id"], None)
        elif kind == "model_finished":
            self._writer.close_step(event["step_execution_id"])
        if kind in TURN_ENDS:
            self._end_turn(event)
        elif not self._is_silent:
            if kind == "usage_recorded" and self._is_shown(event):
                self._usage.add(payload["recorded"])
            if kind not in TOLD_OTHERWISE and self._is_told(event):
                self._writer.told(event)
            if kind == "message_removed" and payload["message_id"] == self._message_id:
                self._finish({"type": "cancelled"})

    def _end_turn(self, event: JsonObject) -> None:
        self.asked.clear()
        if not self._is_shown(event):
            return
        self._writer.take_back()
        if event["payload"].get("disposition") == "discard":
            self._writer.drop(self._made.get(event["turn_id"], ()))
        if event["turn_id"] != self._target:
            return
        if self._message_id in event["payload"].get("rehomed", ()):
            self._target = None  # the turn that answers it is still to come
            return
        self._speak()
        if event["type"] == "turn_failed":
            error = event["payload"]["error"]
            self._fail(error["code"], error["message"])
        elif event["type"] == "turn_completed":
            reason = {name: event["payload"][name] for name in ("reason",) if name in event["payload"]}
            self._finish({"type": "success"}, {"turn_id": event["turn_id"], **reason})
        else:
            self._finish({"type": "cancelled"})

    def _is_shown(self, event: JsonObject) -> bool:
        return event.get("turn_id") in self._shown

    def _is_told(self, event: JsonObject) -> bool:
        """Whether an event goes out under its own name: those of other turns do not, nor what had its early word."""
        early = (event.get("step_execution_id"), event.get("attempt"), event["type"])
        return event.get("turn_id") in (None, *self._shown) and early not in self._early

    def _live(self, event: JsonObject) -> None:
        step, attempt, kind = event["step_execution_id"], event["attempt"], event["type"]
        number, seen = event.get("progress_sequence"), self._seen.get((step, attempt), 0)
        if number is not None and number <= seen:
            return
        if number is not None and number > seen + 1:
            self._blind.add((step, attempt))  # some is missing, so the commit has to tell
        self._seen[step, attempt] = number or seen
        if kind == "model_started":
            self._writer.open_step(step)
        elif kind == "attempt_reset":
            self._blind.discard((step, attempt))
            self._writer.begin_anew(step, attempt)
        elif kind not in ("text_delta", "reasoning_delta"):
            self._early.add((step, attempt, kind))
            self._writer.told(event)
        elif event["payload"]["text"] and (step, attempt) not in self._blind:
            payload = event["payload"]
            self._writer.delta(kind.removesuffix("_delta"), step, attempt, payload["text"], payload.get("segment"))

    # --- the end ----------------------------------------------------------------------------------------------------

    def _speak(self) -> None:
        """End the silence before what the run resumes. A client may have seen less than that, or more."""
        if self._is_silent:
            self._is_silent = False
            if self._begun is not None:
                self._writer.view.drop(self._stale(self._begun))
            self._writer.snapshot()

    def _finish(self, outcome: JsonObject, result: JsonObject | None = None) -> None:
        ended: JsonObject = {"type": "RUN_FINISHED", **self._run, "outcome": outcome}
        self._end(ended if result is None else ended | {"result": result})

    def _fail(self, code: str, message: str) -> None:
        self._end({"type": "RUN_ERROR", "message": message, "code": code})

    def _end(self, event: JsonObject) -> None:
        self._writer.close_all()
        usage = self._usage.entries()
        self._writer.write(event | {"usage": usage} if usage else event)
        self.ended = True
