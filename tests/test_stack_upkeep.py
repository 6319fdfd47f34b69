"""A stack counts recalls and consolidates by itself, and merged facts leave its index."""

from datetime import timedelta
from pathlib import Path

import pytest

from local2.client.tools import call_tool
from local2.ledger.search import Place
from local2.memory import access_log
from local2.memory.upkeep import consolidation
from local2.protocol.envelope import utc_now
from local2.stack.app import open_stack
from stacks import CALLER, contents, in_step, recall, settings_in, status
from waiting import eventually

pytestmark = pytest.mark.usefixtures("worker_here")
TEA = ("Ada likes green tea.", "ada likes green tea")


@pytest.fixture(autouse=True)
def _without_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_log, "WRITE_SECONDS", 0.0)
    monkeypatch.setattr(consolidation, "START_DELAY", 0.0)
    monkeypatch.setattr(consolidation, "CHECK_SECONDS", 0.02)


async def test_a_stack_counts_recalls_and_consolidates_and_the_run_can_be_undone(
    tmp_path: Path,
) -> None:
    async with open_stack(settings_in(tmp_path)) as stack:
        bus, memory = stack.bus, stack.memories.of_tenant("default")

        async def consolidated() -> bool:
            last = (await status(bus)).consolidation
            return last is not None and last.ended_at is not None

        await eventually(consolidated)
        for content in TEA:
            await call_tool(
                bus, "remember_fact", {"content": content, "scope": "user"}, caller=CALLER
            )
        await in_step(bus)

        assert len(contents(await recall(bus, "What does Ada like?"))) == 1

        async def counted() -> bool:
            facts = await memory.ledger.upkeep.facts(Place("user", "richard", "fact"), 0, 9)
            return sum(fact.recalls for fact in facts) == 1

        await eventually(counted)

        first = (await status(bus)).consolidation
        memory.clock = lambda: utc_now() + timedelta(hours=25)

        async def again() -> bool:
            last = (await status(bus)).consolidation
            return last != first and last is not None and last.changed > 0

        await eventually(again)
        run = (await status(bus)).consolidation
        assert run is not None
        await in_step(bus, records=1)
        assert contents(await recall(bus, "What does Ada like?")) == [TEA[1]]

        undone = await call_tool(bus, "undo", {"run": run.run}, caller=CALLER)

        assert undone.ok, undone.content
        await in_step(bus, records=2)
