"""What an AI SDK client sends, and the stream that it begins: a message, decisions, a retry, or a way back in.

Of the client's history only the last message is read, and of an assistant's message only the decisions in it: what was
asked for, and whether it still can be decided, is on record here (field case F055).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perdure.checks import check_message_id
from perdure.core.cursor import Cursor
from perdure.errors import InvalidRequestError, NotFoundError, RequestError
from perdure.feed import Commit, TurnPlace
from perdure.streams.ui_chunks import UIChunks, assistant_id
from perdure.streams.ui_decisions import Decision, decisions_of
from perdure.streams.ui_events import EVENT
from perdure.streams.ui_files import input_file
from perdure.streams.ui_token import read_token

if TYPE_CHECKING:
    from perdure.service import Caller, Service

JsonObject = dict[str, Any]

_ASSISTANT_ID = re.compile(r"(turn-[1-9][0-9]{0,8})-assistant")
_STALE = ("not_pending", "deadline_passed", "interrupt_not_found")
"""Codes of decisions that change nothing any more; the stream shows what became of the call."""

_STARTS_NO_TURN = "a `passive` message starts no turn to stream: send it to POST /v1/sessions/{id}/inputs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A stream that has begun: what to read, and what to make of it.

    Attributes:
        cursor: Where the feed is to be read from.
        message_id: The message whose turn is awaited; None when the turn is known.
        first: Chunks that go before those of the feed.
    """

    session_id: str
    cursor: str
    mapping: UIChunks
    message_id: str | None = None
    first: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A body of `POST /v1/chat`, checked."""

    session_id: str
    trigger: str
    message: JsonObject
    regenerates: str | None = None
    options: JsonObject = field(default_factory=dict)
    keep_open: bool = False


async def begin(service: Service, caller: Caller, body: JsonObject) -> Begun:
    """Carry out what a client posted, and return the stream of the turn that it starts, joins or continues.

    Args:
        body: `{id, messages, trigger?, messageId?, agent?, delivery?, keep_open?}`; the same with a WebSocket's frames.

    Raises:
        RequestError: It can't be carried out; nothing has changed.
    """
    request = _read(body)
    if request.trigger == "regenerate-message":
        return await _retry(service, caller, request)
    if request.message["role"] == "user":
        return await _send(service, caller, request)
    return await _decide(service, caller, request)


async def resume(
    service: Service,
    caller: Caller,
    session_id: str,
    token: str | None = None,
    *,
    exact: bool = False,
    steps: int | None = None,
    keep_open: bool = False,
) -> Begun | None:
    """Return the stream of the turn that a token names, or of the running one; None: nothing runs.

    The whole turn is given again, from its `start`. A token that is broken, made up or of another session is ignored.

    Args:
        exact: Go on in the step where the client is, by a `reset-step`. Needs a good token.
        steps: How many steps the client has begun, if it counted them itself; else as many as the token says.
    """
    known = read_token(token, session_id) if token else None
    place = await service.turn_place(caller, session_id, known.turn_id) if known else None
    from_step = 0
    if place is None:
        place = await service.turn_place(caller, session_id)
    elif known is not None and exact:
        from_step = known.steps if steps is None else max(steps, 0)
    if place is None:
        return None
    return Begun(
        session_id=session_id,
        cursor=place.cursor,
        mapping=UIChunks(place.turn_id, from_step=from_step, keep_open=keep_open),
    )


# --- messages -----------------------------------------------------------------------------------


async def _send(service: Service, caller: Caller, request: _Request) -> Begun:
    """Accept a user's message, once, and follow the turn that it starts or joins, also when it has to wait for it."""
    message = request.message
    if request.options.get("delivery") == "passive":
        raise InvalidRequestError(_STARTS_NO_TURN)
    text, files = _content_of(message)
    receipt = await service.send_input(
        caller, request.session_id, text=text, files=files, **_identity(message), **request.options
    )
    session_id, cursor = request.session_id, receipt["cursor"]
    if receipt["delivered_as"] in ("answer", "inject"):
        return await _joined(service, caller, request, cursor)
    if "turn_id" in receipt:
        mapping = UIChunks(receipt["turn_id"], keep_open=request.keep_open)
        return Begun(session_id=session_id, cursor=cursor, mapping=mapping)

    message_id = receipt["message_id"]
    running = None if receipt["duplicate"] else await service.turn_place(caller, session_id)
    feed = await service.feed(caller, session_id, after=cursor, limit=1)
    held = running is None and feed.head.turn is None and feed.head.hold is not None
    waiting = UIChunks(None, message_id=message_id, keep_open=request.keep_open, held=held)
    # What it waits behind is looked at from its beginning: the wait ends when that waits for a person.
    begins = min(cursor, running.cursor, key=lambda c: Cursor.decode(c, session_id)) if running else cursor
    return Begun(session_id=session_id, cursor=begins, mapping=waiting, message_id=message_id)


async def _joined(service: Service, caller: Caller, request: _Request, cursor: str) -> Begun:
    """Follow the turn that took a message in, from its start: it is shown within that turn's own message."""
    feed = await service.feed(caller, request.session_id, after=cursor, limit=1)
    events = [event for item in feed.items if isinstance(item, Commit) for event in item.events]
    turn_id = next((event["turn_id"] for event in events if "turn_id" in event), None)
    place = await service.turn_place(caller, request.session_id, turn_id)
    return _of_turn(request, place)


def _content_of(message: JsonObject) -> tuple[str, list[JsonObject]]:
    texts: list[str] = []
    files: list[JsonObject] = []
    for part in message["parts"]:
        if part["type"] == "text" and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif part["type"] == "file":
            files.append(input_file(part))
        else:
            raise InvalidRequestError(f"a user's message takes text and file parts, no part of type {part['type']!r}")
    return "\n".join(texts), files


def _identity(message: JsonObject) -> JsonObject:
    """Return what makes a message that is posted twice one: its id, or a key made of an id that we can't take."""
    identity: JsonObject = {}
    if isinstance(message.get("metadata"), dict):
        identity["metadata"] = message["metadata"]
    message_id = message.get("id")
    if message_id is None:
        return identity
    try:
        check_message_id(message_id)
    except InvalidRequestError:
        digest = hashlib.sha256(message_id.encode("utf-8", "surrogatepass")).hexdigest()
        return identity | {"idempotency_key": f"ui:{digest}"}
    return identity | {"message_id": message_id}


# --- decisions ----------------------------------------------------------------------------------


async def _decide(service: Service, caller: Caller, request: _Request) -> Begun:
    """Take the decisions in an assistant's message, and go on with that message where its last step begins."""
    message = request.message
    named = _ASSISTANT_ID.fullmatch(message.get("id") or "")
    place = await service.turn_place(caller, request.session_id, named[1]) if named else None
    if place is None:
        raise NotFoundError(
            f"session {request.session_id!r} has no assistant message {message.get('id')!r}: read its messages again",
            code="message_not_found",
        )
    decisions = decisions_of(message["parts"])
    if not decisions and place.closed:
        raise InvalidRequestError(
            "the last message is an assistant's and decides nothing: send a user's message, or a decision"
        )
    refused = [] if place.closed else await _taken(service, caller, request.session_id, decisions)
    steps = sum(1 for part in message["parts"] if part["type"] == "step-start")
    decided = {d.interrupt_id for d in decisions} - {told["data"]["payload"]["interrupt_id"] for told in refused}
    return _of_turn(request, place, from_step=steps, decided=decided, first=tuple(refused))


async def _taken(service: Service, caller: Caller, session_id: str, decisions: list[Decision]) -> list[JsonObject]:
    """Record decisions; returns word of those that came too late. The stream tells what became of their calls.

    Raises:
        RequestError: None of them could be taken, and not because it came too late.
    """
    told: list[JsonObject] = []
    wrong: RequestError | None = None
    taken = 0
    for decision in decisions:
        try:
            await service.resolve_interrupt(caller, session_id, decision.interrupt_id, **decision.how)
        except RequestError as error:
            if error.code not in _STALE or error.code == "interrupt_not_found":
                wrong = wrong or error
            payload = {"interrupt_id": decision.interrupt_id, "code": error.code, "message": error.message}
            told.append({"type": EVENT, "data": {"type": "decision_refused", "payload": payload}, "transient": True})
        else:
            taken += 1
    if wrong is not None and not taken:
        raise wrong
    return told


# --- retries ------------------------------------------------------------------------------------


async def _retry(service: Service, caller: Caller, request: _Request) -> Begun:
    """Try the turn again that failed last. The same failed turn is tried again once, however often it is posted."""
    feed = await service.feed(caller, request.session_id, limit=1)
    failed = feed.head.last_turn
    meant = request.regenerates
    if failed is None or failed.outcome != "failed" or (meant and meant != assistant_id(failed.turn_id)):
        raise InvalidRequestError(
            "nothing to regenerate: only the latest turn can be tried again, and only if it failed; "
            "send a new message instead"
        )
    try:
        reply = await service.retry(caller, request.session_id, retry_id=f"ui:{failed.turn_id}")
    except RequestError as error:
        raise InvalidRequestError(f"nothing to regenerate: {error.message}") from error
    place = await service.turn_place(caller, request.session_id, reply.get("turn_id"))
    if place is None and "turn_id" in reply:  # what was read is older than the commit that began it
        after = Cursor(version=feed.head.version + 1).encode(request.session_id)
        place = TurnPlace(turn_id=reply["turn_id"], cursor=after, closed=False)
    return _of_turn(request, place)


# --- what all of them need ----------------------------------------------------------------------


def _of_turn(
    request: _Request,
    place: TurnPlace | None,
    *,
    from_step: int = 0,
    decided: Collection[str] = (),
    first: tuple[JsonObject, ...] = (),
) -> Begun:
    if place is None:
        raise NotFoundError("the turn is not kept any more: read the session's messages", code="turn_not_found")
    mapping = UIChunks(place.turn_id, from_step=from_step, keep_open=request.keep_open, decided=decided)
    return Begun(session_id=request.session_id, cursor=place.cursor, mapping=mapping, first=first)


def _read(body: JsonObject) -> _Request:
    """Check a body, of which a WebSocket's frames have told no types."""
    trigger = body.get("trigger", "submit-message")
    if trigger not in ("submit-message", "regenerate-message"):
        raise InvalidRequestError("`trigger` is `submit-message` or `regenerate-message`")
    session_id, messages, named = body.get("id"), body.get("messages", []), body.get("messageId")
    keep_open = body.get("keep_open", False)
    if not isinstance(session_id, str):
        raise InvalidRequestError("`id` is the session's id, a text")
    if not isinstance(keep_open, bool):
        raise InvalidRequestError("`keep_open` is true or false")
    if named is not None and not isinstance(named, str):
        raise InvalidRequestError("`messageId` is a text")
    options = {name: body[name] for name in ("agent", "delivery") if body.get(name) is not None}
    if not all(isinstance(option, str) for option in options.values()):
        raise InvalidRequestError("`agent` and `delivery` are texts")
    if trigger == "regenerate-message":
        return _Request(session_id=session_id, trigger=trigger, message={}, regenerates=named, keep_open=keep_open)
    if not isinstance(messages, list) or not messages:
        raise InvalidRequestError("`messages` is a list with at least the message that is sent")
    meant = (m for m in messages if named and isinstance(m, dict) and m.get("id") == named)
    message = _checked_message(next(meant, messages[-1]))
    return _Request(session_id=session_id, trigger=trigger, message=message, options=options, keep_open=keep_open)


def _checked_message(message: Any) -> JsonObject:
    if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
        raise InvalidRequestError("the message that is sent is a user's or an assistant's UI message, with a `role`")
    parts, message_id = message.get("parts"), message.get("id")
    if message_id is not None and not isinstance(message_id, str):
        raise InvalidRequestError("the `id` of a message is a text")
    if not isinstance(parts, list) or not all(isinstance(p, dict) and isinstance(p.get("type"), str) for p in parts):
        raise InvalidRequestError("the `parts` of a message are a list of objects with a `type`")
    return message
