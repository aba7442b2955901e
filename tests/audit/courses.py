"""What a deployment lives through until every function has done everything that it ever does on AWS.

Plain turns need a part of the permissions only. The rest is for what goes wrong: an answer that is lost after the write
has landed makes a function send everything again that its session expects, whoever else has sent it before; a viewer
who vanished is forgotten by whoever wants to tell them something.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from botocore.exceptions import ReadTimeoutError

from perdure.aws.items import record_of, tail_size
from perdure.aws.limits import MAX_TAIL_BYTES
from perdure.sinks import EventSink, Notice
from perdure.testing.gateway import Gateway
from perdure.testing.lambda_harness import Crash, LambdaHarness
from tests.audit.by_socket import by_socket
from tests.audit.course_agents import CROWD, DONE, HOOK, HOOK_SECRET, HUGE, SOON, agents


class Course:
    """Drives a harness. Each part begins a session of its own and ends with no message left over."""

    def __init__(self, harness: LambdaHarness) -> None:
        self.harness = harness
        harness.agents = agents()
        harness.webhooks = [HOOK]
        self._sessions = 0

    # --- what a user does ------------------------------------------------------------------------------------------

    def begin(self, text: str) -> str:
        """Send the first message of a new session that somebody watches and has left; return its path."""
        self._sessions += 1
        path = f"/v1/sessions/s-{self._sessions}"
        self.say(path, text)
        self.vanish(path)
        return path

    def say(self, path: str, text: str) -> None:
        reply = self.harness.gateway.http("POST", f"{path}/inputs", {"text": text})
        assert reply.status == 202, reply.body

    def vanish(self, path: str) -> None:
        """Subscribe a viewer and let it go without a word, so that the next one to tell it something finds out."""
        gateway = self.harness.gateway
        viewer = gateway.connect(Gateway.http(gateway, "POST", "/v1/socket-tickets", {}).body["ticket"])
        assert viewer is not None
        gateway.send(viewer, {"type": "attach", "session_id": path.rsplit("/", 1)[-1]})
        gateway.disconnect(viewer, noticed=False)

    def pending(self, path: str) -> list[str]:
        body = self.harness.gateway.http("GET", path).body
        return [interrupt["interrupt_id"] for interrupt in body["pending_interrupts"]]

    # --- what happens by itself ------------------------------------------------------------------------------------

    def crowd(self) -> str:
        """Begin a session and run its model: steps for each function and three timers are under way then."""
        path = self.begin("work")
        self.deliver("run-model")
        self.deliver("call-tool")
        self.harness.gateway.http("POST", f"{path}/stop", {})  # the work is to be stopped, and nobody has done so yet
        self.lose_messages()
        self.say(path, " ".join(CROWD))
        self.deliver("run-model")
        self.deliver("call-tool", call="-0")
        self.vanish(path)
        return path

    def deliver(self, queue: str, *, call: str = "") -> None:
        """Hand over the first message of a queue, or that of a response's call with this number."""
        message = next(
            message
            for message in self.harness.queues.messages
            if message.queue == queue and json.loads(message.body).get("step_id", "").endswith(call)
        )
        self.harness.clock.advance_to(message.visible_at)
        self.harness._deliver(message)

    def take(self, queue: str) -> dict[str, Any]:
        """Take the first message away from a queue and return it as an event."""
        message = next(message for message in self.harness.queues.messages if message.queue == queue)
        self.harness.queues.delete(message)
        return self.harness.queues.event(message)

    def take_old(self) -> dict[str, Any]:
        """Take the message of a second turn's model step away and return that of the first one's."""
        event = self.take("run-model")
        record = event["Records"][0]
        record["body"] = json.dumps(json.loads(record["body"]) | {"step_id": "model-1-0"})
        return event

    def lose_messages(self) -> None:
        for message in list(self.harness.queues.messages):
            self.harness.queues.delete(message)

    def end(self, path: str) -> None:
        self.harness.gateway.http("POST", f"{path}/stop", {})
        self.harness.settle(timedelta(hours=3))
        self.lose_messages()

    @contextlib.contextmanager
    def an_answer_is_lost(self, function: str) -> Iterator[None]:
        """Let the first write of a HEAD by a function land and its answer get lost."""
        events = self.harness.aws.clients.dynamodb.meta.events
        lost: list[str] = []

        def asked(params: Any, context: Any, **_: Any) -> None:
            context["of_head"] = params["Key"]["sk"]["S"] == "HEAD"

        def answered(context: Any, **_: Any) -> None:
            if self.harness.running == function and context.get("of_head") and not lost:
                lost.append(function)
                raise ReadTimeoutError(endpoint_url="nowhere")

        events.register("provide-client-params.dynamodb.UpdateItem", asked)
        events.register("after-call.dynamodb.UpdateItem", answered)
        try:
            yield
        finally:
            events.unregister("provide-client-params.dynamodb.UpdateItem", asked)
            events.unregister("after-call.dynamodb.UpdateItem", answered)
        assert lost, f"{function} has written no HEAD"

    @contextlib.contextmanager
    def workers_die_with_their_outcome_known(self) -> Iterator[None]:
        """Let every worker die right after it has put its outcome beside the session."""
        events = self.harness.aws.clients.dynamodb.meta.events

        def asked(params: Any, context: Any, **_: Any) -> None:
            context["of_result"] = params["Item"]["sk"]["S"].startswith("RESULT#")

        def answered(context: Any, **_: Any) -> None:
            if context.get("of_result"):
                raise Crash

        events.register("provide-client-params.dynamodb.PutItem", asked)
        events.register("after-call.dynamodb.PutItem", answered)
        try:
            yield
        finally:
            events.unregister("provide-client-params.dynamodb.PutItem", asked)
            events.unregister("after-call.dynamodb.PutItem", answered)

    def fill_tail(self, path: str) -> None:
        """Queue messages until HEAD's tail is so full that whoever commits next has to settle first."""
        name = path.rsplit("/", 1)[-1]
        for _ in range(16):
            key = {"pk": {"S": f"acme#{name}"}, "sk": {"S": "HEAD"}}
            item = self.harness.aws.clients.dynamodb.get_item(TableName=self.harness.aws.table, Key=key)["Item"]
            room = MAX_TAIL_BYTES - tail_size(record_of(item).tail)
            if room < 500:
                return
            self.say(path, "z" * max(1, min(room - 600, 3000)))
        raise AssertionError("the tail does not fill")


# --- what each function lives through ------------------------------------------------------------------------------


def live_through_everything(harness: LambdaHarness) -> None:
    course = Course(harness)
    DONE.clear()
    for part in PARTS:
        part(course)
        assert json.dumps([message.queue for message in harness.queues.messages]) == "[]", part


def _api(course: Course) -> None:
    _commands(course, "api")
    told = course.harness.gateway.hook("told", {"session": "told"}, secret=HOOK_SECRET)
    assert told.status == 202, told.body
    course.harness.settle()


def _socket(course: Course) -> None:
    with by_socket(course.harness):
        _commands(course, "socket")


def _commands(course: Course, function: str) -> None:
    path = course.crowd()
    with course.an_answer_is_lost(function):
        first, *_ = course.pending(path)
        course.harness.gateway.http("POST", f"{path}/interrupts/{first}", {"approved": False})
    course.end(path)
    path = course.begin(f"say {HUGE}")
    course.harness.settle()
    course.harness.cold_start()
    course.harness.gateway.http("GET", path)
    course.harness.gateway.http("GET", "/v1/sessions")


def _streams(course: Course) -> None:
    gateway = course.harness.gateway
    path = course.crowd()
    declined = [{"interruptId": interrupt, "status": "cancelled"} for interrupt in course.pending(path)]
    session_id = path.rsplit("/", 1)[-1]
    course.fill_tail(path)
    course.vanish(path)
    with course.an_answer_is_lost("stream"):
        run = {"threadId": session_id, "runId": "run-1", "messages": [], "resume": declined}
        streamed = gateway.stream("POST", "/v1/ag-ui", run, token_seconds=1)
    assert streamed.status == 200, streamed.text
    course.end(path)
    course._sessions += 1
    session_id = f"s-{course._sessions}"
    for text in (f"say {HUGE}", "say a lot"):  # the second is answered with as much
        chat = {"id": session_id, "messages": [{"role": "user", "parts": [{"type": "text", "text": text}]}]}
        begun = gateway.stream("POST", "/v1/chat", chat, token_seconds=1)
        course.harness.settle()
    course.harness.cold_start()
    token = re.search('"token":"([^"]+)"', begun.text)
    assert token is not None, begun.text
    again = {"X-Resume-Token": token[1]}
    assert HUGE in gateway.stream("GET", f"/v1/chat/{session_id}/stream", token_seconds=1, headers=again).text
    run = {"threadId": session_id, "runId": "run-2", "messages": [{"id": "m3", "role": "user", "content": "say more"}]}
    assert gateway.stream("POST", "/v1/ag-ui", run, token_seconds=1).status == 200
    course.harness.settle()
    ticket = {"ticket": gateway.http("POST", "/v1/socket-tickets", {}, token_seconds=2).body["ticket"]}
    assert gateway.stream("GET", f"/v1/sessions/{session_id}/events", token="", query=ticket).status == 200


def _model(course: Course) -> None:
    path = course.begin(" ".join(CROWD))
    with course.an_answer_is_lost("run_model"):
        course.deliver("run-model")
    course.end(path)
    path = course.begin("work_from_here")
    course.deliver("run-model")
    course.harness.gateway.http("POST", f"{path}/stop", {})
    course.lose_messages()  # among them the one that has the work stopped
    course.say(path, "say something")
    with course.an_answer_is_lost("run_model"):
        course.deliver("run-model")
    course.end(path)
    path = course.begin("say a lot")
    course.harness.settle()
    course.say(path, "look")
    course.harness.invoke("run_model", course.take_old())
    course.harness.settle()


def _tools(course: Course) -> None:
    for function, queue, tool in (
        ("call_tool", "call-tool", "look"),
        ("call_single_attempt_tool", "call-single-attempt-tool", "charge"),
    ):
        path = course.crowd()
        with course.an_answer_is_lost(function):
            course.deliver(queue)
        course.end(path)
        course.begin(f"{tool}*")
        while course.harness.deliver_one():
            course.harness.cold_start()


def _plans(course: Course) -> None:
    for tool in ("plan", "plan_once", "plan_from_here"):
        course.begin(tool)
        course.harness.settle()


def _tasks(course: Course) -> None:
    path = course.crowd()
    course.fill_tail(path)
    course.vanish(path)
    for function, queue in (("poll_tool_task", "poll-tool-task"), ("cancel_tool_task", "cancel-tool-task")):
        with course.an_answer_is_lost(function):  # the first one sends the second one's message again, too
            course.deliver(queue)
    course.end(path)
    path = course.begin("work*")
    course.deliver("run-model")
    course.deliver("call-tool")
    DONE.add("long")
    course.harness.cold_start()
    course.deliver("poll-tool-task")
    course.harness.settle()
    path = course.begin("work*")
    DONE.clear()
    course.deliver("run-model")
    course.deliver("call-tool")
    course.harness.gateway.http("POST", f"{path}/stop", {})
    course.say(path, "say something")
    course.harness.cold_start()
    event = course.take("cancel-tool-task")
    for _ in range(2):  # the second one is old news, and sees to the model's step
        course.vanish(path)
        course.harness.invoke("cancel_tool_task", event)
    course.harness.settle()


def _timers(course: Course) -> None:
    path = course.crowd()
    early = course.take("timers")
    course.harness.invoke("fire_timer", early)
    course.lose_messages()
    course.fill_tail(path)
    course.vanish(path)
    course.harness.clock.advance(SOON.total_seconds())
    with course.an_answer_is_lost("fire_timer"):
        course.harness.invoke("fire_timer", early)
    course.end(path)
    course.begin("pay_soon")
    course.harness.settle()


def _sweep(course: Course) -> None:
    path = course.crowd()
    course.lose_messages()
    course.harness.clock.advance(SOON.total_seconds() + 120)
    with course.an_answer_is_lost("sweep"):
        course.harness.sweep()
    course.end(path)
    course.begin("say something")
    course.lose_messages()
    course.harness.settle()
    _known_outcomes(course)
    course.harness.clock.advance(180)
    with course.an_answer_is_lost("sweep"):
        course.harness.sweep()
    course.harness.settle()


def _dead_letters(course: Course) -> None:
    path = course.crowd()
    letter = course.take("call-single-attempt-tool")
    with course.an_answer_is_lost("record_dead_letter"):
        course.harness.invoke("record_dead_letter", letter)
    course.end(path)
    path = course.begin("say something")
    course.harness.settle()
    course.say(path, "look")
    course.harness.invoke("record_dead_letter", course.take_old())
    course.harness.settle()
    letter = _known_outcomes(course)
    with course.an_answer_is_lost("record_dead_letter"):
        course.harness.invoke("record_dead_letter", letter)
    course.harness.settle()


def _known_outcomes(course: Course) -> dict[str, Any]:
    """Run eight tools whose workers die with outcomes too large for one item; return the message of one of them."""
    path = course.begin(" ".join(["look_long"] * 8))
    course.deliver("run-model")
    course.vanish(path)
    letter: dict[str, Any] = {}
    with course.workers_die_with_their_outcome_known():
        for _ in range(8):
            letter = course.take("call-tool")
            assert isinstance(course.harness.invoke("call_tool", letter).error, Crash)
    return letter


def _viewers(course: Course) -> None:
    course.begin("say something")
    course.harness.settle()
    gateway = course.harness.gateway
    viewer = gateway.connect(gateway.http("POST", "/v1/socket-tickets", {}).body["ticket"])
    assert viewer is not None
    gateway.send(viewer, {"type": "attach", "session_id": f"s-{course._sessions}"})
    gateway.disconnect(viewer)


def _sinks(course: Course) -> None:
    harness, down = course.harness, [True]

    def deliver(_: Notice) -> None:
        if down:
            raise ConnectionError

    harness.deliver_to([EventSink("audit", deliver)])
    path = course.begin(f"say {HUGE}")
    for _ in range(20):  # more than comes along with HEAD
        course.say(path, "say it again")
        harness.settle(timedelta(seconds=1))
    down.clear()
    harness.settle()
    harness.cold_start()  # another process asks when the sink began
    course.begin("say it again")
    harness.settle()
    harness.sinks, harness.stream = (), None


PARTS = (_sinks, _api, _socket, _streams, _model, _tools, _plans, _tasks, _timers, _sweep, _dead_letters, _viewers)
