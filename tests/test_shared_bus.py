"""A second stack on a bus is refused, since two would share requests between two ledgers."""

from pathlib import Path

import pytest

from local2.client.tools import call_tool
from local2.errors import BusError
from local2.stack.app import open_stack
from stacks import CALLER, settings_in

pytestmark = pytest.mark.usefixtures("worker_here")


async def test_a_second_stack_on_a_bus_is_refused_and_the_first_continues(
    tmp_path: Path, nats_url: str
) -> None:
    fact = {"topic": "project.deadline", "content": "Friday"}
    second = settings_in(tmp_path / "second", bus_url=nats_url)
    async with open_stack(settings_in(tmp_path / "first", bus_url=nats_url)) as first:
        with pytest.raises(BusError, match="Another stack serves the bus at") as caught:
            async with open_stack(second):
                pass
        assert caught.value.remedy is not None
        assert "config/bus.yaml" in caught.value.remedy
        assert not (second.memory.data_dir / "ledger.sqlite3").exists()

        await call_tool(first.bus, "save_topic", fact, caller=CALLER)
        recalled = await call_tool(
            first.bus, "recall_topic", {"topic": fact["topic"]}, caller=CALLER
        )
        assert recalled.content == "[Memory: project.deadline] Friday"

    async with open_stack(second) as alone:
        unknown = await call_tool(
            alone.bus, "recall_topic", {"topic": fact["topic"]}, caller=CALLER
        )
        assert unknown.content == "No memories found."
