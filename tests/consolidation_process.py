"""A memory in a process that kills itself at one step of a consolidation."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from backlog_process import kill_after, kill_amid, open_memory, wait_until_done
from ledgers import fact
from local2.ledger.operations.upkeep import Upkeep
from local2.ledger.records import EXTRACTED_FROM
from local2.logs import logging_to
from local2.memory.tenant import Memory
from local2.memory.upkeep import consolidation

LONG_AGO = datetime(2019, 1, 1, tzinfo=UTC)
FACTS = 62
"""Number of facts, of which a run retires three: a duplicate and two that have faded."""
STEPS = ("noted", "enriched", "weighed", "made")
"""Each after a later statement of a transaction: after the first, nothing could be stored yet."""


async def fill(memory: Memory) -> None:
    texts = ["Ada likes tea.", "ada likes tea", *(f"Item {n} was seen." for n in range(FACTS - 2))]
    for number, text in enumerate(texts):
        sources = {EXTRACTED_FROM: [f"m{number}"]}
        await memory.ledger.facts.store(fact(text, metadata=sources, event_time=LONG_AGO))
    memory.accesses.add([FACTS])
    await memory.accesses.write()
    await wait_until_done(memory)


def arm(step: str) -> None:
    """Make the process die at this step of the next consolidation."""
    if step == "noted":
        kill_amid("insert_audit")
    elif step == "enriched":
        kill_amid("insert_audit", lambda action, **_: action == "enriched")
    elif step == "weighed":
        kill_amid("change_importance")
    else:
        kill_after(Upkeep, "carry_out")


async def work(folder: Path, step: str) -> None:
    async with open_memory(folder) as (memory, _):
        await fill(memory)
        consolidation.CHANGES_PER_TRANSACTION = 2
        arm(step)
        await memory.consolidation.run_once()


def run(folder: Path, step: str) -> None:
    """Run as the process, until it dies."""
    with logging_to(folder / "killed.log"):
        asyncio.run(work(folder, step))
