"""What a call knows from before is read again when the store keeps silent for a moment: it costs no attempt."""

from __future__ import annotations

from typing import Any

from perdure.agents.tools import ToolContext, function_tool
from perdure.agents.waiting import ToolInputRequested
from perdure.errors import StoreUnavailableError
from perdure.ports import SessionStore
from perdure.testing.fixtures import open_stage
from tests.unit.steps.builders import an_agent, asking_for


class Silent:
    """A store that does not answer the next reads of single entries."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self.silences = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def read(self, key: Any, **wanted: Any) -> Any:
        if self.silences and wanted.get("first") == wanted.get("last"):
            self.silences -= 1
            raise StoreUnavailableError("the store kept silent")
        return await self._store.read(key, **wanted)


async def test_an_outage_that_passes_costs_no_attempt() -> None:
    attempts: list[int] = []

    @function_tool(effect="non_idempotent_write", requires_approval=False)
    def pay(context: ToolContext) -> str:
        attempts.append(context.attempt)
        if not context.answers:
            raise ToolInputRequested("which?")
        return f"paid {context.answers[0].answer}"

    stores: list[Silent] = []

    def silent(store: SessionStore) -> Any:
        stores.append(Silent(store))
        return stores[0]

    async with open_stage(an_agent(pay, model=asking_for("pay")), wrap_store=silent) as stage:
        await stage.send("go")
        await stage.run_all()
        await stage.session().answer("call-2-0-input-1", "order 7")
        stores[0].silences = 3
        await stage.run_all()

        assert stores[0].silences == 0
        assert await stage.results() == {"pay": ("succeeded", "paid order 7")}
        assert attempts == [1, 2]
        assert "attempt_reset" not in await stage.event_types()
