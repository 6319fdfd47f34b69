"""A killed consolidation leaves no partial change, and the next one continues."""

import json
import signal
from datetime import timedelta
from pathlib import Path

import pytest

import consolidation_process
from backlog_process import open_memory, wait_until_done
from consolidation_process import FACTS, STEPS
from forking import exit_code
from local2.ledger.engines.sqlite.database import Database
from local2.protocol.envelope import utc_now
from stored import records, select


async def count_audited_retirements(database: Database) -> int:
    """Return the number of retired facts; each change must have one audit row, and vice versa."""
    stored = await records(database)
    audit = await select(database, "SELECT record_id, action, detail FROM audit ORDER BY row")
    retired = {row["id"]: row["retired_why"] for row in stored if row["retired_why"]}
    noted = {
        record_id: action
        for record_id, action, _ in audit
        if action in {"archived", "merged", "contradicted"}
    }
    weighed = {row["id"]: row["importance"] for row in stored if row["importance"] != 0.5}
    weights = {
        record_id: json.loads(detail)["after"]
        for record_id, action, detail in audit
        if action == "importance"
    }
    enriched = [
        row["id"] for row in stored if len(json.loads(row["metadata"])["extracted_from"]) > 1
    ]
    assert retired == noted
    assert weighed == weights
    assert enriched == [record_id for record_id, action, _ in audit if action == "enriched"]
    assert len(enriched) == list(retired.values()).count("merged")
    return len(retired)


@pytest.mark.parametrize("step", STEPS)
async def test_a_kill_leaves_no_partial_change_and_the_next_run_continues(
    tmp_path: Path, step: str
) -> None:
    assert await exit_code(consolidation_process.run, tmp_path, step) == -signal.SIGKILL

    async with open_memory(tmp_path) as (memory, database):
        before = await count_audited_retirements(database)
        status = await memory.consolidation.status()
        assert status is not None
        assert status.ended_at is None
        assert before == (2 if step in {"weighed", "made"} else 0)

        memory.clock = lambda: utc_now() + timedelta(days=1)
        done = await memory.consolidation.run_once()

        assert done is not None
        assert done.changed > 0
        after = await count_audited_retirements(database)
        assert before < after <= before + 3
        await wait_until_done(memory)
        indexed = await memory.vectors.ids(0, 999)
        assert len(indexed) == FACTS - after
