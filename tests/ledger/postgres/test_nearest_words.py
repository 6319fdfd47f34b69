"""A large memory in PostgreSQL takes a word that no record has for the nearest one, too."""

import pytest

from ledgers import find, record, searching
from local2.ledger.engines.postgres.database import Database
from local2.ledger.ledger import Ledger
from local2.ledger.operations import working_sets


@pytest.mark.parametrize("asked", ["restaurnat", "restaurantbooked"])
async def test_a_mistyped_word_finds_what_is_meant_in_ones_own_records(
    here: Database, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.setattr(working_sets, "MAX_RECORDS", -1)
    await ledger.records.store([record("We booked a restaurant."), record("Lunch was late.")])
    await ledger.records.store([record("Restaurnat and restaurants of Eve.", owner="eve")])
    await Ledger(here, "other").records.store([record("A restaurnat of another tenant.")])

    assert (await find(ledger, searching(asked))).contents == {"We booked a restaurant."}
