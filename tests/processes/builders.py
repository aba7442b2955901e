"""What the tests of killed processes share: the worker, and what its turn has to come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from perdure.core import texts
from perdure.session import Session
from perdure.testing.gates import FileGate, InvocationLog
from perdure.testing.processes import WorkerProcess

ROOT = Path(__file__).resolve().parents[2]


class Scene:
    """A worker over a folder, its gates, and the log of what its tools did."""

    def __init__(self, folder: Path, agent: str = "agent") -> None:
        self.gates = FileGate(folder / "gates")
        self.log = InvocationLog(folder / "invocations.jsonl")
        self.database = folder / "sessions.db"
        self.worker = WorkerProcess(
            f"tests.processes.gated_agents:{agent}",
            self.database,
            cwd=folder,
            environment={"PYTHONPATH": str(ROOT), "PERDURE_TEST_FOLDER": str(folder)},
        )
        self.stories = 1
        self.session: Session = self.worker.session("s-1")

    def begin(self, session_id: str) -> None:
        """Go on with another session, so that one process may serve several stories."""
        self.session = self.worker.session(session_id)

    def runs(self, tool: str) -> list[int]:
        """Return how often a tool ran in this session, for each of its idempotency keys."""
        mine = f"local/{self.session.session_id}/"
        return [times for key, times in self.log.by_key(tool).items() if key.startswith(mine)]

    async def __aenter__(self) -> Self:
        await self.worker.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.worker.kill()


def transcript(snapshot: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """Return what a reader sees of every message, ids and times left out."""
    shown = []
    for message in snapshot["messages"]:
        for part in message["parts"]:
            what = part.get("text") or part.get("output") or part.get("arguments")
            shown.append((message["role"], part.get("tool_name", part["type"]), what))
    if shown[4:6] == [SIBLINGS[1], SIBLINGS[0]]:  # they ran side by side
        shown[4:6] = SIBLINGS
    return shown


SIBLINGS = [("tool", "look_up", "order 7 is on its way"), ("tool", "change", "changed 7")]


def the_turn(refund: str = "succeeded") -> list[tuple[str, str, Any]]:
    """Return what the transcript of one turn has to be, by what came of the refund."""
    return [
        ("user", "text", "Refund order 7"),
        ("assistant", "text", "Let me see. "),
        ("assistant", "look_up", {"order": "7"}),
        ("assistant", "change", {"order": "7"}),
        *SIBLINGS,
        ("assistant", "text", "Now the money. "),
        ("assistant", "refund", {"order": "7"}),
        ("tool", "refund", "paid 7" if refund == "succeeded" else texts.OUTCOME_UNKNOWN),
        ("assistant", "text", f"Refund: {refund}. Thank you for your patience."),
    ]


async def all_events(session: Session) -> list[dict[str, Any]]:
    """Return every event of a session."""
    events: list[dict[str, Any]] = []
    page: dict[str, Any] = {"cursor": None}
    while True:
        page = await session.event_page(after=page["cursor"])
        if not page["events"]:
            return events
        events += page["events"]
