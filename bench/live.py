"""Streams of the development server: how old a token is when a client has it, with one viewer and with a thousand.

The server is a process of its own, on a real file; all clients are in this one, over loopback. Smaller sizes:
`PERDURE_BENCH_LIVE="sockets=50,sessions=20" python -m bench live`.
"""

from __future__ import annotations

import asyncio
import os
import statistics
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from bench.live_site import Server, a_server, asking
from bench.live_wire import HttpViewer, SocketViewer, Wire, ages, quiet, said

JsonObject = dict[str, Any]

BUDGET_MS = 20
"""What a first token may take from the model client's yield to a local client's socket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is run.

    Attributes:
        turns: Measured turns of each protocol with one viewer.
        sockets: Viewers of the one session.
        sessions: Sessions that stream at once.
        each: Viewers of each of them.
        quick: Viewers beside the slow one.
        deltas: Tokens of a streamed turn.
        rounds: Turns of one session in front of many viewers.
    """

    turns: int = 50
    sockets: int = 500
    sessions: int = 200
    each: int = 5
    quick: int = 100
    deltas: int = 60
    rounds: int = 3

    @classmethod
    def asked_for(cls) -> Sizes:
        """Return what the environment says, and the defaults for the rest."""
        pairs = [pair.split("=") for pair in os.environ.get("PERDURE_BENCH_LIVE", "").split(",") if pair]
        return replace(cls(), **{name: int(number) for name, number in pairs})


def measure() -> dict[str, Any]:
    """Run all phases, each with a server of its own."""
    return asyncio.run(measured(Sizes.asked_for()))


async def measured(sizes: Sizes) -> dict[str, Any]:
    """Run all phases at these sizes."""
    results: dict[str, Any] = {"where": "server in a process of its own, clients in another, loopback"}
    async with a_server() as server:
        for name, run in CHANNELS.items():
            results[f"one viewer, {name}"] = await one_viewer(server, name, run, sizes.turns)
    results[f"{sizes.sockets} sockets, 1 session"] = await one_session(sizes)
    results[f"{sizes.sockets} sockets, 1 session, no compression"] = await one_session(sizes, deflate=False)
    results[f"{sizes.sessions * sizes.each} sockets, {sizes.sessions} sessions"] = await many_sessions(sizes)
    results[f"{sizes.quick} quick sockets beside a slow one"] = await beside_a_slow_one(sizes)
    return results


# --- one viewer -------------------------------------------------------------------------------

TOKENS = 6
PAUSE_MS = 5


async def by_attach(server: Server, session: str, turns: int) -> list[dict[float, float]]:
    """Follow turns over our own protocol. Returns the ages of each turn's tokens."""
    await server.say(session, 1, 0)
    [viewer] = await server.attached([session])
    found = []
    for _ in range(turns):
        viewer.frames.clear()
        await server.say(session, TOKENS, PAUSE_MS)
        await quiet([viewer], lambda: _ended([viewer]), every=0.02)
        found.append(_ages_of(viewer))
    viewer.transport.close()
    return found


async def by_chat_frames(server: Server, session: str, turns: int) -> list[dict[float, float]]:
    """The same over AI SDK's frames on the socket."""
    viewer = await server.viewer()
    found = []
    for turn in range(turns):
        viewer.frames.clear()
        viewer.say({"type": "send", "requestId": f"r-{turn}", **_chat(session, turn)})
        await quiet([viewer], lambda: said(viewer, "end"), every=0.02)
        chunks = [(at, frame["chunk"]) for at, frame in viewer.frames if frame["type"] == "chunk"]
        found.append(ages([(at, c["delta"].encode()) for at, c in chunks if c["type"] == "text-delta"]))
    viewer.transport.close()
    return found


async def by_events(server: Server, session: str, turns: int) -> list[dict[float, float]]:
    """The same over `GET …/events` as an event stream."""
    await server.say(session, 1, 0)
    viewer = HttpViewer()
    await viewer.connect(server.url)
    viewer.ask("GET", f"/v1/sessions/{session}/events")
    await quiet([viewer], lambda: _has(viewer, b"event: turn_completed"), every=0.02)
    found = []
    for _ in range(turns):
        viewer.received.clear()
        await server.say(session, TOKENS, PAUSE_MS)
        await quiet([viewer], lambda: _has(viewer, b"event: turn_completed"), every=0.02)
        found.append(ages(viewer.received))
    viewer.transport.close()
    return found


async def by_chat(server: Server, session: str, turns: int) -> list[dict[float, float]]:
    """The same over `POST /v1/chat`, one request a turn."""
    found = []
    for turn in range(turns):
        viewer = HttpViewer()
        await viewer.connect(server.url)
        viewer.ask("POST", "/v1/chat", _chat(session, turn))
        await quiet([viewer], lambda: _has(viewer, b"[DONE]"), every=0.02)  # noqa: B023 - called before the next one
        found.append(ages(viewer.received))
        viewer.transport.close()
    return found


Channel = Callable[[Server, str, int], Awaitable[list[dict[float, float]]]]

CHANNELS: dict[str, Channel] = {
    "WebSocket, attach": by_attach,
    "WebSocket, AI SDK": by_chat_frames,
    "SSE, events": by_events,
    "SSE, AI SDK": by_chat,
}


async def one_viewer(server: Server, name: str, run: Channel, turns: int) -> JsonObject:
    """Follow turns one after another; what a first token and any token take, from its yield to its receipt."""
    found = await run(server, name.replace(" ", "-").replace(",", ""), turns)
    assert all(len(turn) == TOKENS for turn in found), f"{name}: a token did not come"
    firsts = [turn[min(turn)] for turn in found]
    return {
        "turns": turns,
        "tokens": sum(map(len, found)),
        "first_token_ms": spread(firsts),
        "any_token_ms": spread(age for turn in found for age in turn.values()),
        "first_tokens_within_20_ms": f"{sum(age * 1000 <= BUDGET_MS for age in firsts)}/{turns}",
    }


# --- many viewers -----------------------------------------------------------------------------


async def one_session(sizes: Sizes, *, deflate: bool = True, pause_ms: int = 20) -> JsonObject:
    """Attach all sockets to one session and stream turns to them."""
    async with a_server() as server:
        await server.say("busy", 1, 0)
        before = await server.figures()
        viewers = await server.attached(["busy"] * sizes.sockets, deflate=deflate)
        attached = await server.figures()
        lags, tokens, spans = [], [], []
        for _ in range(sizes.rounds):
            await _turn(server, viewers, ["busy"], sizes.deltas, pause_ms)
            done = (await server.figures())["committed"]["busy"]
            lags.append(max(_last(viewer) for viewer in viewers) - done)
            tokens += [age for viewer in viewers for age in _checked(viewer, sizes.deltas).values()]
            spans.append(max(_checked(viewers[0], sizes.deltas)) - min(_checked(viewers[0], sizes.deltas)))
        after = await server.figures()
        return {
            "turns": sizes.rounds,
            "tokens_a_turn": sizes.deltas,
            "tokens_received": len(tokens),
            "token_ms": spread(tokens),
            "last_commit_to_last_socket_ms": [_ms(lag) for lag in lags],
            "model_spoke_for_s": [round(span, 2) for span in spans],
            "it_would_have_alone_s": round((sizes.deltas - 1) * pause_ms / 1000, 2),
            "server_cpu_s_a_turn": round((after["cpu"] - attached["cpu"]) / sizes.rounds, 2),
            "cpu_us_per_frame": round((after["cpu"] - attached["cpu"]) / len(tokens) * 1e6),
            **_memory(before, attached, after, len(viewers)),
        }


async def many_sessions(sizes: Sizes, *, pause_ms: int = 200) -> JsonObject:
    """Stream a turn of each session at once, each in front of some sockets."""
    async with a_server() as server:
        sessions = [f"s-{number}" for number in range(sizes.sessions)]
        for session in sessions:
            await server.say(session, 1, 0)
        before = await server.figures()
        whose = [session for session in sessions for _ in range(sizes.each)]
        viewers = await server.attached(whose)
        attached = await server.figures()
        await _turn(server, viewers, sessions, sizes.deltas, pause_ms)
        after = await server.figures()
        lags = [_last(viewer) - after["committed"][session] for viewer, session in zip(viewers, whose, strict=True)]
        found = [_checked(viewer, sizes.deltas) for viewer in viewers]
        own = [statistics.median(turn.values()) for turn in found]
        slowest = [max(turn.values()) for turn in found]
        fair = spread(own)
        return {
            "tokens_a_turn": sizes.deltas,
            "tokens_received": sum(map(len, found)),
            "token_ms": spread(age for turn in found for age in turn.values()),
            "last_commit_to_socket_ms": spread(lags),
            "median_token_of_a_socket_ms": fair,
            "fairness_p95_by_p50": round(fair["p95"] / fair["p50"], 2),
            "slowest_token_of_a_socket_ms": spread(slowest),
            "server_cpu_s": round(after["cpu"] - attached["cpu"], 2),
            "cpu_us_per_frame": round((after["cpu"] - attached["cpu"]) / sum(map(len, found)) * 1e6),
            **_memory(before, attached, after, len(viewers)),
        }


SLOW_DELTAS = 60
SLOW_CHARACTERS = 2000
SLOW_PAIRS = 3
LONG_DELTAS = 200
STUFFING = 12
"""Snapshots that a slow viewer asks for: several megabytes, more than the buffers between it and the server hold."""


async def beside_a_slow_one(sizes: Sizes, *, pause_ms: int = 20) -> JsonObject:
    """Stream large tokens to quick sockets, in turns without and with one that takes nothing until the turn is over."""
    async with a_server() as server:
        viewers = await _with_a_long_history(server, ["busy"] * sizes.quick)
        times: dict[bool, list[float]] = {False: [], True: []}
        held = []
        for with_it in [False, True, True, False] * (SLOW_PAIRS // 2) + [False, True] * (SLOW_PAIRS % 2):
            slow = await _a_slow_one(server) if with_it else None
            await _turn(server, viewers, ["busy"], SLOW_DELTAS, pause_ms, SLOW_CHARACTERS)
            times[with_it] += [age for viewer in viewers for age in _checked(viewer, SLOW_DELTAS).values()]
            if slow is not None:
                assert not _ended([slow]), "the slow one was not slow"
                slow.transport.resume_reading()
                await quiet([slow], lambda: _ended([slow]))  # noqa: B023 - called before the next one
                held.append(len(_ages_of(slow)))
                slow.transport.close()
        alone, beside = spread(times[False]), spread(times[True])
        return {
            "turns_of_each": SLOW_PAIRS,
            "tokens_a_turn": f"{SLOW_DELTAS} of {SLOW_CHARACTERS} characters",
            "token_without_ms": alone,
            "token_beside_ms": beside,
            "p95_ratio": round(beside["p95"] / alone["p95"], 2),
            "tokens_the_slow_one_saw_live": held,
        }


async def _with_a_long_history(server: Server, whose: list[str]) -> list[SocketViewer]:
    """Return viewers of a session whose snapshot is large by now."""
    await server.say("busy", 1, 0)
    viewers = await server.attached(whose, deflate=False)
    await _turn(server, viewers, ["busy"], LONG_DELTAS, 1, SLOW_CHARACTERS)
    return viewers


async def _a_slow_one(server: Server) -> SocketViewer:
    """Return a viewer that is attached, has asked for much, and takes nothing of it."""
    slow = await server.viewer(deflate=False, slow=True)
    cursor = (await server.http.get("/v1/sessions/busy")).json()["cursor"]
    slow.say({"type": "attach", "session_id": "busy", "after": cursor})
    await quiet([slow], lambda: said(slow, "attached"))
    slow.transport.pause_reading()
    for number in range(STUFFING):
        slow.say({"type": "command", "request_id": f"c-{number}", "operation": "get_session", "session_id": "busy"})
    await _at_rest(server)
    return slow


async def _at_rest(server: Server) -> None:
    """Wait until the server has nothing to do, so that what was asked for before a turn is no part of it."""
    before = -1.0
    while (now := (await server.figures())["cpu"]) - before > 0.02:
        before = now
        await asyncio.sleep(0.2)


async def _turn(
    server: Server, viewers: list[SocketViewer], sessions: list[str], number: int, pause_ms: int, size: int = 0
) -> None:
    for viewer in viewers:
        viewer.read()
        viewer.frames.clear()
    for session in sessions:
        await server.say(session, number, pause_ms, size)
    await quiet(viewers, lambda: _ended(viewers), seconds=90)


def _checked(viewer: SocketViewer, number: int) -> dict[float, float]:
    """Return the ages of a turn's tokens, after a look that nothing is missing, doubled or out of order."""
    shown = [event for _, event in viewer.events()]
    progress = [event["progress_sequence"] for event in shown if "progress_sequence" in event]
    durable = [event["sequence"] for event in shown if "sequence" in event]
    assert progress == list(range(1, len(progress) + 1)), "progress is missing, or out of order"
    assert durable == list(range(durable[0], durable[0] + len(durable))), "events are missing, or out of order"
    found = _ages_of(viewer)
    assert len(found) == number, f"{len(found)} of {number} tokens came"
    assert list(found) == sorted(found), "tokens are out of order"
    return found


def _ages_of(viewer: SocketViewer) -> dict[float, float]:
    return ages([(at, _text(event)) for at, event in viewer.events() if event["type"] == "text_delta"])


def _text(event: JsonObject) -> bytes:
    return str(event["payload"].get("text", "")).encode()


def _last(viewer: SocketViewer) -> float:
    return viewer.frames[-1][0]


def _ended(viewers: Iterable[SocketViewer]) -> bool:
    """Whether each has seen the end of its turn."""
    for viewer in viewers:
        viewer.read()
    return all(_saw_the_end(viewer) for viewer in viewers)


def _saw_the_end(viewer: SocketViewer) -> bool:
    return any(event["type"] == "turn_completed" for _, event in viewer.events())


def _has(viewer: Wire, text: bytes) -> bool:
    return text in b"".join(data for _, data in viewer.received)


def _chat(session: str, turn: int) -> JsonObject:
    message = {"id": f"m-{turn}", "role": "user", "parts": [{"type": "text", "text": asking(TOKENS, PAUSE_MS)}]}
    return {"id": session, "trigger": "submit-message", "messages": [message]}


def _memory(before: JsonObject, attached: JsonObject, after: JsonObject, sockets: int) -> JsonObject:
    return {
        "server_rss_mb": {
            "before": _mb(before["rss"]),
            "attached": _mb(attached["rss"]),
            "after": _mb(after["rss"]),
            "most": _mb(after["max_rss"]),
        },
        "kb_per_socket": {
            "attached": round((attached["rss"] - before["rss"]) / sockets / 1024, 1),
            "after": round((after["rss"] - before["rss"]) / sockets / 1024, 1),
        },
    }


def spread(seconds: Iterable[float]) -> dict[str, float]:
    """Return p50, p95 and the largest, in ms."""
    ordered = sorted(seconds)
    places = {"p50": 0.5, "p95": 0.95}
    shown = {name: _ms(ordered[min(int(len(ordered) * place), len(ordered) - 1)]) for name, place in places.items()}
    return {**shown, "max": _ms(ordered[-1])}


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)


def _mb(size: int) -> float:
    return round(size / 1024 / 1024, 1)
