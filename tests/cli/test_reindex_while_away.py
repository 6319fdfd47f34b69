"""`local2 reindex` waits for a ledger that cannot be read for a while, such as a database."""

from pathlib import Path

import msgspec
import pytest

from commands import answer, local2, remember, served
from local2.cli import upkeep
from local2.errors import StorageError
from local2.ledger.ledger import Ledger
from local2.ledger.operations.index import IndexedRecords
from local2.ledger.records import Counts
from stacks import settings_in

AWAY = StorageError("The database is away.")


def test_a_reindex_goes_on_once_the_ledger_can_be_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, queue_all = Ledger.counts, IndexedRecords.queue_all
    to_come = list[str]()

    async def queue_and_go_away(records: IndexedRecords) -> None:
        await queue_all(records)
        to_come.extend(["one waits", "away", "away"])

    async def counted(ledger: Ledger) -> Counts:
        match to_come.pop(0) if to_come else None:
            case "one waits":
                return msgspec.structs.replace(await counts(ledger), waiting=1)
            case "away":
                raise AWAY
        return await counts(ledger)

    monkeypatch.setattr(IndexedRecords, "queue_all", queue_and_go_away)
    monkeypatch.setattr(Ledger, "counts", counted)
    with served(settings_in(tmp_path)) as stack:
        remember(stack.folder, "Gold is heavy.", "ada")
        done = answer(stack.folder, "reindex")

    assert (done["records"], done["ledger_problem"]) == (1, None)
    assert to_come == []


def test_a_reindex_says_that_the_ledger_cannot_be_read_and_so_does_doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: Ledger) -> Counts:
        raise AWAY

    monkeypatch.setattr(upkeep, "LEDGER_PATIENCE", 0.0)
    monkeypatch.setattr(Ledger, "counts", fail)
    with served(settings_in(tmp_path)) as stack:
        refused = local2(stack.folder, "reindex")
        found = {one["name"]: one for one in answer(stack.folder, "doctor")}

    assert (refused.returncode, str(AWAY) in refused.stderr) == (1, True)
    assert found["index"]["detail"] == "The ledger cannot be read."
