"""A memory that is killed between any two steps of a task does each task exactly once."""

import signal
from pathlib import Path

import pytest

import backlog_process
from backlog_process import (
    BERLIN,
    FIRST_MESSAGE,
    LATER_MESSAGE,
    OTHER,
    PIANO,
    ROME,
    STEPS,
    STEPS_OF_EMBEDDING,
    STEPS_OF_READING,
    open_memory,
    wait_until_done,
)
from forking import exit_code
from local2.memory.tenant import Memory
from stored import select
from waiting import eventually


async def in_index(memory: Memory) -> list[str]:
    return sorted(await memory.vectors.ids(0, 99))


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        pytest.param(kind, step, id=f"{kind} {step}")
        for kind, steps in STEPS.items()
        for step in steps
    ],
)
async def test_a_kill_loses_no_task_and_repeats_none(tmp_path: Path, kind: str, step: str) -> None:
    assert await exit_code(backlog_process.run, tmp_path, kind, step) == -signal.SIGKILL

    async with open_memory(tmp_path) as (memory, database):
        await wait_until_done(memory)
        found = dict(await select(database, "SELECT content, id FROM record"))
        replaced = await select(database, "SELECT id, superseded_by FROM record ORDER BY row")
        supports = await select(database, "SELECT source, type, target FROM relation")
        audit = await select(database, "SELECT action, record_id FROM audit")
        vectors = await select(database, "SELECT count(*), count(DISTINCT record) FROM vector")
        indexed = await in_index(memory)

    piano, berlin, rome = (found[content] for content in (PIANO, BERLIN, ROME))
    assert replaced == [(piano, None), (berlin, rome), (rome, None)]
    assert supports == [(rome, "supports", piano)]
    assert audit == [("superseded", berlin)]
    assert vectors == [(3, 3)]
    assert indexed == sorted([piano, rome])


@pytest.mark.parametrize("step", STEPS_OF_READING)
async def test_a_kill_loses_no_message_and_extracts_no_fact_twice(
    tmp_path: Path, step: str
) -> None:
    assert await exit_code(backlog_process.run, tmp_path, "extract", step) == -signal.SIGKILL

    async with open_memory(tmp_path) as (memory, database):
        await wait_until_done(memory)
        messages = await select(database, "SELECT content FROM record WHERE kind = 'chat_message'")
        facts = await select(
            database, "SELECT content, superseded_by IS NULL FROM record WHERE kind = 'fact'"
        )
        sources = await select(database, "SELECT 1 FROM relation WHERE type = 'derived_from'")

    assert messages == [(FIRST_MESSAGE,), (LATER_MESSAGE,)]
    assert facts == [(FIRST_MESSAGE, 0), (LATER_MESSAGE, 1)]
    assert len(sources) == 2


@pytest.mark.parametrize("step", STEPS_OF_EMBEDDING)
async def test_a_kill_during_a_change_of_embedder_only_delays_it(tmp_path: Path, step: str) -> None:
    assert await exit_code(backlog_process.run, tmp_path, "embed", step) == -signal.SIGKILL

    async with open_memory(tmp_path) as (memory, database):
        await eventually(lambda: memory.indexer.embedder == OTHER, within=30)
        await wait_until_done(memory)
        active = "SELECT id FROM record WHERE superseded_by IS NULL"
        facts = sorted(id_ for (id_,) in await select(database, active))

        async def only_next_index() -> bool:
            return await select(database, "SELECT DISTINCT embedder FROM vector") == [(OTHER,)]

        await eventually(only_next_index)
        vectors = await select(
            database, "SELECT id FROM vector JOIN record ON record.row = vector.record ORDER BY id"
        )
        indexed = await in_index(memory)
        left = (await memory.vectors.status()).next

    assert indexed == [id_ for (id_,) in vectors] == facts
    assert len(facts) == 2
    assert left is None
